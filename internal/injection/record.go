package injection

import (
	"encoding/json"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
)

// Injection is what one Instrumentation injects into one workload. As JSON it stands on the pod template, whole, so that it can be taken out
// whatever became of the Instrumentation, and put in again while a newer one waits for its turn.
type Injection struct {
	// By is the Instrumentation, "Instrumentation/java", ID its id.
	By string `json:"by"`
	ID string `json:"id"`
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

// partName is that of volume and init container.
func partName(id string) string { return "mainstay-agent-" + id }

// isSame tells whether two Injections do the same, but for what the containers have themselves.
func (i *Injection) isSame(other *Injection) bool {
	return other != nil && digest(i.withoutOwn()) == digest(other.withoutOwn())
}

func (i *Injection) withoutOwn() Injection {
	plain := *i
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

// Injected reads what is injected into a template. What can't be read counts as nothing: somebody has tampered with it.
func Injected(annotations map[string]string) []Injection {
	text := annotations[instrv1.AnnotationInjected]
	if text == "" {
		return nil
	}
	var found []Injection
	if json.Unmarshal([]byte(text), &found) != nil {
		return nil
	}
	return found
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
	content, err := json.Marshal(injections)
	if err != nil {
		panic("marshalling what is injected: " + err.Error()) // the types can be marshalled
	}
	if template.Annotations == nil {
		template.Annotations = map[string]string{}
	}
	template.Annotations[instrv1.AnnotationInjected] = string(content)
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
