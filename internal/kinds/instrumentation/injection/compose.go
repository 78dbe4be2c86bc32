package injection

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

// Workload is a Deployment, StatefulSet or DaemonSet, as far as injection is concerned.
type Workload struct {
	Kind, Namespace, Name string
	Labels, Annotations   map[string]string
	Template              *corev1.PodTemplateSpec
}

// String returns, for example, "Deployment/web".
func (w *Workload) String() string { return w.Kind + "/" + w.Name }

// NamespaceContext is what injection needs to know about a namespace.
type NamespaceContext struct {
	// Agents are the agents that cover the namespace, in the order of Sort.
	Agents []*Agent
	// Declines reports that the namespace opts out of injection.
	Declines bool
	// Off are the disabled kinds of Instrumentations. Their objects are unknown, and what they
	// injected is retained.
	Off []string
	// Keys looks up keys of ConfigMaps and Secrets.
	Keys KeyLookup
	// HasImageVolumes reports that the cluster supports image volumes.
	HasImageVolumes bool
	// Rules are those of the PlatformPolicies that govern the namespace. Checked are an
	// agent's image, and the limits of its init container.
	Rules policy.Rules
	// RulesUnknown says why Rules could not be read; nil if they are known.
	RulesUnknown error
}

// Sort orders agents by precedence for the case that two match one container: Instrumentations
// before ClusterInstrumentations, then by age (oldest first), then by name.
func Sort(agents []*Agent) {
	slices.SortFunc(agents, func(a, b *Agent) int {
		return cmp.Or(-cmp.Compare(a.Kind, b.Kind), a.created.Compare(b.created), cmp.Compare(a.Name, b.Name))
	})
}

// OptsOut reports whether annotations keep agents out.
func OptsOut(annotations map[string]string) bool {
	return strings.EqualFold(strings.TrimSpace(annotations[instrv1.AnnotationInject]), "false")
}

// State is the result of composing one agent with one workload.
type State int

// The states.
const (
	// Unmatched: the agent does not match the workload.
	Unmatched State = iota
	// Refused: the agent can't be injected.
	Refused
	// Overruled: another Instrumentation takes precedence for the container.
	Overruled
	// Violating: a PlatformPolicy refuses the agent. The workload keeps what it has.
	Violating
	// Waiting: the workload keeps what it has until it is granted the new revision.
	Waiting
	// Failed: the revision failed on its canaries and is not injected.
	Failed
	// Retained: the spec is invalid or the kind is off, and what was injected stays as it is.
	Retained
	// In: the agent is injected as its spec says.
	In
)

// AgentStatus is the result of composing one agent with one workload.
type AgentStatus struct {
	State State
	// Refusal says why the agent is Refused, Overruled or Violating.
	Refusal *Refusal
	// Tolerated says which rules an agent violates that is injected all the same, because it was
	// injected before; empty if it violates none.
	Tolerated string
}

// optsOut reports whether a workload or its namespace opts out of injection.
func (s *NamespaceContext) optsOut(w *Workload) bool {
	return s.Declines || OptsOut(w.Annotations) || OptsOut(w.Template.Annotations)
}

// records returns all Injections that may be in a template, and those that were recorded last.
// before is the template that it replaces, or nil.
func records(template, before *corev1.PodTemplateSpec) (all, last []Injection) {
	recorded := Injected(template.Annotations)
	if before == nil || before.Annotations[instrv1.AnnotationInjected] == template.Annotations[instrv1.AnnotationInjected] {
		return recorded, recorded
	}
	earlier := Injected(before.Annotations)
	all = union(recorded, sparing(earlier, recorded))
	if recorded == nil {
		return all, earlier
	}
	return all, recorded
}

// Compose brings a workload's template to its desired state: it removes what was injected, and
// injects what is desired now. before is the template that the write replaces, or nil: an owner may
// have dropped the record. Compose returns one status for each of s.Agents.
func (s *NamespaceContext) Compose(w *Workload, before *corev1.PodTemplateSpec) []AgentStatus {
	s = s.exempting(w)
	recorded, last := records(w.Template, before)
	present := only(last, func(one Injection) bool { return one.isIn(w.Template) || before != nil && one.isIn(before) })
	retained := s.retained(w, only(last, func(one Injection) bool {
		return one.hasPlaceIn(w.Template) || before != nil && one.hasPlaceIn(before)
	}))
	remove(w.Template, recorded)
	write(w.Template, nil)
	statuses := make([]AgentStatus, len(s.Agents))
	if s.optsOut(w) {
		return statuses
	}
	retained = s.readaptAll(w, retained)
	var effective []Injection
	var by []int
	taken := s.takenByRetained(w, retained)
	for i, agent := range s.Agents {
		containers := agent.match(w)
		if of(retained, agent.ID) != nil {
			statuses[i].State = Retained
		}
		if len(containers) == 0 {
			continue
		}
		if first, name := takenBy(taken, w.Template, containers); first != "" {
			statuses[i] = AgentStatus{State: Overruled,
				Refusal: refuse(instrv1.WorkloadOverruled, "%s takes precedence for container %s", first, name)}
			continue
		}
		wanted := agent.build(w.Template, containers)
		if of(recorded, agent.ID) == nil && hasVolume(w.Template, partName(agent.ID)) {
			wanted.removeFrom(w.Template) // the record was deleted, and nothing else
		}
		injection, status := s.choose(agent, w, wanted, current{of(last, agent.ID), of(present, agent.ID), cmp.Or(before, w.Template)})
		statuses[i] = status
		if injection == nil {
			continue // the next agent may keep the container until this one is injected
		}
		statuses[i].Tolerated = policy.Sentence(s.violations(injection, w.Template))
		effective, by = append(effective, *injection), append(by, i)
		for _, part := range injection.Parts {
			taken[part.Name] = agent.String()
		}
	}
	for last := len(effective) - 1; last >= 0 && !hasRoom(w.Template, slices.Concat(retained, effective)); last-- {
		effective = effective[:last]
		if status := &statuses[by[last]]; status.State == In {
			*status = AgentStatus{State: Refused, Refusal: refuse(instrv1.WorkloadTooLarge,
				"the annotations of its pod template leave no room for the record of what is injected: all annotations together must be at "+
					"most 256 KiB")}
		}
	}
	all := s.join(retained, effective)
	for i := range all {
		all[i].putInto(w.Template)
	}
	write(w.Template, all)
	return statuses
}

func hasVolume(template *corev1.PodTemplateSpec, name string) bool {
	return slices.ContainsFunc(template.Spec.Volumes, func(volume corev1.Volume) bool { return volume.Name == name })
}

// takenBy returns the first of the containers that is taken, and by which Instrumentation; both are
// empty if all are free.
func takenBy(taken map[string]string, template *corev1.PodTemplateSpec, containers []matched) (by, name string) {
	for _, one := range containers {
		name := template.Spec.Containers[one.index].Name
		if by := taken[name]; by != "" {
			return by, name
		}
	}
	return "", ""
}

// current is what is injected now.
type current struct {
	// recorded is what the record says; nil if nothing. Users can write records.
	recorded *Injection
	// present is the same if it is really there, and nil otherwise. Policies tolerate nothing else.
	present *Injection
	// before is the template that contains it.
	before *corev1.PodTemplateSpec
}

// choose returns what to inject for an agent, and why. wanted is what the agent's spec says. had is
// what is injected now. The first row that applies decides:
//
//	the revision failed on its canaries        Failed     what preceded it, if policies allow that
//	a policy refuses the agent                 Violating  had
//	the workload is not granted the revision   Waiting    had
//	the agent can't be injected                Refused    nothing
//	otherwise                                  In         wanted
func (s *NamespaceContext) choose(agent *Agent, w *Workload, wanted *Injection, had current) (*Injection, AgentStatus) {
	recorded := had.recorded
	isNew := !wanted.isSame(recorded)
	if !isNew {
		wanted.Revision, wanted.Previous = recorded.Revision, recorded.Previous
	} else if agent.HasCanaries() {
		wanted.Previous = agent.fallback(recorded)
	}
	refusal := s.refuseByPolicy(wanted, w.Template, had)
	switch {
	case agent.HasFailed() && wanted.Revision == agent.Revision:
		return s.keep(w, wanted, s.undone(agent, recorded), had), AgentStatus{State: Failed}
	case refusal != nil:
		return s.keep(w, wanted, recorded, had), AgentStatus{State: Violating, Refusal: refusal}
	case isNew && agent.isGated() && GrantOf(w.Annotations, agent.ID).Revision != agent.Revision:
		if recorded != nil {
			return s.keep(w, wanted, recorded, had), AgentStatus{State: Waiting}
		}
		// An agent that can't be injected never waits: it would be granted again and again.
		if refusal := wanted.adaptTo(w.Template, s.Keys, s.HasImageVolumes); refusal != nil {
			return nil, AgentStatus{State: Refused, Refusal: refusal}
		}
		return nil, AgentStatus{State: Waiting}
	}
	if refusal := wanted.adaptTo(w.Template, s.Keys, s.HasImageVolumes); refusal != nil {
		return nil, AgentStatus{State: Refused, Refusal: refusal}
	}
	return wanted, AgentStatus{State: In}
}

// fallback returns what replaces a new revision if it fails: what was there before. If that is a
// failed revision too, or this one, whose containers the owner has changed since, it is what
// preceded it.
func (a *Agent) fallback(had *Injection) *Injection {
	switch {
	case had == nil:
		return nil
	case had.Revision == a.Revision || a.Failed != "" && had.Revision == a.Failed:
		return had.Previous
	}
	fallback := *had
	fallback.Previous = nil
	return &fallback
}

// undone returns what remains of the recorded when the agent's revision has failed: what preceded
// that revision. While the policies can't be read, which decide about it, a failed revision stays.
func (s *NamespaceContext) undone(agent *Agent, recorded *Injection) *Injection {
	if recorded == nil || recorded.Revision != agent.Revision || recorded.Previous != nil && s.RulesUnknown != nil {
		return recorded
	}
	return recorded.Previous
}

// keep returns earlier, which the record says is or was there, reduced to the containers that the
// agent still matches. It returns nil if nothing was there, it no longer fits, or policies refuse
// it in the new template.
func (s *NamespaceContext) keep(w *Workload, wanted, earlier *Injection, had current) *Injection {
	if earlier == nil || !s.mayKeep(earlier, w.Template, had) {
		return nil
	}
	kept := *earlier
	kept.Parts = slices.DeleteFunc(slices.Clone(earlier.Parts), func(part Part) bool {
		return !slices.ContainsFunc(wanted.Parts, func(mine Part) bool { return mine.Name == part.Name })
	})
	if !s.readapt(w, &kept) {
		return nil
	}
	return &kept
}

// readapt adapts a recorded Injection to a template from which it has been removed, and reports
// whether it can be injected again.
func (s *NamespaceContext) readapt(w *Workload, recorded *Injection) bool {
	return recorded.isSound() && recorded.adaptTo(w.Template, s.Keys, s.HasImageVolumes) == nil && len(recorded.Parts) > 0
}
