package webapp

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
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
	problems = append(problems, validateTolerations(spec.Tolerations, path.Child("tolerations"))...)
	problems = append(problems, validateNodeSelector(spec.NodeSelector, path.Child("nodeSelector"))...)
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
	for _, name := range slices.Sorted(maps.Keys(resources.Requests)) {
		request := resources.Requests[name]
		if limit, limited := resources.Limits[name]; limited && request.Cmp(limit) > 0 {
			problems = append(problems, field.Invalid(path.Child("resources", "requests", string(name)), request.String(),
				fmt.Sprintf("must be at most the limit, %s (%s)", limit.String(), path.Child("resources", "limits", string(name)))))
		}
	}
	return problems
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
		problems = append(problems, field.Required(path, "must have one of httpGet, tcpSocket, grpc and exec"))
	case checks > 1:
		problems = append(problems, field.Forbidden(path, "must have only one of httpGet, tcpSocket, grpc and exec"))
	}
	return problems
}

var (
	effects   = []corev1.TaintEffect{"", corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}
	operators = []corev1.TolerationOperator{"", corev1.TolerationOpEqual, corev1.TolerationOpExists, corev1.TolerationOpLt,
		corev1.TolerationOpGt}
)

func validateTolerations(tolerations []corev1.Toleration, path *field.Path) field.ErrorList {
	var problems field.ErrorList
	for i, toleration := range tolerations {
		at := path.Index(i)
		if !slices.Contains(effects, toleration.Effect) {
			problems = append(problems, field.NotSupported(at.Child("effect"), toleration.Effect, effects[1:]))
		}
		isExists := toleration.Operator == corev1.TolerationOpExists
		switch {
		case !slices.Contains(operators, toleration.Operator):
			problems = append(problems, field.NotSupported(at.Child("operator"), toleration.Operator, operators[1:3]))
		case isExists && toleration.Value != "":
			problems = append(problems, field.Invalid(at.Child("value"), toleration.Value,
				"must be empty with the operator Exists: remove it, or use the operator Equal"))
		case !isExists && toleration.Key == "":
			problems = append(problems, field.Required(at.Child("key"), "is the key of the taint; only the operator Exists needs none"))
		}
		if toleration.TolerationSeconds != nil && toleration.Effect != corev1.TaintEffectNoExecute {
			problems = append(problems, field.Invalid(at.Child("effect"), toleration.Effect, "must be NoExecute with tolerationSeconds"))
		}
	}
	return problems
}

// validateNodeSelector requires values that labels of nodes can have.
func validateNodeSelector(labels map[string]string, path *field.Path) field.ErrorList {
	var problems field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if len(validation.IsValidLabelValue(labels[key])) > 0 {
			problems = append(problems, field.Invalid(path.Child(key), labels[key],
				"must be a label value: letters, digits, '-', '_' and '.', with a letter or digit at both ends"))
		}
	}
	return problems
}

// validateVolumes requires the names of what volumes refer to.
func validateVolumes(volumes []msappsv1.Volume, path *field.Path) field.ErrorList {
	var problems field.ErrorList
	for i := range volumes {
		given, at := &volumes[i], path.Index(i)
		if given.ConfigMap != nil && given.ConfigMap.Name == "" {
			problems = append(problems, field.Required(at.Child("configMap", "name"), "is the name of a ConfigMap of this namespace"))
		}
		if given.Secret != nil && given.Secret.SecretName == "" {
			problems = append(problems, field.Required(at.Child("secret", "secretName"), "is the name of a Secret of this namespace"))
		}
		if given.PersistentVolumeClaim != nil && given.PersistentVolumeClaim.ClaimName == "" {
			problems = append(problems, field.Required(at.Child("persistentVolumeClaim", "claimName"),
				"is the name of a PersistentVolumeClaim of this namespace"))
		}
	}
	return problems
}
