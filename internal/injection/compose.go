package injection

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
)

// Workload is a Deployment, StatefulSet or DaemonSet as far as injection is concerned.
type Workload struct {
	Kind, Namespace, Name string
	Labels, Annotations   map[string]string
	Template              *corev1.PodTemplateSpec
}

// String is "Deployment/web".
func (w *Workload) String() string { return w.Kind + "/" + w.Name }

// Setting is what is around the workloads of a namespace.
type NamespaceContext struct {
	// Agents are those that cover the namespace, as Sort orders them.
	Agents []*Agent
	// Declines tells that the namespace wants no agents.
	Declines bool
	// Off are the kinds of Instrumentations that are off: nothing is known of those, and what they have injected stays as it is.
	Off []string
	// Keys knows which keys ConfigMaps and Secrets have.
	Keys KeyLookup
	// HasImageVolumes tells that the cluster can mount images.
	HasImageVolumes bool
}

// Sort orders agents by who comes first where two match one container: those of the namespace before those of the cluster, then
// the older ones, then by name.
func Sort(agents []*Agent) {
	slices.SortFunc(agents, func(a, b *Agent) int {
		return cmp.Or(-cmp.Compare(a.Kind, b.Kind), a.created.Compare(b.created), cmp.Compare(a.Name, b.Name))
	})
}

// Declines tells whether annotations keep agents out.
func OptsOut(annotations map[string]string) bool {
	return strings.EqualFold(strings.TrimSpace(annotations[instrv1.AnnotationInject]), "false")
}

// State is what becomes of one agent in one workload.
type State int

// States.
const (
	// Unmatched: it is not for the workload.
	Unmatched State = iota
	// Refused: it can't be injected.
	Refused
	// Overruled: another comes first.
	Overruled
	// Waiting: the workload keeps what it has, until it is granted the new revision.
	Waiting
	// Failed: the revision failed elsewhere, and is kept out.
	Failed
	// Held: its spec is invalid, and what it has injected stays as it is.
	Retained
	// In: it is injected as its spec has it.
	In
)

// Verdict is what becomes of one agent in one workload.
type AgentStatus struct {
	State State
	// Refusal says why it is Refused or Overruled.
	Refusal *Refusal
}

// declines tells whether a workload, or its namespace, wants no agents.
func (s *NamespaceContext) optsOut(w *Workload) bool {
	return s.Declines || OptsOut(w.Annotations) || OptsOut(w.Template.Annotations)
}

// records are all Injections that may be in a template, and those of them that were there last. before is the template that it replaces.
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

// Compose makes a workload's template what it should be: it takes out what was injected, and injects what is wanted. before is the template that
// the write replaces, nil for none: an owner may have dropped the record. The verdicts are one for each agent of the setting.
func (s *NamespaceContext) Compose(w *Workload, before *corev1.PodTemplateSpec) []AgentStatus {
	recorded, last := records(w.Template, before)
	held := s.retained(w, last)
	remove(w.Template, recorded)
	write(w.Template, nil)
	verdicts := make([]AgentStatus, len(s.Agents))
	if s.optsOut(w) {
		return verdicts
	}
	held = s.refit(w, held)
	var effective []Injection
	var by []int
	taken := s.takenByRetained(w, held)
	for i, agent := range s.Agents {
		containers := agent.match(w)
		if of(held, agent.ID) != nil {
			verdicts[i].State = Retained
		}
		if len(containers) == 0 {
			continue
		}
		if first, name := takenBy(taken, w.Template, containers); first != "" {
			verdicts[i] = AgentStatus{Overruled, refuse(instrv1.WorkloadOverruled, "%s comes first on container %s", first, name)}
			continue
		}
		wanted := agent.build(w.Template, containers)
		if of(recorded, agent.ID) == nil && hasVolume(w.Template, partName(agent.ID)) {
			wanted.removeFrom(w.Template) // somebody has taken off the record, and nothing else
		}
		injection, verdict := s.choose(agent, w, wanted, of(last, agent.ID))
		verdicts[i] = verdict
		if injection == nil {
			continue // who comes next may go on until this one's turn comes
		}
		effective, by = append(effective, *injection), append(by, i)
		for _, part := range injection.Parts {
			taken[part.Name] = agent.String()
		}
	}
	for last := len(effective) - 1; last >= 0 && !hasRoom(w.Template, slices.Concat(held, effective)); last-- {
		effective = effective[:last]
		if verdict := &verdicts[by[last]]; verdict.State == In {
			*verdict = AgentStatus{Refused, refuse(instrv1.WorkloadTooLarge,
				"the annotations of its pod template leave no room for the record of what is injected: it has to be written there")}
		}
	}
	all := s.join(held, effective)
	for i := range all {
		all[i].putInto(w.Template)
	}
	write(w.Template, all)
	return verdicts
}

func hasVolume(template *corev1.PodTemplateSpec, name string) bool {
	return slices.ContainsFunc(template.Spec.Volumes, func(volume corev1.Volume) bool { return volume.Name == name })
}

// takenBy names who has the first of the containers that somebody has, and which it is; empty if nobody has one.
func takenBy(taken map[string]string, template *corev1.PodTemplateSpec, containers []matched) (by, name string) {
	for _, one := range containers {
		name := template.Spec.Containers[one.index].Name
		if by := taken[name]; by != "" {
			return by, name
		}
	}
	return "", ""
}

// choose says what is injected for an agent: what its spec says, what there was, or nothing.
func (s *NamespaceContext) choose(agent *Agent, w *Workload, wanted, had *Injection) (*Injection, AgentStatus) {
	isNew := !wanted.isSame(had)
	if !isNew {
		wanted.Revision, wanted.Previous = had.Revision, had.Previous
	} else if agent.isTried() {
		wanted.Previous = agent.fallback(had)
	}
	switch {
	case agent.HasFailed() && wanted.Revision == agent.Revision:
		if had != nil && had.Revision == agent.Revision {
			had = had.Previous
		}
		return s.keep(w, wanted, had), AgentStatus{State: Failed}
	case isNew && agent.isGated() && GrantOf(w.Annotations, agent.ID).Revision != agent.Revision:
		if had != nil {
			return s.keep(w, wanted, had), AgentStatus{State: Waiting}
		}
		// what can't be injected has no turn: it would be granted one again and again
		if refusal := wanted.fit(w.Template, s.Keys, s.HasImageVolumes); refusal != nil {
			return nil, AgentStatus{Refused, refusal}
		}
		return nil, AgentStatus{State: Waiting}
	}
	if refusal := wanted.fit(w.Template, s.Keys, s.HasImageVolumes); refusal != nil {
		return nil, AgentStatus{Refused, refusal}
	}
	return wanted, AgentStatus{State: In}
}

// fallback is what a new revision gives way to if it fails: what there was, or, where that has failed itself, what there was before.
func (a *Agent) fallback(had *Injection) *Injection {
	switch {
	case had == nil:
		return nil
	case a.Failed != "" && had.Revision == a.Failed:
		return had.Previous
	}
	fallback := *had
	fallback.Previous = nil
	return &fallback
}

// keep is what there was, of the containers that are still the agent's; nil if there was nothing, or it does not fit any more.
func (s *NamespaceContext) keep(w *Workload, wanted, had *Injection) *Injection {
	if had == nil {
		return nil
	}
	kept := *had
	kept.Parts = slices.DeleteFunc(slices.Clone(had.Parts), func(part Part) bool {
		return !slices.ContainsFunc(wanted.Parts, func(mine Part) bool { return mine.Name == part.Name })
	})
	if !s.canReapply(w, &kept) {
		return nil
	}
	return &kept
}

// takesAgain tells whether what a record says can be put into a template that has none of it, and leaves of it what is for containers that are there.
func (s *NamespaceContext) canReapply(w *Workload, recorded *Injection) bool {
	return recorded.isSound() && recorded.fit(w.Template, s.Keys, s.HasImageVolumes) == nil && len(recorded.Parts) > 0
}
