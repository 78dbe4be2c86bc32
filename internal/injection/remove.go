package injection

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// remove takes Injections out of a template. It takes what is exactly as it was injected: what the owner has put in its place stays.
func remove(template *corev1.PodTemplateSpec, injections []Injection) {
	for i := range injections {
		injections[i].removeFrom(template)
	}
}

func (i *Injection) removeFrom(template *corev1.PodTemplateSpec) {
	name := partName(i.ID)
	spec := &template.Spec
	spec.InitContainers = without(spec.InitContainers, func(one *corev1.Container) bool { return one.Name == name })
	spec.Volumes = without(spec.Volumes, func(one *corev1.Volume) bool { return one.Name == name })
	for at := range spec.Containers {
		container := &spec.Containers[at]
		container.VolumeMounts = without(container.VolumeMounts, func(one *corev1.VolumeMount) bool { return one.Name == name })
		for part := range i.Parts {
			if i.Parts[part].Name == container.Name {
				i.Parts[part].removeFrom(container)
			}
		}
	}
}

func (p *Part) removeFrom(container *corev1.Container) {
	for i := len(p.Load) - 1; i >= 0; i-- {
		p.Load[i].removeFrom(container)
	}
	if len(p.Env) == 0 {
		return
	}
	ours := make(map[string]*corev1.EnvVar, len(p.Env))
	for i := range p.Env {
		ours[p.Env[i].Name] = &p.Env[i]
	}
	for _, name := range p.Own {
		delete(ours, name)
	}
	container.Env = without(container.Env, func(one *corev1.EnvVar) bool {
		wanted := ours[one.Name]
		return wanted != nil && isEqual(one, wanted)
	})
	for i := range container.Env {
		if wanted := ours[container.Env[i].Name]; wanted != nil {
			separate(&container.Env[i], wanted)
		}
	}
}

// separate takes ours out of a variable that an owner has given his own form while ours was there: what he applies is merged with it field by field,
// and a variable with two forms is refused.
func separate(variable, ours *corev1.EnvVar) {
	from := variable.ValueFrom
	if from == nil {
		return
	}
	if ours.ValueFrom == nil {
		if variable.Value == ours.Value {
			variable.Value = ""
		}
		return
	}
	if variable.Value != "" && digest(from) == digest(ours.ValueFrom) {
		variable.ValueFrom = nil
		return
	}
	own := *from
	takeOut(&own.FieldRef, ours.ValueFrom.FieldRef)
	takeOut(&own.ConfigMapKeyRef, ours.ValueFrom.ConfigMapKeyRef)
	takeOut(&own.SecretKeyRef, ours.ValueFrom.SecretKeyRef)
	if own != (corev1.EnvVarSource{}) {
		variable.ValueFrom = &own
	}
}

// takeOut takes a source out that is ours.
func takeOut[T any](from **T, ours *T) {
	if *from != nil && ours != nil && digest(*from) == digest(ours) {
		*from = nil
	}
}

// removeFrom gives a variable back its own form. An owner who has applied it again, while it was injected, may have put its own source
// beside our value; one who has taken it out has left our helper.
func (l *Load) removeFrom(container *corev1.Container) {
	var source *corev1.EnvVarSource
	hasHelper := l.Form == FormValueFrom || l.Form == "" // not known: the record is lost
	if at := lastIndexOf(container.Env, l.helper()); at >= 0 && hasHelper && container.Env[at].ValueFrom != nil {
		source = container.Env[at].ValueFrom
		container.Env = slices.Delete(container.Env, at, at+1)
	}
	at := lastIndexOf(container.Env, l.Name)
	if at < 0 {
		container.Env = orNil(container.Env)
		return
	}
	variable := &container.Env[at]
	suffix := l.Separator + l.Text
	isLost := l.Form == "" // the record is: each form is possible
	switch {
	case (isLost || l.Form == FormValueFrom) && variable.Value == "$("+l.helper()+")"+suffix && source != nil:
		variable.Value = ""
		if variable.ValueFrom == nil {
			variable.ValueFrom = source
		}
	case (isLost || l.Form == FormValueFrom) && variable.Value == "$("+l.helper()+")"+suffix,
		(isLost || l.Form == FormEnvFrom) && variable.Value == "$("+l.Name+")"+suffix,
		(isLost || l.Form == FormAbsent || l.Form == FormEmpty) && variable.Value == l.Text:
		variable.Value = ""
		if variable.ValueFrom == nil && l.Form != FormEmpty {
			container.Env = orNil(slices.Delete(container.Env, at, at+1))
		}
	case (isLost || l.Form == FormValue) && l.Separator != "":
		variable.Value = strings.TrimSuffix(variable.Value, suffix)
	}
}

// isEqual tells whether two variables are the same.
func isEqual(a, b *corev1.EnvVar) bool {
	return a.Name == b.Name && a.Value == b.Value && (a.ValueFrom == nil) == (b.ValueFrom == nil) &&
		(a.ValueFrom == nil || digest(a.ValueFrom) == digest(b.ValueFrom))
}

func lastIndexOf(variables []corev1.EnvVar, name string) int {
	for i, variable := range slices.Backward(variables) {
		if variable.Name == name {
			return i
		}
	}
	return -1
}

// without is a list without what is so. It is nil where nothing is left, as a list is that was never there.
func without[T any](list []T, isSo func(*T) bool) []T {
	var kept []T
	for i := range list {
		if !isSo(&list[i]) {
			kept = append(kept, list[i])
		}
	}
	return kept
}

func orNil[T any](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	return list
}
