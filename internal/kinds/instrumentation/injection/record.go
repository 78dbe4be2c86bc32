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
	"github.com/mainstay-platform/mainstay/internal/kit/bounded"
)

// Injection is what one Instrumentation injects into one workload. The pod template carries it in
// full, as JSON, so that it can be removed whatever happened to the Instrumentation, and injected
// again while a newer revision waits.
type Injection struct {
	// By is the Instrumentation, such as "Instrumentation/java"; ID is its identifier.
	By string `json:"by"`
	ID string `json:"id"`
	// Revision is the revision of the Instrumentation that first injected this. A later revision that
	// changes nothing here does not change it.
	Revision string `json:"revision"`
	// Previous is what was injected before, while a revision is on trial and may have to be undone.
	Previous *Injection `json:"previous,omitempty"`
	// Image contains the agent's files.
	Image      string             `json:"image"`
	PullPolicy corev1.PullPolicy  `json:"pullPolicy"`
	Mode       instrv1.VolumeMode `json:"mode"`
	// Directory is the directory in the image, for an image volume.
	Directory string `json:"directory,omitempty"`
	// Command copies the files, for an init container.
	Command   []string                     `json:"command,omitempty"`
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
	SizeLimit *resource.Quantity           `json:"sizeLimit,omitempty"`
	MountPath string                       `json:"mountPath"`
	// Parts are what is injected into the containers.
	Parts []Part `json:"containers"`
}

// Identity returns the identity of the Instrumentation that a record in a namespace names.
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
	// Env are the variables of the spec. Own names those that the container has itself.
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
	// Form is the form of the container's own variable.
	Form Form `json:"form"`
}

// Absent returns the names of the loading variables that the container did not have.
func (p *Part) Absent() []string {
	var names []string
	for _, load := range p.Load {
		if load.Form == FormAbsent {
			names = append(names, load.Name)
		}
	}
	return names
}

// Form says where a container's own variable gets its value.
type Form string

// The forms.
const (
	// FormAbsent: the container does not set it. Its image may, which can't be seen.
	FormAbsent Form = "absent"
	// FormEmpty: it has no value.
	FormEmpty Form = "empty"
	// FormValue: it has a literal value.
	FormValue Form = "value"
	// FormValueFrom: it has a valueFrom.
	FormValueFrom Form = "valueFrom"
	// FormEnvFrom: it comes from a ConfigMap or Secret in envFrom.
	FormEnvFrom Form = "envFrom"
)

// HelperPrefix is put before the name of a variable that has a valueFrom. The helper variable of
// that name takes over the valueFrom, and the variable itself refers to the helper.
const HelperPrefix = "MAINSTAY_"

func (l *Load) helper() string { return HelperPrefix + l.Name }

// value returns the value to set, given the container's own value.
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

// ends reports whether a value already looks extended. Such a value of an owner can't be extended:
// on removal, nothing would tell it from ours.
func (l *Load) ends(value string) bool {
	return value == l.Text || l.Separator != "" && strings.HasSuffix(value, l.Separator+l.Text)
}

// partName returns the name of the volume and the init container.
func partName(id string) string { return "mainstay-agent-" + id }

// isSame reports whether two Injections are equal, apart from revisions and what the containers
// have themselves.
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

// isSound reports whether a record that was read can be injected again. Users can write records.
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

// Injected returns what is injected into a template, by its record. An unreadable record counts as
// none: it was tampered with.
func Injected(annotations map[string]string) []Injection {
	text := annotations[instrv1.AnnotationInjected]
	if text == "" {
		return nil
	}
	var found []Injection
	if bounded.Unmarshal([]byte(text), maxRecord, &found) != nil || !isOurRecord(found) {
		return nil
	}
	for i := range found {
		if found[i].Previous != nil {
			found[i].Previous.Previous = nil
		}
	}
	return found
}

// Limits of a record, well above what Mainstay writes. Any client that may write a workload can
// write a record, and must not be able to keep the manager busy with it.
const (
	maxRecord     = 256 << 10 // bytes: the API server's limit for all annotations of an object
	maxInjections = 100       // one per container
	maxLoads      = 10        // dotnet needs 3
	maxEnv        = 3000      // 50 matchers and the agent, with 50 each
)

// isOurRecord reports whether a record has the shape that Mainstay writes: each Instrumentation
// once, each container once.
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

// InjectedBy returns what the Instrumentation with an id has injected into a template, by the
// template's record; nil for nothing.
func InjectedBy(annotations map[string]string, id string) *Injection {
	return of(Injected(annotations), id)
}

// of returns the Injection of one Instrumentation, or nil.
func of(injections []Injection, id string) *Injection {
	for i := range injections {
		if injections[i].ID == id {
			return &injections[i]
		}
	}
	return nil
}

// write sets the record, and deletes it if nothing is injected.
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

// hasRoom reports whether a template has room for this record: the API server limits the total size
// of annotations.
func hasRoom(template *corev1.PodTemplateSpec, injections []Injection) bool {
	size := len(instrv1.AnnotationInjected) + len(encode(injections)) + sizeOfOthers(template.Annotations)
	return size <= apivalidation.TotalAnnotationSizeLimitB
}

func encode(injections []Injection) []byte {
	content, _ := json.Marshal(injections) // the types of the API can be encoded
	return content
}

// sparing returns earlier, the Injections of the replaced template, without the variables that the
// new template's own record says are the owner's. A template that is restored by a rollback may
// contain as the owner's own a variable that has been injected since.
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

// union returns the Injections of several lists, each once.
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
