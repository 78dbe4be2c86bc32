package postgresql

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
)

// Volumes of a pod, and where they are.
const (
	dataVolume, dataPath                 = "data", "/var/lib/mainstay"
	walVolume, walPath                   = "wal", "/var/lib/mainstay-wal"
	runVolume, runPath                   = "run", "/run/mainstay"
	certificatesVolume, certificatesPath = "certificates", "/etc/mainstay/certificates"
	applicationVolume, applicationPath   = "application", "/etc/mainstay/application"
	metricsVolume, metricsPath           = "metrics", "/etc/mainstay/metrics"
	programVolume, programPath           = "program", "/instance"
	temporaryVolume, temporaryPath       = "tmp", "/tmp"
	sharedVolume, sharedPath             = "shared-memory", "/dev/shm"
)

// gracePeriodSeconds is how long an instance may take to hand over, and to write what is in memory.
const gracePeriodSeconds = 120

// podTemplate returns the pods' template. Every byte of it matters: a change replaces all pods.
func podTemplate(db *databasev1.PostgreSQL, observed Observed) corev1.PodTemplateSpec {
	spec, user := &db.Spec, db.Spec.RunAsUser
	grace := int64(gracePeriodSeconds)
	onMismatch := corev1.FSGroupChangeOnRootMismatch
	return corev1.PodTemplateSpec{
		ObjectMeta: podMeta(db),
		Spec: corev1.PodSpec{
			InitContainers:     []corev1.Container{installer(observed)},
			Containers:         []corev1.Container{server(db, observed)},
			Volumes:            volumes(db),
			ServiceAccountName: AccountName(db.Name),
			ImagePullSecrets:   spec.ImagePullSecrets,
			SecurityContext: &corev1.PodSecurityContext{
				RunAsUser: &user, RunAsGroup: &user, FSGroup: &user, RunAsNonRoot: new(true), FSGroupChangePolicy: &onMismatch,
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			TerminationGracePeriodSeconds: &grace,
			EnableServiceLinks:            new(false),
			Affinity:                      apart(db),
			TopologySpreadConstraints:     spread(db),
			NodeSelector:                  spec.NodeSelector,
			Tolerations:                   spec.Tolerations,
			PriorityClassName:             spec.PriorityClassName,
		},
	}
}

// secure is what every container of the pod runs with.
func secure() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true), RunAsNonRoot: new(true),
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

// installer copies our program to where the server's container finds it.
func installer(observed Observed) corev1.Container {
	few := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi")}
	return corev1.Container{
		Name: installName, Image: observed.InstanceImage, Command: []string{"/mainstay-instance", "install", programPath},
		Resources:       corev1.ResourceRequirements{Requests: few, Limits: few},
		VolumeMounts:    []corev1.VolumeMount{{Name: programVolume, MountPath: programPath}},
		SecurityContext: secure(),
	}
}

// server is the container with our program as its first process, and the server below it.
func server(db *databasev1.PostgreSQL, observed Observed) corev1.Container {
	field := func(name, path string) corev1.EnvVar {
		from := &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path}
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: from}}
	}
	return corev1.Container{
		Name: ContainerName, Image: image(db, observed), Command: []string{programPath + "/mainstay-instance"}, Args: arguments(db),
		Env: []corev1.EnvVar{
			field("POD_NAME", "metadata.name"), field("POD_UID", "metadata.uid"), field("POD_IP", "status.podIP"),
			// For psql in the container: it finds the socket and the superuser.
			{Name: "PGHOST", Value: runPath}, {Name: "PGUSER", Value: "postgres"},
		},
		Ports: []corev1.ContainerPort{
			{Name: "postgresql", ContainerPort: serverPort, Protocol: corev1.ProtocolTCP},
			{Name: "peers", ContainerPort: peerPort, Protocol: corev1.ProtocolTCP},
			{Name: "probes", ContainerPort: probePort, Protocol: corev1.ProtocolTCP},
			{Name: metricsPortName, ContainerPort: metricsPort, Protocol: corev1.ProtocolTCP},
		},
		Resources:       db.Spec.Resources,
		LivenessProbe:   probe("/livez", 10, 6),
		ReadinessProbe:  probe("/readyz", 2, 3),
		VolumeMounts:    mounts(db),
		SecurityContext: secure(),
	}
}

// probe asks our program, every few seconds, which answers from memory.
func probe(path string, every, failures int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{
			HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromInt32(probePort), Scheme: corev1.URISchemeHTTP},
		},
		PeriodSeconds: every, FailureThreshold: failures, SuccessThreshold: 1, TimeoutSeconds: 5,
	}
}

func mounts(db *databasev1.PostgreSQL) []corev1.VolumeMount {
	all := []corev1.VolumeMount{
		{Name: dataVolume, MountPath: dataPath}, {Name: runVolume, MountPath: runPath},
		{Name: certificatesVolume, MountPath: certificatesPath, ReadOnly: true},
		{Name: applicationVolume, MountPath: applicationPath, ReadOnly: true},
		{Name: metricsVolume, MountPath: metricsPath, ReadOnly: true},
		{Name: programVolume, MountPath: programPath, ReadOnly: true},
		{Name: programVolume, MountPath: "/etc/passwd", SubPath: "passwd", ReadOnly: true},
		{Name: programVolume, MountPath: "/etc/group", SubPath: "group", ReadOnly: true},
		{Name: temporaryVolume, MountPath: temporaryPath}, {Name: sharedVolume, MountPath: sharedPath},
	}
	if db.Spec.WALStorage != nil {
		all = append(all, corev1.VolumeMount{Name: walVolume, MountPath: walPath})
	}
	return all
}

func volumes(db *databasev1.PostgreSQL) []corev1.Volume {
	empty := func(name string, medium corev1.StorageMedium) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: medium}}}
	}
	mode := int32(0o440)
	secret := func(volume, name string, items []corev1.KeyToPath) corev1.Volume {
		return corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{SecretName: name, Items: items, DefaultMode: &mode},
		}}
	}
	var items []corev1.KeyToPath
	for ordinal := range MaxReplicas {
		certificate, key := CertificateKeys(ordinal, false)
		folder := PodName(db.Name, ordinal)
		items = append(items, corev1.KeyToPath{Key: AuthorityKey, Path: folder + "/ca.crt"},
			corev1.KeyToPath{Key: certificate, Path: folder + "/tls.crt"}, corev1.KeyToPath{Key: key, Path: folder + "/tls.key"})
	}
	return []corev1.Volume{
		empty(runVolume, corev1.StorageMediumMemory), empty(programVolume, ""), empty(temporaryVolume, ""),
		empty(sharedVolume, corev1.StorageMediumMemory),
		secret(certificatesVolume, CertificatesName(db.Name), items),
		secret(applicationVolume, ApplicationName(db.Name), []corev1.KeyToPath{
			{Key: corev1.BasicAuthUsernameKey, Path: "username"}, {Key: corev1.BasicAuthPasswordKey, Path: "password"}, {Key: "dbname", Path: "dbname"},
		}),
		secret(metricsVolume, MetricsName(db.Name), nil),
	}
}

// apart lets the scheduler prefer nodes and zones without another instance. A spread constraint
// that only prefers would do nothing where nodes have no zone: the scheduler leaves nodes that lack
// one of the keys out of the scores of all constraints.
func apart(db *databasev1.PostgreSQL) *corev1.Affinity {
	if db.Spec.TopologySpread == databasev1.SpreadDisabled {
		return nil
	}
	const nodes, zones = 100, 50 // The other scores of a node have 0 to 100 each too.
	from := func(key string, weight int32) corev1.WeightedPodAffinityTerm {
		return corev1.WeightedPodAffinityTerm{Weight: weight, PodAffinityTerm: corev1.PodAffinityTerm{
			TopologyKey: key, LabelSelector: &metav1.LabelSelector{MatchLabels: part(db).Selector()},
		}}
	}
	return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
			from(corev1.LabelHostname, nodes), from(corev1.LabelTopologyZone, zones),
		},
	}}
}

// spread leaves an instance pending rather than put it on the node of another, if the user wants
// that.
func spread(db *databasev1.PostgreSQL) []corev1.TopologySpreadConstraint {
	if db.Spec.TopologySpread != databasev1.SpreadRequired {
		return nil
	}
	return []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule,
		LabelSelector: &metav1.LabelSelector{MatchLabels: part(db).Selector()},
	}}
}
