package database

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/mainstay-platform/mainstay/api"
	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/kit/naming"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// Volumes of every pod.
const (
	DataVolume         = "data"
	RunVolume          = "run"
	CertificatesVolume = "certificates"
	ApplicationVolume  = "application"
	MetricsVolume      = "metrics"
	ProgramVolume      = "program"
	TemporaryVolume    = "tmp"
)

// Where these volumes are.
const (
	DataPath         = "/var/lib/mainstay"
	RunPath          = "/run/mainstay"
	CertificatesPath = "/etc/mainstay/certificates"
	ApplicationPath  = "/etc/mainstay/application"
	MetricsPath      = "/etc/mainstay/metrics"
	ProgramPath      = "/instance"
	TemporaryPath    = "/tmp"
)

// Program is the path of our program in a pod.
const Program = ProgramPath + "/mainstay-instance"

// GracePeriodSeconds is how long an instance may take to hand over, and to write what is in memory.
const GracePeriodSeconds = 120

// StatefulSet keeps as many pods as decided. Their claims exist before them: the template of claims
// names them, and never changes, because a StatefulSet's can't. If a user deletes a claim, the
// StatefulSet's controller may be the first to make another, which consents to be taken over.
func (d *Database) StatefulSet(template corev1.PodTemplateSpec, live *appsv1.StatefulSet, pods int32) *appsv1.StatefulSet {
	meta := d.Meta(d.Name)
	meta.Annotations = naming.Merged(meta.Annotations, KeepProgram(&template, kept(live)))
	return &appsv1.StatefulSet{
		ObjectMeta: meta,
		Spec: appsv1.StatefulSetSpec{
			Replicas: &pods, ServiceName: contract.PeerServiceName(d.Name),
			Selector: d.selector(), Template: template, VolumeClaimTemplates: d.claimTemplates(live),
			// All start at once, and elect a leader. Only Decide replaces one.
			PodManagementPolicy: appsv1.ParallelPodManagement,
			UpdateStrategy:      appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType},
			PersistentVolumeClaimRetentionPolicy: &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
				WhenDeleted: appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
				WhenScaled:  appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
			},
		},
	}
}

// Kept is a StatefulSet or Deployment that exists.
type Kept struct {
	Annotations map[string]string
	Template    *corev1.PodTemplateSpec
}

// kept returns a StatefulSet, which may be nil.
func kept(live *appsv1.StatefulSet) Kept {
	if live == nil {
		return Kept{}
	}
	return Kept{live.Annotations, &live.Spec.Template}
}

// KeepProgram lets pods keep the image that brings their program, as long as nothing else of their
// template changes: an upgrade of Mainstay replaces no pod. live is what they are of, and has no
// template if it does not exist. It returns the annotations that what they are of is to have: the
// hash of everything else, and the image. A template that changes brings the program that fits it.
func KeepProgram(template *corev1.PodTemplateSpec, live Kept) map[string]string {
	programs := &template.Spec.InitContainers[0]
	installed := programs.Image
	programs.Image = ""
	text, _ := json.Marshal(template) // It has nothing that can't be encoded.
	hash := workload.HashKey(text)
	programs.Image = installed
	if live.Template != nil && live.Annotations[api.AnnotationTemplate] == hash {
		programs.Image = live.program(installed)
	}
	return map[string]string{api.AnnotationTemplate: hash, api.AnnotationProgram: programs.Image}
}

// program returns the image that brings the program of pods whose template stays:
//
//	the container's image   AnnotationProgram   what is used
//	the installed one       any                 the installed one
//	any other               none                the container's: of an earlier release
//	any other, or none      an image            the annotation's: the container may be edited
func (k Kept) program(installed string) string {
	chosen := k.Annotations[api.AnnotationProgram]
	for _, container := range k.Template.Spec.InitContainers {
		if container.Name == InstallName && (container.Image == installed || chosen == "") {
			return cmp.Or(container.Image, installed)
		}
	}
	return cmp.Or(chosen, installed)
}

// Arguments are those of our program in every pod; a kind adds what its engine needs.
func (d *Database) Arguments() []string {
	return []string{
		"run", "--database=" + d.Name, "--namespace=" + d.Namespace, "--pod=$(POD_NAME)", "--pod-uid=$(POD_UID)", "--advertise=$(POD_IP)",
		"--volume=" + DataPath, "--run=" + RunPath, "--certificates=" + CertificatesPath + "/$(POD_NAME)",
		fmt.Sprintf("--port=%d", d.Ports[0].Number), fmt.Sprintf("--peer-port=%d", PeerPort), fmt.Sprintf("--probes=:%d", ProbePort),
		fmt.Sprintf("--metrics=:%d", d.MetricsPort), "--metrics-credentials=" + MetricsPath,
	}
}

// InstanceTemplate returns the template of the instances' pods, with these volumes beside those
// that go with a pod. parameters is the ParametersHash of those that take effect with a start of
// the server only. Every byte of the template matters: a change replaces all pods.
func (d *Database) InstanceTemplate(
	observed State, server corev1.Container, volumes []corev1.Volume, parameters string,
) corev1.PodTemplateSpec {
	annotations := map[string]string{}
	if at := d.Pods.RestartedAt; at != nil {
		annotations[api.AnnotationRestartedAt] = at.UTC().Format("2006-01-02T15:04:05Z")
	}
	if parameters != "" {
		annotations[api.AnnotationParameters] = parameters
	}
	spec := d.PodSpec(observed, server, volumes)
	spec.ServiceAccountName, spec.TerminationGracePeriodSeconds = AccountName(d.Name), new(int64(GracePeriodSeconds))
	return corev1.PodTemplateSpec{ObjectMeta: d.PodMeta(annotations), Spec: spec}
}

// ParametersHash returns a hash of names and values, in this order; "" if there are none.
func ParametersHash(parameters iter.Seq2[string, string]) string {
	hash, isEmpty := sha256.New(), true
	for name, value := range parameters {
		isEmpty = false
		hash.Write([]byte(strconv.Quote(name) + "=" + strconv.Quote(value) + "\n"))
	}
	if isEmpty {
		return ""
	}
	const shown = 8 // bytes
	return hex.EncodeToString(hash.Sum(nil)[:shown])
}

// PodSpec returns what all pods have in common. The container runs our program.
func (d *Database) PodSpec(observed State, container corev1.Container, volumes []corev1.Volume) corev1.PodSpec {
	return corev1.PodSpec{
		InitContainers:            []corev1.Container{installer(observed)},
		Containers:                []corev1.Container{container},
		Volumes:                   append(scratchVolumes(), volumes...),
		ImagePullSecrets:          d.Pods.ImagePullSecrets,
		SecurityContext:           podSecurity(d.Pods.RunAsUser),
		EnableServiceLinks:        new(false),
		Affinity:                  d.apart(),
		TopologySpreadConstraints: d.spread(),
		NodeSelector:              d.Pods.NodeSelector,
		Tolerations:               d.Pods.Tolerations,
		PriorityClassName:         d.Pods.PriorityClassName,
	}
}

// podSecurity is what all pods run with, as this user.
func podSecurity(user int64) *corev1.PodSecurityContext {
	onMismatch := corev1.FSGroupChangeOnRootMismatch
	return &corev1.PodSecurityContext{
		RunAsUser: &user, RunAsGroup: &user, FSGroup: &user, RunAsNonRoot: new(true), FSGroupChangePolicy: &onMismatch,
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

// ContainerSecurity is what every container of a pod runs with.
func ContainerSecurity() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true), RunAsNonRoot: new(true),
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

// installer copies our program to where the server's container finds it.
func installer(observed State) corev1.Container {
	few := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi")}
	return corev1.Container{
		Name: InstallName, Image: observed.InstanceImage, Command: []string{"/mainstay-instance", "install", ProgramPath},
		Resources:       corev1.ResourceRequirements{Requests: few, Limits: few},
		VolumeMounts:    []corev1.VolumeMount{{Name: ProgramVolume, MountPath: ProgramPath}},
		SecurityContext: ContainerSecurity(),
	}
}

// PodVariables are the variables of the environment that Arguments refer to.
func PodVariables() []corev1.EnvVar {
	field := func(name, path string) corev1.EnvVar {
		from := &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path}
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: from}}
	}
	return []corev1.EnvVar{field("POD_NAME", "metadata.name"), field("POD_UID", "metadata.uid"), field("POD_IP", "status.podIP")}
}

// ContainerPorts are those of the server's container; the first one has this name.
func (d *Database) ContainerPorts(first string) []corev1.ContainerPort {
	var all []corev1.ContainerPort
	add := func(name string, number int32) {
		all = append(all, corev1.ContainerPort{Name: name, ContainerPort: number, Protocol: corev1.ProtocolTCP})
	}
	for i, port := range d.Ports {
		if i == 0 {
			port.Name = first
		}
		add(port.Name, port.Number)
	}
	add("peers", PeerPort)
	add("probes", ProbePort)
	add(MetricsPortName, d.MetricsPort)
	return all
}

// LivenessProbe asks whether our program works.
func LivenessProbe() *corev1.Probe { return probe("/livez", 10, 6) }

// ReadinessProbe asks whether the instance takes connections.
func ReadinessProbe() *corev1.Probe { return probe("/readyz", 2, 3) }

// probe asks our program, every few seconds, which answers from memory.
func probe(path string, every, failures int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{
			HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromInt32(ProbePort), Scheme: corev1.URISchemeHTTP},
		},
		PeriodSeconds: every, FailureThreshold: failures, SuccessThreshold: 1, TimeoutSeconds: 5,
	}
}

// Mounts are those of the server's container in every pod.
func Mounts() []corev1.VolumeMount {
	return []corev1.VolumeMount{
		{Name: DataVolume, MountPath: DataPath}, {Name: RunVolume, MountPath: RunPath},
		{Name: CertificatesVolume, MountPath: CertificatesPath, ReadOnly: true},
		{Name: ApplicationVolume, MountPath: ApplicationPath, ReadOnly: true},
		{Name: MetricsVolume, MountPath: MetricsPath, ReadOnly: true},
		{Name: ProgramVolume, MountPath: ProgramPath, ReadOnly: true},
		{Name: ProgramVolume, MountPath: "/etc/passwd", SubPath: "passwd", ReadOnly: true},
		{Name: ProgramVolume, MountPath: "/etc/group", SubPath: "group", ReadOnly: true},
		{Name: TemporaryVolume, MountPath: TemporaryPath},
	}
}

// EmptyDir is a volume that goes with its pod.
func EmptyDir(name string, medium corev1.StorageMedium) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: medium}}}
}

// scratchVolumes are those of every pod that go with it.
func scratchVolumes() []corev1.Volume {
	return []corev1.Volume{
		EmptyDir(RunVolume, corev1.StorageMediumMemory), EmptyDir(ProgramVolume, ""), EmptyDir(TemporaryVolume, ""),
	}
}

// SecretVolumes are the certificates of all instances, in a folder for each, these keys of the
// Secret with which an application connects, and the credentials of the metrics.
func (d *Database) SecretVolumes(keys ...string) []corev1.Volume {
	mode := int32(0o440)
	secret := func(volume, name string, items []corev1.KeyToPath) corev1.Volume {
		return corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{SecretName: name, Items: items, DefaultMode: &mode},
		}}
	}
	var certificates, application []corev1.KeyToPath
	for ordinal := range MaxReplicas {
		certificate, key := CertificateKeys(ordinal, false)
		folder := PodName(d.Name, ordinal)
		certificates = append(certificates, corev1.KeyToPath{Key: AuthorityKey, Path: folder + "/ca.crt"},
			corev1.KeyToPath{Key: certificate, Path: folder + "/tls.crt"}, corev1.KeyToPath{Key: key, Path: folder + "/tls.key"})
	}
	for _, key := range keys {
		application = append(application, corev1.KeyToPath{Key: key, Path: key})
	}
	return []corev1.Volume{
		secret(CertificatesVolume, CertificatesName(d.Name), certificates), secret(ApplicationVolume, ApplicationName(d.Name), application),
		secret(MetricsVolume, MetricsName(d.Name), nil),
	}
}

// apart lets the scheduler prefer nodes and zones without another instance. A spread constraint
// that only prefers would do nothing where nodes have no zone: the scheduler leaves nodes that lack
// one of the keys out of the scores of all constraints.
func (d *Database) apart() *corev1.Affinity {
	if d.TopologySpread == databasev1.SpreadDisabled {
		return nil
	}
	const nodes, zones = 100, 50 // The other scores of a node have 0 to 100 each too.
	from := func(key string, weight int32) corev1.WeightedPodAffinityTerm {
		return corev1.WeightedPodAffinityTerm{Weight: weight, PodAffinityTerm: corev1.PodAffinityTerm{
			TopologyKey: key, LabelSelector: &metav1.LabelSelector{MatchLabels: d.Part.Selector()},
		}}
	}
	return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
			from(corev1.LabelHostname, nodes), from(corev1.LabelTopologyZone, zones),
		},
	}}
}

// spread leaves an instance pending rather than put it on the node of another, if the user wants
// that. Nodes that take no pods, such as one that is drained, count as well: without them, the
// instance of a drained node would go to that of another, and stay there.
func (d *Database) spread() []corev1.TopologySpreadConstraint {
	if d.TopologySpread != databasev1.SpreadRequired {
		return nil
	}
	return []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: d.selector(),
	}}
}
