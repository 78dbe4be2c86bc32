package webapp

import (
	"cmp"
	"path"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/mainstay-platform/mainstay/api"
	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/naming"
)

// podTemplate returns the pod template of the app. Every byte of it matters: a change replaces all
// pods.
func podTemplate(app *msappsv1.WebApp, observed Observed) corev1.PodTemplateSpec {
	spec := &app.Spec
	pods := selector(app, observed)
	bindings, _ := effectiveBindings(app, observed)
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{
			Labels: naming.Merged(plain(spec.Labels), plain(spec.PodMetadata.Labels), part(app).Labels(), pods, part(app).Owner()),
		},
		Spec: corev1.PodSpec{
			InitContainers:                initContainers(spec),
			Containers:                    []corev1.Container{appContainer(spec, bindings)},
			Volumes:                       append(volumes(spec), bindingVolumes(bindings)...),
			ServiceAccountName:            cmp.Or(spec.ServiceAccountName, app.Name),
			ImagePullSecrets:              spec.ImagePullSecrets,
			SecurityContext:               podSecurity(spec.SecurityProfile, spec.PodSecurityContext),
			TerminationGracePeriodSeconds: spec.TerminationGracePeriodSeconds,
			// Environment variables for every Service of the namespace are useless to an app with DNS, and
			// their number can keep it from starting.
			EnableServiceLinks:        new(false),
			TopologySpreadConstraints: spreadConstraints(spec.TopologySpread, pods),
			NodeSelector:              spec.NodeSelector,
			Tolerations:               spec.Tolerations,
			Affinity:                  spec.Affinity,
		},
	}
	if spec.ServiceAccountName == "" {
		template.Spec.AutomountServiceAccountToken = new(false)
	}
	annotations := naming.Merged(spec.Annotations, spec.PodMetadata.Annotations)
	if len(bindings) > 0 {
		annotations[api.AnnotationBindings] = boundAnnotation(bindings)
	}
	if spec.RestartedAt != nil {
		annotations[api.AnnotationRestartedAt] = spec.RestartedAt.UTC().Format(time.RFC3339)
	}
	if len(annotations) > 0 {
		template.Annotations = annotations
	}
	return template
}

func appContainer(spec *msappsv1.WebAppSpec, bindings []effective) corev1.Container {
	security := containerSecurity(spec.SecurityProfile, spec.SecurityContext)
	return corev1.Container{
		Name:            ContainerName,
		Image:           spec.Image,
		ImagePullPolicy: spec.ImagePullPolicy,
		Command:         spec.Command,
		Args:            spec.Args,
		Ports:           []corev1.ContainerPort{{Name: portName, ContainerPort: spec.Port, Protocol: corev1.ProtocolTCP}},
		Env:             append(bindingVariables(spec, bindings), spec.Env...),
		EnvFrom:         spec.EnvFrom,
		Resources:       spec.Resources,
		VolumeMounts:    withBindings(withTmp(security, spec.VolumeMounts), bindings),
		ReadinessProbe:  cmp.Or(spec.Probes.Readiness, defaultReadiness(spec.Port)),
		LivenessProbe:   spec.Probes.Liveness,
		StartupProbe:    spec.Probes.Startup,
		Lifecycle:       stopPause(*spec.TerminationGracePeriodSeconds),
		SecurityContext: security,
	}
}

// defaultReadiness connects to the port every 5 s, which every HTTP server can take. Three
// failures, so 15 s, remove the pod from the Service; one success adds it again.
func defaultReadiness(port int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:     corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(port)}},
		PeriodSeconds:    5,
		TimeoutSeconds:   2,
		SuccessThreshold: 1,
		FailureThreshold: 3,
	}
}

// longestStopPause is how long a pod continues to serve after it was asked to stop, in seconds:
// time for proxies and load balancers to remove it. Endpoints reach nodes within a second or two;
// ingress controllers batch their reloads for a few more.
const longestStopPause = 5

// stopPause returns the preStop hook for that pause, which is at most half of the grace period. The
// kubelet sleeps itself, so the image needs no shell (KEP-3960).
func stopPause(gracePeriodSeconds int64) *corev1.Lifecycle {
	pause := min(longestStopPause, gracePeriodSeconds/2)
	if pause == 0 {
		return nil
	}
	return &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: pause}}}
}

// initContainers returns the user's init containers, followed by the sidecars: these are init
// containers with restartPolicy Always, which start before the app and end after it (KEP-753).
func initContainers(spec *msappsv1.WebAppSpec) []corev1.Container {
	var containers []corev1.Container
	for _, given := range spec.InitContainers {
		containers = append(containers, helperContainer(spec.SecurityProfile, given))
	}
	for _, given := range spec.Sidecars {
		sidecar := helperContainer(spec.SecurityProfile, given)
		sidecar.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
		containers = append(containers, sidecar)
	}
	return containers
}

func helperContainer(profile msappsv1.SecurityProfile, given msappsv1.Container) corev1.Container {
	security := containerSecurity(profile, given.SecurityContext)
	return corev1.Container{
		Name:            given.Name,
		Image:           given.Image,
		ImagePullPolicy: given.ImagePullPolicy,
		Command:         given.Command,
		Args:            given.Args,
		Env:             given.Env,
		EnvFrom:         given.EnvFrom,
		Resources:       given.Resources,
		VolumeMounts:    withTmp(security, given.VolumeMounts),
		StartupProbe:    given.StartupProbe,
		SecurityContext: security,
	}
}

// withTmp returns the mounts and, if the root file system is read-only and nothing is mounted
// there, an empty /tmp. With a writable root it would hide the image's own /tmp.
func withTmp(security *corev1.SecurityContext, mounts []corev1.VolumeMount) []corev1.VolumeMount {
	isTmp := func(mount corev1.VolumeMount) bool { return path.Clean(mount.MountPath) == tmpPath }
	if !hasReadOnlyRoot(security) || slices.ContainsFunc(mounts, isTmp) {
		return mounts
	}
	return append(slices.Clone(mounts), corev1.VolumeMount{Name: tmpVolume, MountPath: tmpPath})
}

// needsTmp reports whether a container of the pod gets an empty /tmp.
func needsTmp(spec *msappsv1.WebAppSpec) bool {
	needs := func(security *corev1.SecurityContext, mounts []corev1.VolumeMount) bool {
		return len(withTmp(containerSecurity(spec.SecurityProfile, security), mounts)) > len(mounts)
	}
	helperNeeds := func(given msappsv1.Container) bool { return needs(given.SecurityContext, given.VolumeMounts) }
	return needs(spec.SecurityContext, spec.VolumeMounts) ||
		slices.ContainsFunc(spec.InitContainers, helperNeeds) || slices.ContainsFunc(spec.Sidecars, helperNeeds)
}

func volumes(spec *msappsv1.WebAppSpec) []corev1.Volume {
	var all []corev1.Volume
	for _, given := range spec.Volumes {
		all = append(all, corev1.Volume{Name: given.Name, VolumeSource: corev1.VolumeSource{
			ConfigMap:             given.ConfigMap,
			Secret:                given.Secret,
			Projected:             given.Projected,
			DownwardAPI:           given.DownwardAPI,
			EmptyDir:              given.EmptyDir,
			PersistentVolumeClaim: given.PersistentVolumeClaim,
			Ephemeral:             given.Ephemeral,
			CSI:                   given.CSI,
			Image:                 given.Image,
		}})
	}
	if needsTmp(spec) {
		all = append(all, corev1.Volume{Name: tmpVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	}
	return all
}

// spreadConstraints spread the pods of one template over zones and nodes. Pods of earlier templates
// do not count: otherwise a rolling update would concentrate the new ones.
func spreadConstraints(spread msappsv1.TopologySpread, pods map[string]string) []corev1.TopologySpreadConstraint {
	if spread == msappsv1.SpreadDisabled {
		return nil
	}
	over := func(key string, unsatisfiable corev1.UnsatisfiableConstraintAction) corev1.TopologySpreadConstraint {
		return corev1.TopologySpreadConstraint{
			MaxSkew:           1,
			TopologyKey:       key,
			WhenUnsatisfiable: unsatisfiable,
			LabelSelector:     &metav1.LabelSelector{MatchLabels: pods},
			MatchLabelKeys:    []string{"pod-template-hash"},
		}
	}
	nodes := over(corev1.LabelHostname, corev1.ScheduleAnyway)
	if spread == msappsv1.SpreadRequired {
		nodes = over(corev1.LabelHostname, corev1.DoNotSchedule)
		// A node that takes no pods, such as one that is drained, must not keep others from taking more.
		nodes.NodeTaintsPolicy = new(corev1.NodeInclusionPolicyHonor)
	}
	return []corev1.TopologySpreadConstraint{over(corev1.LabelTopologyZone, corev1.ScheduleAnyway), nodes}
}
