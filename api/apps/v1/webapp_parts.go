package v1

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Labels are labels of children.
//
// +kubebuilder:validation:MaxProperties=64
// +kubebuilder:validation:XValidation:rule="self.all(k, k != 'app' && k != 'pod-template-hash' && !k.startsWith('mainstay.dev/') && !k.contains('.mainstay.dev/') && !(k.startsWith('app.kubernetes.io/') && k != 'app.kubernetes.io/version'))",message="must not set app, app.kubernetes.io/* except version, mainstay.dev/*, *.mainstay.dev/* or pod-template-hash: they are set by Mainstay or Kubernetes"
// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))",message="label keys must be [domain/]name, the name of at most 63 letters, digits, '-', '_' and '.'"
type Labels map[string]LabelValue

// LabelValue is the value of a label.
//
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:XValidation:rule="self.matches('^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$')",message="must be a label value: letters, digits, '-', '_' and '.', with a letter or digit at both ends"
type LabelValue string

// Annotations are annotations of children.
//
// +kubebuilder:validation:MaxProperties=64
// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('mainstay.dev/') && (!k.contains('.mainstay.dev/') || k in ['config.mainstay.dev/reload', 'instrumentation.mainstay.dev/inject']) && !k.startsWith('deployment.kubernetes.io/') && k.matches('^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))",message="annotation keys must be [domain/]name, the name of at most 63 characters, and not mainstay.dev/*, *.mainstay.dev/* (but config.mainstay.dev/reload and instrumentation.mainstay.dev/inject) or deployment.kubernetes.io/*, which Mainstay and Kubernetes set"
type Annotations map[string]string

// Metadata are labels and annotations of one kind of child.
type Metadata struct {
	// Labels are added to those of spec.labels, and take precedence over them.
	// +optional
	Labels Labels `json:"labels,omitempty"`
	// Annotations are added to those of spec.annotations, and take precedence over them.
	// +optional
	Annotations Annotations `json:"annotations,omitempty"`
}

// Binding connects an application to an object of its namespace.
type Binding struct {
	// Kind of the object, such as PostgreSQL. It must be enabled in the installation.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Z][A-Za-z0-9]*$')",message="must be the name of a kind, for example PostgreSQL"
	Kind string `json:"kind"`
	// Name of the object.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="must be a DNS label: lower-case letters, digits and '-', starting with a letter"
	Name string `json:"name"`
	// User of the object as whom the application connects, of those in its spec.users. Default:
	// the one that every object has, by the Secret NAME-app. A Cache has no other.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^([A-Za-z_][-A-Za-z0-9_]*)?$')",message="must be letters, digits, _ and -, beginning with a letter or _"
	User string `json:"user,omitempty"`
	// Prefix of the names of the variables: ORDERS_ makes ORDERS_DATABASE_URL. Default: none. Two
	// bindings that would give the same variable need different ones.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^([A-Za-z_][A-Za-z0-9_]*)?$')",message="must be letters, digits and '_', and not start with a digit, for example ORDERS_"
	Prefix string `json:"prefix,omitempty"`
}

// Container is an init container or a side-car.
type Container struct {
	// Name of the container, unique within the pod.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be a DNS label: lower-case letters, digits and '-', with a letter or digit at both ends"
	Name string `json:"name"`
	// Image to run.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-zA-Z0-9]([-a-zA-Z0-9.]*[a-zA-Z0-9])?(:[0-9]+)?/|\\\\[[a-fA-F0-9:]+\\\\](:[0-9]+)?/)?[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*(:[A-Za-z0-9_][-A-Za-z0-9_.]{0,127})?(@[A-Za-z][A-Za-z0-9]*([-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?$')",message="must be an image reference: [registry[:port]/]path[:tag][@digest], the path in lower case, for example registry.example.com/team/shop:1.4.2"
	Image string `json:"image"`
	// ImagePullPolicy is that of spec.imagePullPolicy, for this container.
	// +optional
	// +kubebuilder:validation:Enum=Always;IfNotPresent;Never
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`
	// Command replaces the image's entry point.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Command []string `json:"command,omitempty"`
	// Args replaces the image's arguments.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	Args []string `json:"args,omitempty"`
	// Env are environment variables.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=500
	Env []corev1.EnvVar `json:"env,omitempty"`
	// EnvFrom adds all keys of ConfigMaps and Secrets as environment variables.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	EnvFrom []corev1.EnvFromSource `json:"envFrom,omitempty"`
	// Resources are requests and limits.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`
	// VolumeMounts mount volumes of spec.volumes.
	// +optional
	// +listType=map
	// +listMapKey=mountPath
	// +kubebuilder:validation:MaxItems=64
	VolumeMounts []corev1.VolumeMount `json:"volumeMounts,omitempty"`
	// SecurityContext is that of spec.securityContext, for this container.
	// +optional
	SecurityContext *corev1.SecurityContext `json:"securityContext,omitempty"`
	// StartupProbe of a side-car: the containers after it start when it succeeds.
	// +optional
	StartupProbe *corev1.Probe `json:"startupProbe,omitempty"`
}

// Volume has exactly one source. Volumes of the node (hostPath) and of storage systems that have a
// CSI driver are not supported on purpose.
//
// +kubebuilder:validation:ExactlyOneOf=configMap;secret;projected;downwardAPI;emptyDir;persistentVolumeClaim;ephemeral;csi;image
type Volume struct {
	// Name of the volume, unique within the pod.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be a DNS label: lower-case letters, digits and '-', with a letter or digit at both ends"
	Name string `json:"name"`
	// ConfigMap: the keys of a ConfigMap as files.
	// +optional
	ConfigMap *corev1.ConfigMapVolumeSource `json:"configMap,omitempty"`
	// Secret: the keys of a Secret as files.
	// +optional
	Secret *corev1.SecretVolumeSource `json:"secret,omitempty"`
	// Projected: several sources in one directory.
	// +optional
	Projected *corev1.ProjectedVolumeSource `json:"projected,omitempty"`
	// DownwardAPI: facts about the pod as files.
	// +optional
	DownwardAPI *corev1.DownwardAPIVolumeSource `json:"downwardAPI,omitempty"`
	// EmptyDir: a directory that lives as long as the pod.
	// +optional
	EmptyDir *corev1.EmptyDirVolumeSource `json:"emptyDir,omitempty"`
	// PersistentVolumeClaim: a claim of this namespace.
	// +optional
	PersistentVolumeClaim *corev1.PersistentVolumeClaimVolumeSource `json:"persistentVolumeClaim,omitempty"`
	// Ephemeral: a claim that is created for each pod and deleted with it.
	// +optional
	Ephemeral *corev1.EphemeralVolumeSource `json:"ephemeral,omitempty"`
	// CSI: a volume that a CSI driver provides for the pod.
	// +optional
	CSI *corev1.CSIVolumeSource `json:"csi,omitempty"`
	// Image: the files of a container image, read-only.
	// +optional
	Image *corev1.ImageVolumeSource `json:"image,omitempty"`
}

// Probes are the application container's health checks.
type Probes struct {
	// Readiness: while it fails, the pod gets no requests. Default: a TCP connection to the port.
	// +optional
	Readiness *corev1.Probe `json:"readiness,omitempty"`
	// Liveness: when it fails, the container is restarted. No default: a probe that fails under load
	// stops a slow service, and a process that exits is restarted anyway.
	// +optional
	Liveness *corev1.Probe `json:"liveness,omitempty"`
	// Startup: the other probes wait for its first success. No default.
	// +optional
	Startup *corev1.Probe `json:"startup,omitempty"`
}

// SecurityProfile is a set of defaults and limits for the pod's security.
type SecurityProfile string

// Security profiles.
const (
	// SecurityDefault runs an ordinary image, also as root, without privilege escalation.
	SecurityDefault SecurityProfile = "Default"
	// SecurityRestricted is the Pod Security Standard "restricted".
	SecurityRestricted SecurityProfile = "Restricted"
)

// TopologySpread is how strictly pods are spread.
type TopologySpread string

// Ways to spread pods.
const (
	// SpreadPreferred spreads over zones and nodes as far as possible.
	SpreadPreferred TopologySpread = "Preferred"
	// SpreadRequired leaves a pod pending rather than put a node more than one ahead of another.
	SpreadRequired TopologySpread = "Required"
	// SpreadDisabled adds no rules for the scheduler.
	SpreadDisabled TopologySpread = "Disabled"
)

// Ingress publishes an application through an Ingress controller.
type Ingress struct {
	// Host is the DNS name, for example shop.example.com; a leading "*." matches any one label.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^([*][.])?[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be a DNS name in lower case without scheme, port or path, for example shop.example.com"
	Host string `json:"host"`
	// Path prefix of the requests; default "/".
	// +optional
	// +default="/"
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.startsWith('/')",message="must start with '/'"
	Path string `json:"path,omitempty"`
	// ClassName is the name of the IngressClass. Default: the cluster's default class at the time of
	// creation. Removing it later keeps the class that the Ingress has.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ClassName *string `json:"className,omitempty"`
	// TLSSecretName is a Secret of type kubernetes.io/tls in this namespace. Default: no TLS.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	TLSSecretName string `json:"tlsSecretName,omitempty"`
	// Annotations of the Ingress, for its controller.
	// +optional
	Annotations Annotations `json:"annotations,omitempty"`
}

// Route publishes an application through a Gateway.
type Route struct {
	// ParentRefs are the Gateways to attach to.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	ParentRefs []ParentReference `json:"parentRefs"`
	// Hostnames of the requests. Default: all hostnames of the Gateway.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Hostnames []Hostname `json:"hostnames,omitempty"`
}

// Hostname is a DNS name; a leading "*." matches any one label.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=253
// +kubebuilder:validation:XValidation:rule="self.matches('^([*][.])?[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be a DNS name in lower case without scheme, port or path, for example shop.example.com"
type Hostname string

// ParentReference names a Gateway.
type ParentReference struct {
	// Name of the Gateway.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Namespace of the Gateway. Default: the WebApp's. The Gateway decides which namespaces may
	// attach.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
	// SectionName is the name of a listener. Default: all that match.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	SectionName string `json:"sectionName,omitempty"`
}

// Autoscaling are the limits and targets of a HorizontalPodAutoscaler.
//
// +kubebuilder:validation:XValidation:rule="self.min <= self.max",message="spec.autoscaling.min must be at most spec.autoscaling.max"
type Autoscaling struct {
	// Min is the lowest number of replicas; default 1.
	// +optional
	// +default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	Min int32 `json:"min,omitempty"`
	// Max is the highest number of replicas.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	Max int32 `json:"max"`
	// CPU is the target average utilization, in percent of the CPU request. Default: 80 without
	// memory. It needs a CPU request (or limit) in resources. Side-cars do not count.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	CPU *int32 `json:"cpu,omitempty"`
	// Memory is the target average utilization, in percent of the memory request, which it needs.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Memory *int32 `json:"memory,omitempty"`
}

// Disruption configures a PodDisruptionBudget.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.minAvailable) && has(self.maxUnavailable))",message="spec.disruption must not set both minAvailable and maxUnavailable"
type Disruption struct {
	// Disabled creates no budget: a drain may evict all pods at once.
	// +optional
	Disabled bool `json:"disabled,omitempty"`
	// MinAvailable is how many pods, a number or a percentage, must stay available.
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == string ? self.matches('^[0-9]{1,4}%$') : self >= 0",message="must be a number of pods or a percentage, for example 1 or 25%"
	MinAvailable *intstr.IntOrString `json:"minAvailable,omitempty"`
	// MaxUnavailable is how many pods, a number or a percentage, may be unavailable at once; default
	// 1.
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == string ? self.matches('^[0-9]{1,4}%$') : self >= 0",message="must be a number of pods or a percentage, for example 1 or 25%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
}

// NetworkPolicy is which peers may connect to the application.
type NetworkPolicy struct {
	// From are the peers that may connect to the port. If it is empty, no peer may. Kubernetes always
	// allows probes of the kubelet.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	From []networkingv1.NetworkPolicyPeer `json:"from,omitempty"`
}

// Metrics is where the application serves metrics, in the text format of Prometheus, over plain
// HTTP.
type Metrics struct {
	// Port is the TCP port on which the pods serve metrics; default: spec.port. It need not be a port
	// of the Service.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
	// Path of the metrics; default "/metrics".
	// +optional
	// +default="/metrics"
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^/[-A-Za-z0-9._~%/:@=+,;]*$')",message="must start with '/', and have no query"
	Path string `json:"path,omitempty"`
	// Interval is the time between two scrapes, 5s to 5m in whole seconds. Without the Prometheus
	// Operator it has no effect. Default: that of Prometheus.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+m)?([0-9]+s)?$') && duration(self) >= duration('5s') && duration(self) <= duration('5m')",message="must be from 5s to 5m, in whole seconds, for example 30s"
	Interval string `json:"interval,omitempty"`
	// From are the peers that scrape, which spec.networkPolicy lets connect to the port of the
	// metrics: the pods of Prometheus. It is required with spec.networkPolicy, and has no effect
	// without.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	From []networkingv1.NetworkPolicyPeer `json:"from,omitempty"`
	// Dashboard creates a ConfigMap with a Grafana dashboard of the application, for the sidecar of
	// Grafana's chart: it has the label grafana_dashboard: "1".
	// +optional
	Dashboard bool `json:"dashboard,omitempty"`
}

// Strategy is how a change replaces the pods.
//
// +kubebuilder:validation:XValidation:rule="self.type != 'Recreate' || !(has(self.maxSurge) || has(self.maxUnavailable))",message="spec.strategy: maxSurge and maxUnavailable require type RollingUpdate"
type Strategy struct {
	// Type is RollingUpdate (the default) or Recreate, which stops all pods first.
	// +optional
	// +default="RollingUpdate"
	// +kubebuilder:validation:Enum=RollingUpdate;Recreate
	Type StrategyType `json:"type,omitempty"`
	// MaxSurge is how many pods, a number or a percentage, may exist above the desired number; default
	// 25%.
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == string ? self.matches('^[0-9]{1,4}%$') : self >= 0",message="must be a number of pods or a percentage, for example 1 or 25%"
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`
	// MaxUnavailable is how many pods, a number or a percentage, may be unavailable during the change;
	// default 0: a bad image never removes a good pod.
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == string ? self.matches('^[0-9]{1,4}%$') : self >= 0",message="must be a number of pods or a percentage, for example 1 or 25%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// MinReadySeconds is how long a new pod must be ready to be available; default 2, because
	// kube-proxy may take more than a second to send it requests.
	// +optional
	// +default=2
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`
	// ProgressDeadlineSeconds is how long a rollout may be without progress before it has failed;
	// default 600.
	// +optional
	// +default=600
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	ProgressDeadlineSeconds int32 `json:"progressDeadlineSeconds,omitempty"`
}

// StrategyType is how pods are replaced.
type StrategyType string

// Ways to replace pods.
const (
	// StrategyRollingUpdate replaces them a few at a time.
	StrategyRollingUpdate StrategyType = "RollingUpdate"
	// StrategyRecreate stops all of them, then starts the new ones.
	StrategyRecreate StrategyType = "Recreate"
)
