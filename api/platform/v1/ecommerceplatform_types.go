package v1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
)

// EcommercePlatform is a whole shop: a frontend, its backend, a database and a cache, sized by the
// environment that it is for. Mainstay makes an AppStack of the same name of it, whose components
// are db, cache, backend and frontend.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=ecommerceplatforms,shortName=shop,categories={all,mainstay}
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether all parts are as the spec says, and ready"
// +kubebuilder:printcolumn:name="Environment",type=string,JSONPath=`.status.environment`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Components",type=string,JSONPath=`.status.componentSummary`,description="Ready and desired parts"
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.status.endpoints[?(@.name=="frontend")].url`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]{0,39}[a-z0-9])?$')",fieldPath=".metadata",messageExpression="'metadata.name ' + self.metadata.name + ' must be a DNS label of at most 41 characters, lower-case letters, digits and -, starting with a letter (the names of its parts are longer)'"
type EcommercePlatform struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired platform.
	// +required
	Spec EcommercePlatformSpec `json:"spec"`
	// Status is the observed state.
	// +optional
	Status EcommercePlatformStatus `json:"status,omitzero"`
}

// EcommercePlatformList is a list of EcommercePlatforms.
//
// +kubebuilder:object:root=true
type EcommercePlatformList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []EcommercePlatform `json:"items"`
}

// EcommercePlatformSpec is the desired platform. Only the images of frontend and backend are
// required; what is left out follows from the environment.
type EcommercePlatformSpec struct {
	// Environment is development, staging or production, or an alias that the installation has for one
	// of them, such as prod; default development. Sizes, durability, backups and security follow from
	// it. It must not contradict the environment of the namespace.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Environment string `json:"environment,omitempty"`

	// Frontend is what the customers see. It gets the address of the backend as BACKEND_URL.
	// +required
	Frontend PlatformWeb `json:"frontend"`

	// Backend is the application behind it. It is bound to the database and the cache: DATABASE_URL,
	// PGHOST and so on, REDIS_URL.
	// +required
	Backend PlatformWeb `json:"backend"`

	// Database is the backend's.
	// +optional
	Database PlatformDatabase `json:"database,omitzero"`

	// Cache is the backend's.
	// +optional
	Cache PlatformCache `json:"cache,omitzero"`

	// Monitoring has Prometheus scrape frontend and backend. The database and the cache are scraped
	// in any case, where the Prometheus Operator is installed.
	// +optional
	Monitoring PlatformMonitoring `json:"monitoring,omitzero"`

	// Ingress publishes the frontend. Default: it is reachable inside the cluster only.
	// +optional
	Ingress *PlatformIngress `json:"ingress,omitempty"`

	// Labels of all parts and their children, besides platform: NAME, which Mainstay sets.
	// +optional
	Labels msappsv1.Labels `json:"labels,omitempty"`
}

// PlatformWeb is the frontend or the backend.
//
// +kubebuilder:validation:XValidation:rule="!has(self.autoscaling) || !has(self.replicas)",message="must not set both replicas and autoscaling: omit replicas, which the autoscaler sets"
type PlatformWeb struct {
	// Image is the container image to run, for example registry.example.com/team/shop:1.4.2. In
	// production it must be able to run as a user other than root, with a read-only root file system.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Image string `json:"image"`

	// Replicas is the number of pods, at least 1. Default: 1 in development, 2 in staging, 3 in
	// production. It can't be used with autoscaling.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	Replicas *int32 `json:"replicas,omitempty"`

	// Port is the TCP port on which it listens; default 8080.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`

	// Env are environment variables. They take precedence over those that the platform sets.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=500
	// +kubebuilder:validation:XValidation:rule="self.all(e, e.name != '')",message="each variable must have a name"
	Env []corev1.EnvVar `json:"env,omitempty"`

	// Resources are the requests and limits of the container. Default: limits of 250m and 256Mi in
	// development, 500m and 512Mi in staging, 1 and 1Gi in production, and half of them as requests.
	// They replace the default as a whole.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`

	// Autoscaling lets a HorizontalPodAutoscaler set the number of replicas.
	// +optional
	Autoscaling *msappsv1.Autoscaling `json:"autoscaling,omitempty"`
}

// DatabaseType is the kind of a database.
type DatabaseType string

// Types of databases.
const (
	// DatabasePostgreSQL is a PostgreSQL.
	DatabasePostgreSQL DatabaseType = "postgresql"
	// DatabaseMySQL is a MySQL, whose kind is not there yet.
	DatabaseMySQL DatabaseType = "mysql"
)

// PlatformDatabase is the database of a platform.
//
// +kubebuilder:validation:XValidation:rule="(has(self.type) ? self.type : 'postgresql') == (has(oldSelf.type) ? oldSelf.type : 'postgresql')",message="spec.database.type can't change: another database starts without the data of this one",fieldPath=".type"
type PlatformDatabase struct {
	// Type is postgresql (the default) or mysql. It can't be changed. The kind of a mysql,
	// MySQLCluster, is not there yet: it is refused.
	// +optional
	// +kubebuilder:validation:Enum=postgresql;mysql
	Type DatabaseType `json:"type,omitempty"`

	// Version is the major version of the server, for example "17". It can't be changed. Default: the
	// newest that the installation has an image for when the platform is created.
	// +optional
	// +kubebuilder:validation:MaxLength=8
	Version string `json:"version,omitempty"`

	// Storage is the size of each instance's volume. It never shrinks: a smaller default of another
	// environment leaves it as it is. Default: 10Gi in development, 50Gi in staging, 100Gi in
	// production.
	// +optional
	Storage *resource.Quantity `json:"storage,omitempty"`

	// StorageClassName is the class of the volumes. It can't be changed. Default: the cluster's.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	StorageClassName *string `json:"storageClassName,omitempty"`

	// Resources are the requests and limits of each instance. Default: limits of 500m and 512Mi in
	// development, 1 and 1Gi in staging, 2 and 4Gi in production, and half of them as requests. They
	// replace the default as a whole.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
}

// PlatformCache is the cache of a platform.
type PlatformCache struct {
	// Enabled makes a cache, and binds the backend to it; default true. Setting it to false later
	// removes the cache, once the backend runs without it; what it has is lost.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`

	// Memory is what the server may take, for example 256Mi. Default: 128Mi in development, 256Mi in
	// staging, 1Gi in production.
	// +optional
	Memory *resource.Quantity `json:"memory,omitempty"`

	// Version is the major version of the server, for example "9". It can be raised. Default: the
	// newest that the installation has an image for when the platform is created.
	// +optional
	// +kubebuilder:validation:MaxLength=8
	Version string `json:"version,omitempty"`

	// Resources are further requests and limits of each instance, such as cpu; those of memory follow
	// from memory. Default: a limit of 250m in development, 500m in staging, 1 in production, and half
	// of it as request. They replace the default as a whole.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
}

// PlatformMonitoring is the monitoring of a platform.
type PlatformMonitoring struct {
	// Enabled has Prometheus scrape frontend and backend at /metrics of their ports, and makes a
	// Grafana dashboard for each; default true.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
}

// PlatformIngress publishes the frontend: by an HTTPRoute if route is given, otherwise by an
// Ingress.
//
// +kubebuilder:validation:XValidation:rule="has(self.route) || has(self.host)",message="must have a host, or a route"
// +kubebuilder:validation:XValidation:rule="!has(self.route) || (!has(self.className) && !has(self.tlsSecretName))",message="className and tlsSecretName apply to an Ingress only: remove them, or remove route"
type PlatformIngress struct {
	// Host is the DNS name, for example shop.example.com. With a route it may be left out: then those
	// of the Gateway count.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^([*][.])?[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be a DNS name in lower case without scheme, port or path, for example shop.example.com"
	Host string `json:"host,omitempty"`

	// ClassName is the name of the IngressClass. Default: the cluster's default class.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ClassName *string `json:"className,omitempty"`

	// TLSSecretName is a Secret of type kubernetes.io/tls in this namespace. Default: no TLS.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	TLSSecretName string `json:"tlsSecretName,omitempty"`

	// Route publishes it through a Gateway instead.
	// +optional
	Route *PlatformRoute `json:"route,omitempty"`
}

// PlatformRoute is the Gateways that publish the frontend.
type PlatformRoute struct {
	// ParentRefs are the Gateways to attach to.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	ParentRefs []msappsv1.ParentReference `json:"parentRefs"`
}

// EcommercePlatformPhase is a one-word summary of a platform, for people. Programs should read the
// conditions. It is one of the phases of an AppStack.
type EcommercePlatformPhase string

// EcommercePlatformStatus is the observed state of a platform.
type EcommercePlatformStatus struct {
	// ObservedGeneration is the generation of the spec that the rest describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Environment is that of the spec, without its aliases.
	// +optional
	Environment string `json:"environment,omitempty"`
	// Phase is a one-word summary: Pending, Deploying, Running, Degraded, Failed, Paused or Deleting.
	// Programs should read the conditions.
	// +optional
	Phase EcommercePlatformPhase `json:"phase,omitempty"`
	// ComponentSummary is how many parts are ready, of how many: "3/4".
	// +optional
	ComponentSummary string `json:"componentSummary,omitempty"`
	// Components are the parts, in the order in which they are made: at most 8.
	// +optional
	// +listType=map
	// +listMapKey=name
	Components []PlatformComponentStatus `json:"components,omitempty"`
	// Database is what the database was made with; absent until its AppStack exists. If someone
	// deletes the AppStack, the next one is made with it too, because the volumes stay, unless
	// spec.database has other values.
	// +optional
	Database *PlatformDatabaseStatus `json:"database,omitempty"`
	// Endpoints are the addresses of frontend and backend.
	// +optional
	// +listType=map
	// +listMapKey=name
	Endpoints []PlatformEndpoint `json:"endpoints,omitempty"`
	// FirstReadyTime is when Ready became True for the first time; absent until then. It never changes
	// afterwards.
	// +optional
	FirstReadyTime *metav1.Time `json:"firstReadyTime,omitempty"`
	// Conditions are Ready, Progressing and Degraded; Stalled while it is True; BackupHealthy where
	// the environment has backups; MonitoringHealthy with monitoring.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// PlatformComponentStatus is the observed state of a part.
type PlatformComponentStatus struct {
	// Name of the part: db, cache, backend or frontend.
	Name string `json:"name"`
	// Kind and Object name its object.
	// +optional
	Kind string `json:"kind,omitempty"`
	// +optional
	Object string `json:"object,omitempty"`
	// Phase is Waiting, Progressing, Ready, Failed, Deleting or Paused.
	// +optional
	Phase ComponentPhase `json:"phase,omitempty"`
	// Reason is one word: that of the object's condition Ready, or why there is no object.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message has the details, in at most 1,000 bytes.
	// +optional
	Message string `json:"message,omitempty"`
}

// PlatformDatabaseStatus is what the database was made with.
type PlatformDatabaseStatus struct {
	// Version is the major version.
	// +optional
	Version string `json:"version,omitempty"`
	// Storage is the size of each instance's volume, as a quantity.
	// +optional
	Storage string `json:"storage,omitempty"`
	// StorageClassName is the class of the volumes; absent for the cluster's default.
	// +optional
	StorageClassName *string `json:"storageClassName,omitempty"`
}

// PlatformEndpoint is an address.
type PlatformEndpoint struct {
	// Name is frontend or backend.
	Name string `json:"name"`
	// URL is the address: that of the Ingress or the route, or of the Service inside the cluster.
	// +optional
	URL string `json:"url,omitempty"`
}
