package cache

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
)

// programMemory is what our program in the server's container may take, beside spec.memory.
var programMemory = resource.MustParse("40Mi")

// podTemplate returns the pods' template.
func podTemplate(c *databasev1.Cache, observed Observed) corev1.PodTemplateSpec {
	d := Common(c, observed)
	volumes := d.SecretVolumes(corev1.BasicAuthUsernameKey, corev1.BasicAuthPasswordKey, previousKey)
	if c.Spec.Persistence == nil {
		volumes = append([]corev1.Volume{database.EmptyDir(database.DataVolume, "")}, volumes...)
	}
	return d.InstanceTemplate(observed.State, server(c, d), volumes, restartingParameters(c))
}

// server is the container with our program as its first process, and the server below it.
func server(c *databasev1.Cache, d *database.Database) corev1.Container {
	arguments := append(d.Arguments(), "--engine="+engine)
	if c.Spec.PlainPort != 0 {
		arguments = append(arguments, fmt.Sprintf("--plain-port=%d", c.Spec.PlainPort))
	}
	return corev1.Container{
		Name: ContainerName, Image: d.Image, Command: []string{database.Program}, Args: arguments,
		Env: database.PodVariables(), Ports: d.ContainerPorts(engine), Resources: resources(c),
		LivenessProbe: database.LivenessProbe(), ReadinessProbe: database.ReadinessProbe(),
		VolumeMounts: database.Mounts(), SecurityContext: database.ContainerSecurity(),
	}
}

// resources are those of the spec, with spec.memory and what our program takes beside it as request
// and limit: a server in memory is no good on a node that has none left.
func resources(c *databasev1.Cache) corev1.ResourceRequirements {
	memory := c.Spec.Memory.DeepCopy()
	memory.Add(programMemory)
	with := func(given corev1.ResourceList) corev1.ResourceList {
		all := corev1.ResourceList{}
		maps.Copy(all, given)
		all[corev1.ResourceMemory] = memory
		return all
	}
	made := *c.Spec.Resources.DeepCopy()
	made.Requests, made.Limits = with(made.Requests), with(made.Limits)
	return made
}
