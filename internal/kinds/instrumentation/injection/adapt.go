package injection

import (
	"fmt"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
)

// Presence says whether a ConfigMap or Secret has a key.
type Presence int

// The presences.
const (
	Unknown Presence = iota
	Absent
	Present
)

// KeyLookup returns whether a "ConfigMap" or "Secret" of the workload's namespace has a key. With a
// nil KeyLookup everything is Unknown.
type KeyLookup func(kind, name, key string) Presence

// Refusal says why nothing is injected.
type Refusal struct {
	// Reason is one of the reasons of status.workloads.
	Reason string
	// Message is for humans.
	Message string
}

func refuse(reason, format string, values ...any) *Refusal {
	return &Refusal{reason, fmt.Sprintf(format, values...)}
}

// adaptTo adapts an Injection to a template that does not contain it: it records what the
// containers have themselves, and drops parts whose containers do not exist. It returns why the
// Injection can't be injected, or nil.
func (i *Injection) adaptTo(template *corev1.PodTemplateSpec, keys KeyLookup, hasImageVolumes bool) *Refusal {
	if isWindows(&template.Spec) {
		return refuse(instrv1.WorkloadUnsupported, "its pods run Windows")
	}
	if i.Mode == instrv1.VolumeImage && !hasImageVolumes {
		return refuse(instrv1.WorkloadUnsupported,
			"the cluster does not support image volumes (Kubernetes 1.35 does): set spec.agent.volumeMode to InitContainer")
	}
	var parts []Part
	for at := range i.Parts {
		part := i.Parts[at]
		container := containerOf(template, part.Name)
		if container == nil {
			continue
		}
		if taken := mountedAround(container, i.MountPath); taken != "" {
			return refuse(instrv1.WorkloadMountPathTaken,
				"container %s has a volume mounted at %s: spec.agent.mountPath %s must not overlap it", part.Name, taken, i.MountPath)
		}
		if refusal := part.adaptTo(container, keys); refusal != nil {
			return refusal
		}
		parts = append(parts, part)
	}
	i.Parts = parts
	return nil
}

// isWindows reports whether pods run Windows. Most declare it with a node selector, which is older
// than spec.os.
func isWindows(spec *corev1.PodSpec) bool {
	if spec.OS != nil {
		return spec.OS.Name == corev1.Windows
	}
	return spec.NodeSelector[corev1.LabelOSStable] == string(corev1.Windows)
}

func containerOf(template *corev1.PodTemplateSpec, name string) *corev1.Container {
	for i := range template.Spec.Containers {
		if template.Spec.Containers[i].Name == name {
			return &template.Spec.Containers[i]
		}
	}
	return nil
}

// mountedAround returns a path at, above or below wanted where a container has something mounted;
// empty if there is none.
func mountedAround(container *corev1.Container, wanted string) string {
	var paths []string
	for _, mount := range container.VolumeMounts {
		paths = append(paths, mount.MountPath)
	}
	for _, device := range container.VolumeDevices {
		paths = append(paths, device.DevicePath)
	}
	for _, given := range paths {
		taken := path.Join("/", given)
		if taken == wanted || taken == "/" || strings.HasPrefix(taken, wanted+"/") || strings.HasPrefix(wanted, taken+"/") {
			return given
		}
	}
	return ""
}

// adaptTo is Injection.adaptTo for one container.
func (p *Part) adaptTo(container *corev1.Container, keys KeyLookup) *Refusal {
	p.Own = nil
	for _, variable := range p.Env {
		is := Present
		if !hasVariable(container.Env, variable.Name) {
			is = fromSources(container, variable.Name, keys)
		}
		switch is {
		case Present:
			p.Own = append(p.Own, variable.Name)
		case Unknown:
			return mayHave(container, variable.Name)
		case Absent:
		}
	}
	loads := make([]Load, len(p.Load))
	for i, load := range p.Load {
		form, refusal := formOf(container, &load, keys)
		if refusal != nil {
			return refusal
		}
		load.Form = form
		loads[i] = load
	}
	p.Load = orNil(loads)
	return nil
}

// formOf returns the form in which a container has a variable, or why that variable can't be
// extended.
func formOf(container *corev1.Container, load *Load, keys KeyLookup) (Form, *Refusal) {
	if hasVariable(container.Env, load.helper()) {
		return "", refuse(instrv1.WorkloadVariableTaken, "container %s has a variable %s, which is needed to extend %s", container.Name,
			load.helper(), load.Name)
	}
	form, refusal := ownForm(container, load, keys)
	if refusal == nil && load.Separator == "" && form != FormAbsent {
		return "", refuse(instrv1.WorkloadVariableTaken, "container %s already sets %s, which can load one agent only", container.Name, load.Name)
	}
	return form, refusal
}

func ownForm(container *corev1.Container, load *Load, keys KeyLookup) (Form, *Refusal) {
	at := lastIndexOf(container.Env, load.Name)
	switch {
	case at < 0:
		return formFromSources(container, load, keys)
	case container.Env[at].ValueFrom != nil && isOptional(container.Env[at].ValueFrom):
		return "", refuse(instrv1.WorkloadVariableUnknown,
			"container %s takes %s from an optional key, without which the extended value would be wrong: "+
				"remove optional, or set a value", container.Name, load.Name)
	case container.Env[at].ValueFrom != nil:
		return FormValueFrom, nil
	case container.Env[at].Value == "":
		return FormEmpty, nil
	case load.ends(container.Env[at].Value):
		return "", refuse(instrv1.WorkloadVariableTaken, "container %s already loads the agent: its %s ends in %s", container.Name,
			load.Name, load.Text)
	}
	return FormValue, nil
}

// formFromSources returns the form of a variable that can only come from envFrom.
func formFromSources(container *corev1.Container, load *Load, keys KeyLookup) (Form, *Refusal) {
	switch fromSources(container, load.Name, keys) {
	case Absent:
		return FormAbsent, nil
	case Present:
		return FormEnvFrom, nil
	case Unknown:
	}
	return "", mayHave(container, load.Name)
}

// mayHave refuses to set a variable that the container may have from envFrom: the container's own
// value would be lost.
func mayHave(container *corev1.Container, name string) *Refusal {
	return refuse(instrv1.WorkloadVariableUnknown,
		"container %s may have %s from envFrom (%s), but whether it has can't be determined: "+
			"set %s in env, with a value or valueFrom", container.Name, name, strings.Join(sourceNames(container), ", "), name)
}

// fromSources returns whether a container has a variable from envFrom. An optional source may
// appear and disappear, so an existing one counts as Unknown.
func fromSources(container *corev1.Container, name string, keys KeyLookup) Presence {
	found := Absent
	for _, source := range container.EnvFrom {
		key, hasPrefix := strings.CutPrefix(name, source.Prefix)
		if !hasPrefix {
			continue
		}
		switch is, optional := lookup(source, key, keys); {
		case is == Unknown, is == Present && optional:
			return Unknown
		case is == Present:
			found = Present
		}
	}
	return found
}

func lookup(source corev1.EnvFromSource, key string, keys KeyLookup) (Presence, bool) {
	if keys == nil {
		return Unknown, false
	}
	if from := source.ConfigMapRef; from != nil {
		return keys("ConfigMap", from.Name, key), from.Optional != nil && *from.Optional
	}
	if from := source.SecretRef; from != nil {
		return keys("Secret", from.Name, key), from.Optional != nil && *from.Optional
	}
	return Unknown, false
}

func sourceNames(container *corev1.Container) []string {
	var names []string
	for _, source := range container.EnvFrom {
		if source.ConfigMapRef != nil {
			names = append(names, "ConfigMap "+source.ConfigMapRef.Name)
		}
		if source.SecretRef != nil {
			names = append(names, "Secret "+source.SecretRef.Name)
		}
	}
	return names
}

// isOptional reports whether a variable is missing altogether where its source is missing.
func isOptional(source *corev1.EnvVarSource) bool {
	switch {
	case source.ConfigMapKeyRef != nil:
		return source.ConfigMapKeyRef.Optional != nil && *source.ConfigMapKeyRef.Optional
	case source.SecretKeyRef != nil:
		return source.SecretKeyRef.Optional != nil && *source.SecretKeyRef.Optional
	case source.FileKeyRef != nil:
		return source.FileKeyRef.Optional != nil && *source.FileKeyRef.Optional
	}
	return false
}
