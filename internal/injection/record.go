package injection

import (
	"encoding/json"
	"path"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
)

// Injection is what one Instrumentation injects into one workload. As JSON it stands on the pod template, whole, so that it can be taken out
// whatever became of the Instrumentation, and put in again while a newer one waits for its turn.
type Injection struct {
	// By is the Instrumentation, "Instrumentation/java", ID its id.
	By string `json:"by"`
	ID string `json:"id"`
	// Revision is that of the Instrumentation which brought it first: one that changes nothing here keeps the earlier.
	Revision string `json:"revision"`
	// Previous is what there was before, while a revision is tried that may have to be taken back.
	Previous *Injection `json:"previous,omitempty"`
	// Image has the files.
	Image      string             `json:"image"`
	PullPolicy corev1.PullPolicy  `json:"pullPolicy"`
	Mode       instrv1.VolumeMode `json:"mode"`
	// Directory of the image, with an image volume.
	Directory string `json:"directory,omitempty"`
	// Command copies the files, with an init container.
	Command   []string                     `json:"command,omitempty"`
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
	SizeLimit *resource.Quantity           `json:"sizeLimit,omitempty"`
	MountPath string                       `json:"mountPath"`
	// Parts are the containers.
	Parts []Part `json:"containers"`
}

// Identity is that of the Instrumentation which a record in some namespace names.
func (i *Injection) Identity(namespace string) Identity {
	kind, name, _ := strings.Cut(i.By, "/")
	if kind == KindCluster {
		namespace = ""
	}
	return Identity{Kind: kind, Namespace: namespace, Name: name}
}

// Part is what is injected into one container.
type Part struct {
	Name string `json:"name"`
	// Env are variables. Own names those of them that the container has itself.
	Env []corev1.EnvVar `json:"env,omitempty"`
	Own []string        `json:"own,omitempty"`
	// Load are the variables that make the runtime load the agent.
	Load []Load `json:"load,omitempty"`
}

// Load is a variable that makes the runtime load the agent.
type Load struct {
	Name      string `json:"name"`
	Text      string `json:"text"`
	Separator string `json:"separator,omitempty"`
	// Form is that of the container's own variable.
	Form Form `json:"form"`
}

// absent are the variables that load the agent and that the container did not have.
func (p *Part) absent() []string {
	var names []string
	for _, load := range p.Load {
		if load.Form == FormAbsent {
			names = append(names, load.Name)
		}
	}
	return names
}

// Form is where a variable comes from that a container has already.
type Form string

// Forms.
const (
	// FormAbsent: the container has none, or its image has one, which nobody can see.
	FormAbsent Form = "absent"
	// FormEmpty: it has one without a value.
	FormEmpty Form = "empty"
	// FormValue: it has a value.
	FormValue Form = "value"
	// FormValueFrom: its value is taken from somewhere.
	FormValueFrom Form = "valueFrom"
	// FormEnvFrom: a whole ConfigMap or Secret is taken, which has it.
	FormEnvFrom Form = "envFrom"
)

// helperPrefix is put before the name of a variable: what was to be taken from somewhere is taken by the variable of that name.
const helperPrefix = "MAINSTAY_"

func (l *Load) helper() string { return helperPrefix + l.Name }

// value is what the variable gets, where the container's own has this value.
func (l *Load) value(own string) string {
	switch l.Form {
	case FormValue:
		return own + l.Separator + l.Text
	case FormValueFrom:
		return "$(" + l.helper() + ")" + l.Separator + l.Text
	case FormEnvFrom:
		return "$(" + l.Name + ")" + l.Separator + l.Text
	case FormAbsent, FormEmpty:
	}
	return l.Text
}

// ends tells that a value is as if it had been extended. An owner's own must not be: nobody could tell later that it was not.
func (l *Load) ends(value string) bool {
	return value == l.Text || l.Separator != "" && strings.HasSuffix(value, l.Separator+l.Text)
}

// partName is that of volume and init container.
func partName(id string) string { return "mainstay-agent-" + id }

// isSame tells whether two Injections do the same, but for what the containers have themselves.
func (i *Injection) isSame(other *Injection) bool {
	return other != nil && equality.Semantic.DeepEqual(i.withoutOwn(), other.withoutOwn())
}

func (i *Injection) withoutOwn() Injection {
	plain := *i
	plain.Revision, plain.Previous = "", nil
	plain.Parts = slices.Clone(i.Parts)
	for at := range plain.Parts {
		part := &plain.Parts[at]
		part.Own, part.Load = nil, slices.Clone(part.Load)
		for one := range part.Load {
			part.Load[one].Form = ""
		}
	}
	return plain
}

// isSound tells that what was read can be injected again: it stands where users can write.
func (i *Injection) isSound() bool {
	for _, part := range i.Parts {
		known := map[string]bool{}
		for _, load := range part.Load {
			if len(validation.IsEnvVarName(load.Name)) > 0 || load.Text == "" || known[load.Name] {
				return false
			}
			known[load.Name] = true
		}
		for _, variable := range part.Env {
			if len(validation.IsEnvVarName(variable.Name)) > 0 || known[variable.Name] {
				return false
			}
			known[variable.Name] = true
		}
	}
	isPlace := func(given string) bool { return given == path.Clean(given) && len(given) > 1 && given[0] == '/' }
	switch i.Mode {
	case instrv1.VolumeInitContainer:
		return i.Image != "" && isPlace(i.MountPath)
	case instrv1.VolumeImage:
		return i.Image != "" && isPlace(i.MountPath) && isPlace(i.Directory)
	}
	return false
}

// Injected reads what is injected into a template. What can't be read counts as nothing: somebody has tampered with it.
func Injected(annotations map[string]string) []Injection {
	text := annotations[instrv1.AnnotationInjected]
	if text == "" {
		return nil
	}
	var found []Injection
	if json.Unmarshal([]byte(text), &found) != nil || !isOurRecord(found) {
		return nil
	}
	for i := range found {
		if found[i].Previous != nil {
			found[i].Previous.Previous = nil
		}
	}
	return found
}

// Bounds of a record, above all that Mainstay writes. Whoever may write a workload may write a record, and must not keep the manager busy by it.
const (
	maxInjections = 100  // one for a container
	maxLoads      = 10   // dotnet needs 3
	maxEnv        = 3000 // 50 matchers and the agent, with 50 each
)

// isOurRecord tells that a record is of a shape that Mainstay writes: each Instrumentation once, each container once.
func isOurRecord(injections []Injection) bool {
	if len(injections) > maxInjections {
		return false
	}
	known := map[string]bool{}
	for i := range injections {
		id := "id " + injections[i].ID
		if known[id] {
			return false
		}
		known[id] = true
		for _, part := range injections[i].Parts {
			if known[part.Name] || len(part.Load) > maxLoads || len(part.Env) > maxEnv || len(part.Own) > len(part.Env) {
				return false
			}
			known[part.Name] = true
		}
	}
	return true
}

// Has tells whether something of an Instrumentation is in a template.
func Has(template *corev1.PodTemplateSpec, id string) bool {
	return of(Injected(template.Annotations), id) != nil
}

// of is the Injection of one Instrumentation; nil if there is none.
func of(injections []Injection, id string) *Injection {
	for i := range injections {
		if injections[i].ID == id {
			return &injections[i]
		}
	}
	return nil
}

// write writes down what is injected; nothing leaves no trace.
func write(template *corev1.PodTemplateSpec, injections []Injection) {
	if len(injections) == 0 {
		delete(template.Annotations, instrv1.AnnotationInjected)
		if len(template.Annotations) == 0 {
			template.Annotations = nil
		}
		return
	}
	if template.Annotations == nil {
		template.Annotations = map[string]string{}
	}
	template.Annotations[instrv1.AnnotationInjected] = string(encode(injections))
}

// hasRoom tells that a template, which has no record, may have this one: annotations are limited.
func hasRoom(template *corev1.PodTemplateSpec, injections []Injection) bool {
	size := len(instrv1.AnnotationInjected) + len(encode(injections))
	for key, value := range template.Annotations {
		size += len(key) + len(value)
	}
	return size <= apivalidation.TotalAnnotationSizeLimitB
}

func encode(injections []Injection) []byte {
	content, _ := json.Marshal(injections) // the types of the API can be encoded
	return content
}

// sparing are the Injections of the template that is replaced, without the variables that the new template has itself, as its own record says:
// a template that comes back may have a variable that was the owner's then, and is injected now.
func sparing(earlier, recorded []Injection) []Injection {
	own := map[string][]string{}
	for _, one := range recorded {
		for _, part := range one.Parts {
			own[part.Name] = append(own[part.Name], part.Own...)
		}
	}
	if len(own) == 0 {
		return earlier
	}
	earlier = slices.Clone(earlier)
	for i := range earlier {
		earlier[i].Parts = slices.Clone(earlier[i].Parts)
		for at := range earlier[i].Parts {
			part := &earlier[i].Parts[at]
			part.Own = slices.Concat(part.Own, own[part.Name])
		}
	}
	return earlier
}

// union are the Injections of several lists, each once.
func union(lists ...[]Injection) []Injection {
	var all []Injection
	for _, list := range lists {
		for _, one := range list {
			if !slices.ContainsFunc(all, func(known Injection) bool { return reflect.DeepEqual(known, one) }) {
				all = append(all, one)
			}
		}
	}
	return all
}
