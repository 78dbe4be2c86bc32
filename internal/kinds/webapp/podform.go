package webapp

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/podspec"
)

// validatePod refuses what Kubernetes would refuse in the Deployment, or what keeps every pod from
// becoming ready, where that is a plausible mistake: the user then reads it at once, with the path
// in the WebApp. Kubernetes refuses the rest, and the condition Ready reports that. The fields are
// of Kubernetes' own types, so the schema can't have these rules.
func validatePod(spec *msappsv1.WebAppSpec, path *field.Path) field.ErrorList {
	problems := validateContainer(spec.Env, spec.Resources, path)
	probes := path.Child("probes")
	problems = append(problems, validateProbe(spec.Probes.Readiness, probes.Child("readiness"), portName)...)
	problems = append(problems, validateProbe(spec.Probes.Liveness, probes.Child("liveness"), portName)...)
	problems = append(problems, validateProbe(spec.Probes.Startup, probes.Child("startup"), portName)...)
	for i := range spec.InitContainers {
		given := &spec.InitContainers[i]
		problems = append(problems, validateContainer(given.Env, given.Resources, path.Child("initContainers").Index(i))...)
	}
	for i := range spec.Sidecars {
		given, at := &spec.Sidecars[i], path.Child("sidecars").Index(i)
		problems = append(problems, validateContainer(given.Env, given.Resources, at)...)
		problems = append(problems, validateProbe(given.StartupProbe, at.Child("startupProbe"), "")...)
	}
	problems = append(problems, podspec.CheckTolerations(spec.Tolerations, path.Child("tolerations"))...)
	problems = append(problems, podspec.CheckNodeSelector(spec.NodeSelector, path.Child("nodeSelector"))...)
	return append(problems, validateVolumes(spec.Volumes, path.Child("volumes"))...)
}

func validateContainer(env []corev1.EnvVar, resources corev1.ResourceRequirements, path *field.Path) field.ErrorList {
	var problems field.ErrorList
	for i, variable := range env {
		for _, problem := range validation.IsRelaxedEnvVarName(variable.Name) {
			problems = append(problems, field.Invalid(path.Child("env").Index(i).Child("name"), variable.Name, problem))
		}
		if variable.Value != "" && variable.ValueFrom != nil {
			problems = append(problems, field.Invalid(path.Child("env").Index(i).Child("valueFrom"), "",
				"must not be set together with value: remove one of them"))
		}
	}
	return append(problems, podspec.CheckResources(resources, path.Child("resources"))...)
}

// validateProbe requires exactly one kind of check, and a port that exists: a number, or the name
// of the container's only port. named is that name; empty if the container has no named port.
func validateProbe(probe *corev1.Probe, path *field.Path, named string) field.ErrorList {
	if probe == nil {
		return nil
	}
	var problems field.ErrorList
	checks := 0
	check := func(name string, port *intstr.IntOrString) {
		checks++
		if port == nil {
			return
		}
		at := path.Child(name, "port")
		switch {
		case port.Type == intstr.String && port.StrVal == "":
			problems = append(problems, field.Required(at, "must be the number of a port, for example 8080"))
		case port.Type == intstr.String && named == "":
			problems = append(problems, field.Invalid(at, port.StrVal, "must be a number: ports of this container have no names"))
		case port.Type == intstr.String && port.StrVal != named:
			problems = append(problems, field.Invalid(at, port.StrVal,
				fmt.Sprintf("must be %s, which is the name of spec.port, or the number of a port", named)))
		case port.Type == intstr.Int && len(validation.IsValidPortNum(int(port.IntVal))) > 0:
			problems = append(problems, field.Invalid(at, port.IntVal, "must be from 1 to 65535"))
		}
	}
	if probe.Exec != nil {
		check("exec", nil)
	}
	if probe.HTTPGet != nil {
		check("httpGet", &probe.HTTPGet.Port)
	}
	if probe.TCPSocket != nil {
		check("tcpSocket", &probe.TCPSocket.Port)
	}
	if probe.GRPC != nil {
		check("grpc", nil)
	}
	switch {
	case checks == 0:
		problems = append(problems, field.Required(path, "must have one of httpGet, tcpSocket, grpc or exec"))
	case checks > 1:
		problems = append(problems, field.Forbidden(path, "must have only one of httpGet, tcpSocket, grpc or exec"))
	}
	return problems
}

// validateVolumes requires the names of what volumes refer to.
func validateVolumes(volumes []msappsv1.Volume, path *field.Path) field.ErrorList {
	var problems field.ErrorList
	for i := range volumes {
		given, at := &volumes[i], path.Index(i)
		if given.ConfigMap != nil && given.ConfigMap.Name == "" {
			problems = append(problems, field.Required(at.Child("configMap", "name"), "must be the name of a ConfigMap of this namespace"))
		}
		if given.Secret != nil && given.Secret.SecretName == "" {
			problems = append(problems, field.Required(at.Child("secret", "secretName"), "must be the name of a Secret of this namespace"))
		}
		if given.PersistentVolumeClaim != nil && given.PersistentVolumeClaim.ClaimName == "" {
			problems = append(problems, field.Required(at.Child("persistentVolumeClaim", "claimName"),
				"must be the name of a PersistentVolumeClaim of this namespace"))
		}
	}
	return problems
}
