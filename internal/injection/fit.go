package injection

import (
	"fmt"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
)

// Presence is whether a ConfigMap or Secret has a key.
type Presence int

// Presences.
const (
	Unknown Presence = iota
	Absent
	Present
)

// KeyLookup tells whether a ConfigMap ("ConfigMap") or Secret ("Secret") of the workload's namespace has a key. A nil KeyLookup knows nothing.
type KeyLookup func(kind, name, key string) Presence

// Refusal is why nothing is injected.
type Refusal struct {
	// Reason is one of those of status.workloads.
	Reason string
	// Message is for people.
	Message string
}

func refuse(reason, format string, values ...any) *Refusal {
	return &Refusal{reason, fmt.Sprintf(format, values...)}
}

// fit notes in an Injection what the containers of a template, which has none of it, have themselves. It returns why it can't be injected; nil if it
// can. Parts whose containers are not there are left out.
func (i *Injection) fit(template *corev1.PodTemplateSpec, keys KeyLookup, hasImageVolumes bool) *Refusal {
	if isWindows(&template.Spec) {
		return refuse(instrv1.WorkloadUnsupported, "its pods run Windows")
	}
	if i.Mode == instrv1.VolumeImage && !hasImageVolumes {
		return refuse(instrv1.WorkloadUnsupported,
			"the cluster has no image volumes (Kubernetes 1.35 has): spec.agent.volumeMode InitContainer does without")
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
				"container %s has a volume mounted at %s: spec.agent.mountPath %s needs a place of its own", part.Name, taken, i.MountPath)
		}
		if refusal := part.fit(container, keys); refusal != nil {
			return refusal
		}
		parts = append(parts, part)
	}
	i.Parts = parts
	return nil
}

// isWindows tells that pods run Windows. Most say so by the node that they want, and not by spec.os, which came later.
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

// mountedAround is where a container has something mounted at a path, above it or below it; empty if it has not.
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

// fit is that of an Injection, for one container.
func (p *Part) fit(container *corev1.Container, keys KeyLookup) *Refusal {
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

// formOf is the form in which a container has a variable; or why it can't be extended.
func formOf(container *corev1.Container, load *Load, keys KeyLookup) (Form, *Refusal) {
	if hasVariable(container.Env, load.helper()) {
		return "", refuse(instrv1.WorkloadVariableTaken, "container %s has a variable %s, which is needed to extend %s", container.Name,
			load.helper(), load.Name)
	}
	form, refusal := ownForm(container, load, keys)
	if refusal == nil && load.Separator == "" && form != FormAbsent {
		return "", refuse(instrv1.WorkloadVariableTaken, "container %s has %s already, which can name one agent only", container.Name, load.Name)
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
			"container %s takes %s from an optional key: without it the text that extends it would be wrong; "+
				"take optional out, or give a value", container.Name, load.Name)
	case container.Env[at].ValueFrom != nil:
		return FormValueFrom, nil
	case container.Env[at].Value == "":
		return FormEmpty, nil
	case load.ends(container.Env[at].Value):
		return "", refuse(instrv1.WorkloadVariableTaken, "container %s loads it already: its %s ends in %s", container.Name, load.Name, load.Text)
	}
	return FormValue, nil
}

// formFromSources is that of a variable which only envFrom can have.
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

// mayHave refuses to set a variable that the container may have from envFrom: its own would be lost.
func mayHave(container *corev1.Container, name string) *Refusal {
	return refuse(instrv1.WorkloadVariableUnknown,
		"container %s may have %s from what envFrom names (%s), and it is not known whether it has, for certain: "+
			"give env a variable %s, with a value or valueFrom", container.Name, name, strings.Join(sourceNames(container), ", "), name)
}

// fromSources tells whether a container has a variable from envFrom. What is optional may come and go, and so is not known if it is there.
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

// isOptional tells that a variable is not there at all where its source is missing.
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
