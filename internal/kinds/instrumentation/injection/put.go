package injection

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
)

// build returns what the agent injects into the containers that it matches.
func (a *Agent) build(template *corev1.PodTemplateSpec, containers []matched) *Injection {
	agent := &a.Spec.Agent
	injection := &Injection{
		By: a.String(), ID: a.ID, Revision: a.Revision, Image: agent.Image, PullPolicy: agent.ImagePullPolicy, Mode: agent.VolumeMode,
		MountPath: agent.MountPath,
	}
	if agent.VolumeMode == instrv1.VolumeImage {
		injection.Directory = agent.Directory
	} else {
		injection.Command, injection.Resources, injection.SizeLimit = agent.Command, agent.Resources, agent.SizeLimit
	}
	for _, one := range containers {
		part := Part{Name: template.Spec.Containers[one.index].Name, Env: one.env}
		for _, variable := range loaders(agent) {
			part.Load = append(part.Load, Load{Name: variable.name, Text: variable.text, Separator: variable.separator})
		}
		injection.Parts = append(injection.Parts, part)
	}
	return injection
}

// putInto adds the Injection to a template. It must fit.
func (i *Injection) putInto(template *corev1.PodTemplateSpec) {
	spec := &template.Spec
	spec.Volumes = append(slices.Clip(spec.Volumes), i.volume())
	if i.Mode != instrv1.VolumeImage {
		container := i.initContainer(containerOf(template, i.Parts[0].Name))
		container.Resources = i.resourcesIn(template)
		spec.InitContainers = append(slices.Clip(spec.InitContainers), container)
	}
	for at := range i.Parts {
		part := &i.Parts[at]
		container := containerOf(template, part.Name)
		mount := corev1.VolumeMount{Name: partName(i.ID), MountPath: i.MountPath, ReadOnly: true}
		if i.Mode == instrv1.VolumeImage {
			mount.SubPath = i.Directory[1:]
		}
		container.VolumeMounts = append(slices.Clip(container.VolumeMounts), mount)
		container.Env = slices.Clone(container.Env)
		for _, variable := range part.Env {
			if !slices.Contains(part.Own, variable.Name) {
				container.Env = append(container.Env, *variable.DeepCopy())
			}
		}
		for one := range part.Load {
			part.Load[one].putInto(container)
		}
	}
}

// volume returns the volume for the agent's files. It sets every field that the API server would
// default, because what is stored must be equal.
func (i *Injection) volume() corev1.Volume {
	volume := corev1.Volume{Name: partName(i.ID)}
	if i.Mode == instrv1.VolumeImage {
		volume.Image = &corev1.ImageVolumeSource{Reference: i.Image, PullPolicy: i.PullPolicy}
		return volume
	}
	volume.EmptyDir = &corev1.EmptyDirVolumeSource{}
	if i.SizeLimit != nil {
		volume.EmptyDir.SizeLimit = new(i.SizeLimit.DeepCopy())
	}
	return volume
}

// initContainer returns the init container that copies the files. It runs as the user of the
// container that needs them, so that this container may read them, and has no other privileges: it
// passes the restricted Pod Security Standard wherever that container does.
func (i *Injection) initContainer(as *corev1.Container) corev1.Container {
	container := corev1.Container{
		Name: partName(i.ID), Image: i.Image, ImagePullPolicy: i.PullPolicy, Command: slices.Clone(i.Command),
		VolumeMounts: []corev1.VolumeMount{{Name: partName(i.ID), MountPath: i.MountPath}},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
			Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		TerminationMessagePath: corev1.TerminationMessagePathDefault, TerminationMessagePolicy: corev1.TerminationMessageReadFile,
	}
	if own := as.SecurityContext; own != nil {
		own = own.DeepCopy()
		to := container.SecurityContext
		to.RunAsUser, to.RunAsGroup, to.RunAsNonRoot = own.RunAsUser, own.RunAsGroup, own.RunAsNonRoot
	}
	return container
}

// putInto extends the variable, or adds it after all others.
func (l *Load) putInto(container *corev1.Container) {
	at := lastIndexOf(container.Env, l.Name)
	if at < 0 {
		container.Env = append(container.Env, corev1.EnvVar{Name: l.Name, Value: l.value("")})
		return
	}
	variable := &container.Env[at]
	source := variable.ValueFrom
	variable.Value, variable.ValueFrom = l.value(variable.Value), nil
	if l.Form == FormValueFrom {
		container.Env = slices.Insert(container.Env, at, corev1.EnvVar{Name: l.helper(), ValueFrom: source})
	}
}
