package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// WebApp is a web application: one container image that answers HTTP on a port. Mainstay runs it in
// a number of replicas, behind a Service and optionally an Ingress or an HTTPRoute.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:path=webapps,shortName=wa,categories={all,mainstay}
// +kubebuilder:selectablefield:JSONPath=`.spec.image`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the application is available as its spec says"
// +kubebuilder:printcolumn:name="Replicas",type=string,JSONPath=`.status.replicaSummary`,description="Ready replicas, out of the desired ones"
// +kubebuilder:printcolumn:name="Image",type=string,JSONPath=`.spec.image`,priority=1
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.status.url`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$')",fieldPath=".metadata",messageExpression="'metadata.name ' + self.metadata.name + ' must be a DNS label: at most 63 characters, lower-case letters, digits and -, starting with a letter (its Service bears the same name)'"
type WebApp struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired application.
	// +required
	Spec WebAppSpec `json:"spec"`
	// Status is the observed state.
	// +optional
	Status WebAppStatus `json:"status,omitzero"`
}

// WebAppList is a list of WebApps.
//
// +kubebuilder:object:root=true
type WebAppList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []WebApp `json:"items"`
}

// WebAppSpec is the desired application. Only image is required.
//
// +kubebuilder:validation:XValidation:rule="!has(self.autoscaling) || !has(self.replicas)",message="must not set both spec.replicas and spec.autoscaling: omit replicas, which the autoscaler sets"
// +kubebuilder:validation:XValidation:rule="!has(self.metrics) || !has(self.networkPolicy) || (has(self.metrics.from) && size(self.metrics.from) > 0)",message="spec.metrics.from must name the peers that scrape, because spec.networkPolicy lets only listed peers connect"
// +kubebuilder:validation:XValidation:rule="!has(self.sidecars) || self.sidecars.all(c, c.name != 'webapp')",message="spec.sidecars must not use the name webapp: it is the application's own container"
// +kubebuilder:validation:XValidation:rule="!has(self.initContainers) || self.initContainers.all(c, c.name != 'webapp')",message="spec.initContainers must not use the name webapp: it is the application's own container"
// +kubebuilder:validation:XValidation:rule="!has(self.initContainers) || !has(self.sidecars) || self.initContainers.all(i, !self.sidecars.exists(s, s.name == i.name))",message="spec.initContainers and spec.sidecars must not share a container name"
type WebAppSpec struct {
	// Replicas is the number of pods, at least 1; `kubectl scale webapp` changes it. To stop the
	// application, use suspend. If replicas is left out, the application starts with 1, and Mainstay
	// does not change the number afterwards, so that your own autoscaler can. Then `kubectl scale
	// webapp` is refused. It can't be used with autoscaling.
	// +optional
	// +kubebuilder:validation:Maximum=10000
	// +kubebuilder:validation:XValidation:rule="self >= 1",message="must be at least 1: to stop the application, set spec.suspend to true"
	Replicas *int32 `json:"replicas,omitempty"`

	// Suspend stops the application: no pods run, and no autoscaler. Everything else stays: the
	// Service, the Ingress or route, volumes and configuration. Requests fail meanwhile: an ingress
	// controller or Gateway normally answers them with 503. Setting it to false, or removing it,
	// resumes the application: with replicas, with autoscaling.min, or with as many pods as before.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// Image is the container image to run, for example registry.example.com/team/shop:1.4.2.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-zA-Z0-9]([-a-zA-Z0-9.]*[a-zA-Z0-9])?(:[0-9]+)?/|\\\\[[a-fA-F0-9:]+\\\\](:[0-9]+)?/)?[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*(:[A-Za-z0-9_][-A-Za-z0-9_.]{0,127})?(@[A-Za-z][A-Za-z0-9]*([-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?$')",message="must be an image reference: [registry[:port]/]path[:tag][@digest], the path in lower case, for example registry.example.com/team/shop:1.4.2"
	Image string `json:"image"`

	// ImagePullPolicy is Always, IfNotPresent or Never. Default: Always for the tag latest or none,
	// IfNotPresent otherwise.
	// +optional
	// +kubebuilder:validation:Enum=Always;IfNotPresent;Never
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`

	// ImagePullSecrets name Secrets of this namespace with credentials for registries.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`

	// Port is the TCP port on which the application listens.
	// +optional
	// +default=8080
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`

	// ServicePort is the port of the Service. Default: port.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	ServicePort int32 `json:"servicePort,omitempty"`

	// Resources are the requests and limits of the application container.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`

	// Env are environment variables of the application container.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=500
	// +kubebuilder:validation:XValidation:rule="self.all(e, e.name != '')",message="each variable must have a name"
	Env []corev1.EnvVar `json:"env,omitempty"`

	// Bindings connect the application to databases and caches of its namespace: each gives it
	// environment variables with the address and the login, from the Secret of the object, and a file
	// with the CA certificate by which its server is verified. The first start waits until all of
	// them can be used; what happens to them later stops no pod. A change of a password replaces the
	// pods, by a rolling update. Variables of env of the same name take precedence.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Bindings []Binding `json:"bindings,omitempty"`

	// EnvFrom adds all keys of ConfigMaps and Secrets as environment variables.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	EnvFrom []corev1.EnvFromSource `json:"envFrom,omitempty"`

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

	// InitContainers run to completion, in order, before the application starts.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	InitContainers []Container `json:"initContainers,omitempty"`

	// Sidecars run beside the application: they start before it and stop after it.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Sidecars []Container `json:"sidecars,omitempty"`

	// TerminationGracePeriodSeconds is how long a pod may take to stop, in seconds; default 30. In its
	// first seconds (5, or half of a shorter period) the application still serves while load balancers
	// remove the pod, so that no request fails.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	TerminationGracePeriodSeconds *int64 `json:"terminationGracePeriodSeconds,omitempty"`

	// RestartedAt restarts the application, by a rolling update, each time it changes.
	// `kubectl rollout restart` refuses custom resources, so this is the way:
	// kubectl patch webapp NAME --type merge -p '{"spec":{"restartedAt":"2026-01-31T12:00:00Z"}}'.
	// +optional
	RestartedAt *metav1.Time `json:"restartedAt,omitempty"`

	// Probes replace the default ones.
	// +optional
	Probes Probes `json:"probes,omitzero"`

	// ServiceAccountName is a ServiceAccount in this namespace, whose token is mounted unless the
	// account says otherwise. Default: a new ServiceAccount, without a token.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$')",message="must be the name of a ServiceAccount: lower-case letters, digits, '-' and '.', with a letter or digit at both ends"
	ServiceAccountName string `json:"serviceAccountName,omitempty"`

	// SecurityProfile is Default or Restricted. Default runs an ordinary image as it is, without
	// privilege escalation and with the runtime's default seccomp profile. Restricted is the Pod
	// Security Standard of that name: not root (uid 1000 unless you set another), no capabilities, and
	// a read-only root file system.
	// +optional
	// +default="Default"
	// +kubebuilder:validation:Enum=Default;Restricted
	SecurityProfile SecurityProfile `json:"securityProfile,omitempty"`

	// SecurityContext is the application container's. It takes precedence over the Default profile.
	// Values that contradict the Restricted profile are refused.
	// +optional
	SecurityContext *corev1.SecurityContext `json:"securityContext,omitempty"`

	// PodSecurityContext is the pod's (fsGroup, supplementalGroups, sysctls ...), with the same rules.
	// +optional
	PodSecurityContext *corev1.PodSecurityContext `json:"podSecurityContext,omitempty"`

	// Ingress publishes the application through an Ingress.
	// +optional
	Ingress *Ingress `json:"ingress,omitempty"`

	// Route publishes the application through an HTTPRoute of the Gateway API. Without that API in the
	// cluster the application runs but is not Ready; Mainstay creates the route when the API is
	// installed.
	// +optional
	Route *Route `json:"route,omitempty"`

	// Autoscaling lets a HorizontalPodAutoscaler set the number of replicas. It can't be used with
	// replicas.
	// +optional
	Autoscaling *Autoscaling `json:"autoscaling,omitempty"`

	// Disruption is how many pods drains and upgrades of nodes may evict at once. Default: 1 if there
	// is more than one replica.
	// +optional
	Disruption *Disruption `json:"disruption,omitempty"`

	// NetworkPolicy lets only the listed peers connect to the application. Default: all.
	// +optional
	NetworkPolicy *NetworkPolicy `json:"networkPolicy,omitempty"`

	// Metrics has Prometheus scrape the application: through a ServiceMonitor if the cluster has the
	// API of the Prometheus Operator, otherwise through annotations of the Service
	// (prometheus.io/scrape, /port and /path). It never replaces the pods. Default: not scraped.
	// +optional
	Metrics *Metrics `json:"metrics,omitempty"`

	// Strategy is how a change replaces the pods.
	// +optional
	Strategy Strategy `json:"strategy,omitzero"`

	// TopologySpread spreads the pods over zones and nodes: Preferred (the default) as far
	// as possible, Required strictly over nodes, Disabled not at all.
	// +optional
	// +default="Preferred"
	// +kubebuilder:validation:Enum=Preferred;Required;Disabled
	TopologySpread TopologySpread `json:"topologySpread,omitempty"`

	// NodeSelector has the labels that a node must have.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// Tolerations let the pods run on tainted nodes.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// Affinity has further scheduling rules.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`

	// Volumes that the containers may mount. With a read-only root file system the name tmp is
	// reserved, for an empty directory at /tmp.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Volumes []Volume `json:"volumes,omitempty"`

	// VolumeMounts mount volumes into the application container.
	// +optional
	// +listType=map
	// +listMapKey=mountPath
	// +kubebuilder:validation:MaxItems=64
	VolumeMounts []corev1.VolumeMount `json:"volumeMounts,omitempty"`

	// Labels of all children and pods. Changing them replaces the pods.
	// +optional
	Labels Labels `json:"labels,omitempty"`

	// Annotations of all children and pods. Changing them replaces the pods.
	// +optional
	Annotations Annotations `json:"annotations,omitempty"`

	// PodMetadata has additional labels and annotations of the pods.
	// +optional
	PodMetadata Metadata `json:"podMetadata,omitzero"`

	// ServiceMetadata has additional labels and annotations of the Service.
	// +optional
	ServiceMetadata Metadata `json:"serviceMetadata,omitzero"`

	// ServiceAccountMetadata has additional labels and annotations of the ServiceAccount that is
	// created without serviceAccountName.
	// +optional
	ServiceAccountMetadata Metadata `json:"serviceAccountMetadata,omitzero"`

	// Paused stops Mainstay from changing anything; it still updates the status. The application keeps
	// running: suspend stops it.
	// +optional
	Paused bool `json:"paused,omitempty"`
}

// WebAppStatus is the observed state of a WebApp.
type WebAppStatus struct {
	// ObservedGeneration is the generation of the spec that the rest describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Phase is a one-word summary: Pending, Deploying, Running, Degraded, Failed, Suspended, Paused or
	// Deleting. Degraded means that pods are ready, but something is wrong. Programs should read the
	// conditions.
	// +optional
	Phase WebAppPhase `json:"phase,omitempty"`
	// Replicas is the number of pods that exist.
	// +optional
	Replicas int32 `json:"replicas"`
	// ReadyReplicas is the number of pods that are ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`
	// UpdatedReplicas is the number of pods that run the current template.
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas"`
	// ReplicaSummary is ready/desired, for display.
	// +optional
	ReplicaSummary string `json:"replicaSummary,omitempty"`
	// Selector selects the pods; the scale subresource and autoscalers use it.
	// +optional
	Selector string `json:"selector,omitempty"`
	// URL of the application: that of its route, its Ingress, or its Service inside the cluster.
	// +optional
	URL string `json:"url,omitempty"`
	// FirstReadyTime is when Ready became True for the first time; absent until then. It never changes
	// afterwards.
	// +optional
	FirstReadyTime *metav1.Time `json:"firstReadyTime,omitempty"`
	// Conditions are Ready, Progressing, Degraded and Paused; and Stalled and Suspended while they are
	// True.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
