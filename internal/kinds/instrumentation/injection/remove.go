package injection

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// remove removes Injections from a template. It removes only what is exactly as it was injected:
// what an owner has changed stays.
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
	parts := make(map[string]*Part, len(i.Parts))
	for at := range i.Parts {
		parts[i.Parts[at].Name] = &i.Parts[at]
	}
	for at := range spec.Containers {
		container := &spec.Containers[at]
		container.VolumeMounts = without(container.VolumeMounts, func(one *corev1.VolumeMount) bool { return one.Name == name })
		if part := parts[container.Name]; part != nil {
			part.removeFrom(container)
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

// separate removes our form from a variable to which an owner has given another form while ours was
// injected. A server-side apply or patch merges the two field by field, and the API server refuses
// a variable with two forms.
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
	dropOurs(&own.FieldRef, ours.ValueFrom.FieldRef)
	dropOurs(&own.ConfigMapKeyRef, ours.ValueFrom.ConfigMapKeyRef)
	dropOurs(&own.SecretKeyRef, ours.ValueFrom.SecretKeyRef)
	if own != (corev1.EnvVarSource{}) {
		variable.ValueFrom = &own
	}
}

// dropOurs clears a source that is ours.
func dropOurs[T any](from **T, ours *T) {
	if *from != nil && ours != nil && digest(*from) == digest(ours) {
		*from = nil
	}
}

// removeFrom restores a variable's own form. An owner who applied the variable again while it was
// injected may have put a valueFrom next to our value; one who deleted it has left our helper.
func (l *Load) removeFrom(container *corev1.Container) {
	var source *corev1.EnvVarSource
	hasHelper := l.Form == FormValueFrom || l.Form == "" // "": the record is lost
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
	isLost := l.Form == "" // the record is lost, so any form is possible
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

// isEqual reports whether two variables are the same.
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

// without returns a list without the elements for which isSo is true. It returns nil if nothing is
// left, as for a list that was never set.
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
