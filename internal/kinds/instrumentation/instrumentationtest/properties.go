package instrumentationtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/mainstay-platform/mainstay/api"
	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/injection"
)

// check is one random workload with two generations of Instrumentations.
type check struct {
	seed        uint64
	name        string
	annotations map[string]string
	labels      map[string]string
	owners      corev1.PodTemplateSpec
	old, next   *injection.NamespaceContext
	// injected is what the old context composes of the owner's template.
	injected corev1.PodTemplateSpec
	statuses []injection.AgentStatus
}

// Check generates a template and Instrumentations, and checks the promises of package injection on
// them. It returns how many Instrumentations were injected.
func Check(seed uint64) (int, error) {
	g := New(seed)
	c := check{seed: seed, name: g.Name(), owners: g.Template()}
	var err error
	if c.old, err = g.Setting(g.Objects("agent")); err != nil {
		return 0, err
	}
	if c.next, err = g.Setting(g.Objects(pick(g, "agent", "other"))); err != nil {
		return 0, err
	}
	c.annotations = Granted(&injection.NamespaceContext{Agents: slices.Concat(c.old.Agents, c.next.Agents)})
	c.injected, c.statuses = c.compose(c.old, &c.owners, nil)
	injected := 0
	for _, status := range c.statuses {
		if status.State == injection.In {
			injected++
		}
	}
	for _, property := range []struct {
		name string
		of   func() error
	}{
		{"injected twice is as once", c.twice}, {"removed is as the owner wrote it", c.removed}, {"the owner's stays", c.ownersStay},
		{"programs find what they found", c.environments}, {"a change is as if made anew", c.changed},
		{"what is stripped differs where the whole does", c.stripped}, {"names and places are unique", c.unique},
		{"all or nothing", c.whole}, {"a lost record is found again", c.lost}, {"what nobody can be asked about stays", c.retained},
	} {
		if err := property.of(); err != nil {
			return injected, fmt.Errorf("seed %d: %s: %w", seed, property.name, err)
		}
	}
	return injected, nil
}

// compose composes a copy.
func (c *check) compose(setting *injection.NamespaceContext, template, before *corev1.PodTemplateSpec) (corev1.PodTemplateSpec,
	[]injection.AgentStatus) {
	w := injection.Workload{
		Kind: "Deployment", Namespace: Namespace, Name: c.name, Labels: c.labels, Annotations: c.annotations, Template: template.DeepCopy(),
	}
	statuses := setting.Compose(&w, before)
	return *w.Template, statuses
}

// nothing returns a context without agents.
func nothing() *injection.NamespaceContext { return &injection.NamespaceContext{Keys: Keys} }

func (c *check) twice() error {
	for name, before := range map[string]*corev1.PodTemplateSpec{"by itself": nil, "over itself": &c.injected, "over the owner's": &c.owners} {
		again, _ := c.compose(c.old, &c.injected, before)
		if err := same(&again, &c.injected); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	again, _ := c.compose(c.old, &c.owners, &c.injected)
	return same(&again, &c.injected)
}

func (c *check) removed() error {
	unrecorded := c.injected.DeepCopy()
	delete(unrecorded.Annotations, instrv1.AnnotationInjected)
	for name, from := range map[string][2]*corev1.PodTemplateSpec{
		"by itself": {&c.injected, nil}, "over itself": {&c.injected, &c.injected}, "without the record": {unrecorded, &c.injected},
		"over the owner's": {&c.injected, &c.owners}, "of the owner's": {&c.owners, &c.injected},
	} {
		left, _ := c.compose(nothing(), from[0], from[1])
		if err := same(&left, &c.owners); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// ownersStay checks that everything of the owner is still there, without knowing how injection
// works.
func (c *check) ownersStay() error {
	bare := c.injected.DeepCopy()
	delete(bare.Annotations, instrv1.AnnotationInjected)
	bare.Spec.Volumes = slices.DeleteFunc(bare.Spec.Volumes, func(one corev1.Volume) bool { return isInjected(one.Name) })
	bare.Spec.InitContainers = slices.DeleteFunc(bare.Spec.InitContainers, func(one corev1.Container) bool { return isInjected(one.Name) })
	for i := range bare.Spec.Containers {
		container, own := &bare.Spec.Containers[i], &c.owners.Spec.Containers[i]
		container.VolumeMounts = slices.DeleteFunc(container.VolumeMounts, func(one corev1.VolumeMount) bool { return isInjected(one.Name) })
		if err := variablesStay(container.Env, own.Env); err != nil {
			return fmt.Errorf("container %s: %w", own.Name, err)
		}
		container.Env = own.Env
	}
	return same(bare, &c.owners)
}

// variablesStay checks that the owner's variables are there, in their order, with their own or
// extended values.
func variablesStay(variables, own []corev1.EnvVar) error {
	at := 0
	for _, variable := range variables {
		if at == len(own) {
			return nil
		}
		wanted := own[at]
		isOwn := variable.Name == wanted.Name && equal(variable.ValueFrom, wanted.ValueFrom) && strings.HasPrefix(variable.Value, wanted.Value)
		isMoved := variable.Name == wanted.Name && wanted.ValueFrom != nil && strings.HasPrefix(variable.Value, "$(MAINSTAY_"+variable.Name+")")
		if isOwn || isMoved {
			at++
		}
	}
	if at < len(own) {
		return fmt.Errorf("the owner's variable %s is not where it was", own[at].Name)
	}
	return nil
}

// environments compares the environments of processes with and without agents: loading variables
// are extended, and new variables belong to an agent.
func (c *check) environments() error {
	for i := range c.injected.Spec.Containers {
		container := &c.injected.Spec.Containers[i]
		before, after := Environment(&c.owners.Spec.Containers[i]), Environment(container)
		texts, added := c.wanted(container.Name)
		for name, value := range before {
			want := value
			if text, isLoader := texts[name]; isLoader {
				want = value + text.Separator + text.Text
				if value == "" && !strings.HasPrefix(after[name], text.Separator) {
					want = text.Text
				}
			}
			if after[name] != want {
				return fmt.Errorf("container %s: %s is %q, was %q, should be %q", container.Name, name, after[name], value, want)
			}
		}
		for name := range after {
			_, was := before[name]
			_, isLoader := texts[name]
			if !was && !isLoader && !added[name] && !strings.HasPrefix(name, "MAINSTAY_") {
				return fmt.Errorf("container %s: %s is new, and of no agent", container.Name, name)
			}
		}
		for name := range texts {
			if _, is := after[name]; !is {
				return fmt.Errorf("container %s: %s is missing", container.Name, name)
			}
		}
	}
	return nil
}

// wanted returns what the record says of a container.
func (c *check) wanted(container string) (map[string]injection.Load, map[string]bool) {
	loads, env := map[string]injection.Load{}, map[string]bool{}
	for _, one := range injection.Injected(c.injected.Annotations) {
		for _, part := range one.Parts {
			if part.Name != container {
				continue
			}
			for _, load := range part.Load {
				loads[load.Name] = load
			}
			for _, variable := range part.Env {
				env[variable.Name] = true
			}
		}
	}
	return loads, env
}

func (c *check) changed() error {
	anew, _ := c.compose(c.next, &c.owners, nil)
	for name, before := range map[string]*corev1.PodTemplateSpec{"by itself": nil, "over itself": &c.injected, "over the owner's": &c.owners} {
		changed, _ := c.compose(c.next, &c.injected, before)
		if err := same(withoutHistory(changed), withoutHistory(anew)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	// rollout undo: the old template over the new one
	back, _ := c.compose(c.next, &c.injected, &anew)
	if err := same(withoutHistory(back), withoutHistory(anew)); err != nil {
		return fmt.Errorf("the old one over the new one: %w", err)
	}
	left, _ := c.compose(nothing(), &c.injected, &anew)
	return same(&left, &c.owners)
}

func (c *check) stripped() error {
	for _, setting := range []*injection.NamespaceContext{c.old, c.next, nothing(), without(injection.KindCluster, c.next),
		withInvalid(c.next)} {
		for name, template := range map[string]*corev1.PodTemplateSpec{"owner's": &c.owners, "injected": &c.injected} {
			small := cached(template)
			whole, statuses := c.compose(setting, template, nil)
			composed, smallStatuses := c.compose(setting, &small, nil)
			if (same(&whole, template) == nil) != (same(&composed, &small) == nil) {
				return fmt.Errorf("%s: only one of both differs: %w", name, errors.Join(same(&whole, template), same(&composed, &small)))
			}
			if !equal(statuses, smallStatuses) {
				return fmt.Errorf("%s: statuses are %v of the whole, %v of what is stripped", name, statuses, smallStatuses)
			}
			if whole.Annotations[instrv1.AnnotationInjected] != composed.Annotations[instrv1.AnnotationInjected] {
				return fmt.Errorf("%s: the records differ: %s and %s", name, whole.Annotations, composed.Annotations)
			}
		}
	}
	return nil
}

// cached returns what the cache has of a template: annotations of others are not kept.
func cached(template *corev1.PodTemplateSpec) corev1.PodTemplateSpec {
	small := injection.Strip(template.DeepCopy())
	small.Labels = template.Labels
	for key, value := range template.Annotations {
		if !api.IsOurKey(key) {
			continue
		}
		if small.Annotations == nil {
			small.Annotations = map[string]string{}
		}
		small.Annotations[key] = value
	}
	return small
}

func (c *check) unique() error {
	spec := &c.injected.Spec
	var volumes, containers []string
	for _, volume := range spec.Volumes {
		volumes = append(volumes, volume.Name)
	}
	for _, container := range slices.Concat(spec.InitContainers, spec.Containers) {
		containers = append(containers, container.Name)
		var mounts []string
		for _, mount := range container.VolumeMounts {
			mounts = append(mounts, mount.MountPath)
			if !slices.Contains(volumes, mount.Name) {
				return fmt.Errorf("container %s mounts %s, which is not there", container.Name, mount.Name)
			}
		}
		if twice := duplicate(mounts); twice != "" {
			return fmt.Errorf("container %s mounts twice at %s", container.Name, twice)
		}
		for _, variable := range container.Env {
			if variable.Name == "" || variable.Value != "" && variable.ValueFrom != nil {
				return fmt.Errorf("container %s: variable %q has no name, or value and valueFrom", container.Name, variable.Name)
			}
		}
	}
	if twice := duplicate(volumes) + duplicate(containers); twice != "" {
		return fmt.Errorf("%s is there twice", twice)
	}
	return nil
}

func duplicate(names []string) string {
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			return name
		}
	}
	return ""
}

// whole checks that each Instrumentation is injected completely or not at all, and that no
// container has two.
func (c *check) whole() error {
	record := injection.Injected(c.injected.Annotations)
	by := map[string]string{}
	for i, status := range c.statuses {
		agent := c.old.Agents[i]
		at := slices.IndexFunc(record, func(one injection.Injection) bool { return one.ID == agent.ID })
		if (status.State == injection.In) != (at >= 0) {
			return fmt.Errorf("%s: state %d, and its place in the record is %d", agent, status.State, at)
		}
		if at < 0 {
			continue
		}
		for _, part := range record[at].Parts {
			if other, isTaken := by[part.Name]; isTaken {
				return fmt.Errorf("container %s has %s and %s", part.Name, other, agent)
			}
			by[part.Name] = agent.String()
		}
	}
	return nil
}

// lost deletes the record, and nothing else. If the owner has a variable that equals an agent's, or
// an empty one that is extended, nothing tells which is whose.
func (c *check) lost() error {
	for _, one := range injection.Injected(c.injected.Annotations) {
		for _, part := range one.Parts {
			isEmpty := slices.ContainsFunc(part.Load, func(load injection.Load) bool { return load.Form == injection.FormEmpty })
			if isEmpty || len(part.Own) > 0 {
				return nil
			}
		}
	}
	unrecorded := c.injected.DeepCopy()
	delete(unrecorded.Annotations, instrv1.AnnotationInjected)
	found, _ := c.compose(c.old, unrecorded, nil)
	return same(&found, &c.injected)
}

// without returns a context in which one of the kinds is off.
func without(kind string, setting *injection.NamespaceContext) *injection.NamespaceContext {
	rest := *setting
	rest.Off = []string{kind}
	rest.Agents = slices.DeleteFunc(slices.Clone(rest.Agents), func(agent *injection.Agent) bool { return agent.Kind == kind })
	return &rest
}

// withInvalid returns a context in which agents with an odd number in their name are invalid.
func withInvalid(setting *injection.NamespaceContext) *injection.NamespaceContext {
	rest := *setting
	rest.Agents = slices.Clone(rest.Agents)
	for i, agent := range rest.Agents {
		if strings.HasSuffix(agent.Name, "1") || strings.HasSuffix(agent.Name, "3") {
			invalid := *agent
			invalid.Invalid = errors.New("its spec is refused")
			rest.Agents[i] = &invalid
		}
	}
	return &rest
}

// retained makes the desired state of some Instrumentations unknown, and changes the others.
func (c *check) retained() error {
	unrecorded := c.injected.DeepCopy()
	delete(unrecorded.Annotations, instrv1.AnnotationInjected)
	anew, _ := c.compose(c.next, &c.owners, nil)
	ways := []struct {
		name string
		away func(*injection.NamespaceContext) *injection.NamespaceContext
	}{
		{"Instrumentations are off", func(setting *injection.NamespaceContext) *injection.NamespaceContext {
			return without(injection.KindNamespaced, setting)
		}},
		{"ClusterInstrumentations are off", func(setting *injection.NamespaceContext) *injection.NamespaceContext {
			return without(injection.KindCluster, setting)
		}},
		{"some are invalid", withInvalid},
	}
	way := ways[c.seed%uint64(len(ways))] // one per template is enough: all together take as long as everything else
	for what, from := range map[string][2]*corev1.PodTemplateSpec{
		"by itself": {&c.injected, nil}, "over the owner's": {&c.injected, &c.owners}, "without the record": {unrecorded, &c.injected},
	} {
		found, _ := c.compose(way.away(c.old), from[0], from[1])
		if err := same(&found, &c.injected); err != nil {
			return fmt.Errorf("%s, %s: %w", way.name, what, err)
		}
	}
	around, _ := c.compose(way.away(c.next), &c.injected, nil)
	again, _ := c.compose(way.away(c.next), &around, &c.injected)
	back, _ := c.compose(c.next, &around, nil)
	left, _ := c.compose(nothing(), &around, nil)
	alone := way.away(c.next)
	alone.Agents = slices.DeleteFunc(alone.Agents, func(agent *injection.Agent) bool { return agent.Invalid == nil })
	before, _ := c.compose(alone, &c.injected, nil)
	after, _ := c.compose(alone, &around, nil)
	if err := errors.Join(same(&after, &before), same(&again, &around), same(withoutHistory(back), withoutHistory(anew)),
		same(&left, &c.owners)); err != nil {
		return fmt.Errorf("%s, and the others are changed: %w", way.name, err)
	}
	return nil
}

func isInjected(name string) bool { return strings.HasPrefix(name, "mainstay-agent-") }

// withoutHistory removes from the record the revision that first injected an agent and what
// preceded it: they differ if a template is composed anew.
func withoutHistory(template corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
	injected := injection.Injected(template.Annotations)
	if len(injected) == 0 {
		return &template
	}
	for i := range injected {
		injected[i].Revision, injected[i].Previous = "", nil
	}
	plain := template.DeepCopy()
	plain.Annotations[instrv1.AnnotationInjected] = toJSON(injected)
	return plain
}

// same returns an error if two templates differ as they would be stored.
func same(a, b *corev1.PodTemplateSpec) error {
	if is, should := toJSON(a), toJSON(b); is != should {
		return fmt.Errorf("it is\n%s\nand should be\n%s", is, should)
	}
	return nil
}

func equal(a, b any) bool { return toJSON(a) == toJSON(b) }

func toJSON(value any) string {
	content, err := json.Marshal(value)
	if err != nil {
		panic(err) //nolint:forbidigo // the types of the API can be marshalled
	}
	return string(content)
}
