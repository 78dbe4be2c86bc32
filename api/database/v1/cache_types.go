package v1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Cache is a Valkey of one to five instances, which Redis clients can use too. One instance, the
// primary, takes writes; the others receive them, take reads, and elect a new primary among
// themselves when it fails. They do so without Mainstay's manager. No write waits for another
// instance: what none has received when the primary fails is lost.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:path=caches,shortName=vk,categories={all,mainstay}
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the cache is as its spec says"
// +kubebuilder:printcolumn:name="Primary",type=string,JSONPath=`.status.primary`,description="The instance that takes writes"
// +kubebuilder:printcolumn:name="Instances",type=string,JSONPath=`.status.instanceSummary`,description="Instances that take connections, out of the desired ones"
// +kubebuilder:printcolumn:name="Memory",type=string,JSONPath=`.spec.memory`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.spec.version`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]{0,48}[a-z0-9])?$')",fieldPath=".metadata",messageExpression="'metadata.name ' + self.metadata.name + ' must be a DNS label of at most 50 characters, lower-case letters, digits and -, starting with a letter (the names of its instances are longer)'"
type Cache struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired cache.
	// +required
	Spec CacheSpec `json:"spec"`
	// Status is the observed state.
	// +optional
	Status CacheStatus `json:"status,omitzero"`
}

// CacheList is a list of Caches.
//
// +kubebuilder:object:root=true
type CacheList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Cache `json:"items"`
}

// CacheSpec is the desired cache. Only version and memory are required.
//
// +kubebuilder:validation:XValidation:rule="int(self.version) >= int(oldSelf.version)",message="spec.version can't go back: an earlier server can't read the data of a later one. Create another Cache",fieldPath=".version"
// +kubebuilder:validation:XValidation:rule="(has(self.runAsUser) ? self.runAsUser : 1000) == (has(oldSelf.runAsUser) ? oldSelf.runAsUser : 1000)",message="spec.runAsUser can't change: the data belong to that user",fieldPath=".runAsUser"
// +kubebuilder:validation:XValidation:rule="has(self.persistence) == has(oldSelf.persistence)",message="spec.persistence can't be added or removed: the instances' volumes are made once, and what is stored would be lost. Create another Cache",fieldPath=".persistence"
type CacheSpec struct {
	// Version is the major version of Valkey: "8" or "9". It can be raised: the instances are replaced
	// one after the other. It can't be lowered.
	// +required
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self in ['8', '9']",message="must be one of \"8\" and \"9\", for example \"9\""
	Version string `json:"version"`

	// Image of the server, with the program valkey-server of that version on its PATH. Changing it to
	// another minor version replaces the pods one after the other. Default: that of the installation
	// for the version (databaseImages.valkey of the chart's values).
	// +optional
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-zA-Z0-9]([-a-zA-Z0-9.]*[a-zA-Z0-9])?(:[0-9]+)?/|\\\\[[a-fA-F0-9:]+\\\\](:[0-9]+)?/)?[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*(:[A-Za-z0-9_][-A-Za-z0-9_.]{0,127})?(@[A-Za-z][A-Za-z0-9]*([-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?$')",message="must be an image reference: [registry[:port]/]path[:tag][@digest], the path in lower case, for example registry.example.com/valkey:9.1"
	Image string `json:"image,omitempty"`

	// ImagePullSecrets name Secrets of this namespace with credentials for registries.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`

	// Replicas is the number of instances, 1 to 5; default 1. `kubectl scale cache` changes it. With
	// one instance and no persistence, a restart of its pod loses everything.
	// +optional
	// +default=1
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 5",message="must be from 1 to 5"
	Replicas int32 `json:"replicas,omitempty"`

	// Memory is what the server of each instance may take, from 32Mi to 1Ti, for example 256Mi: its
	// keys, and what it needs beside them to save and to send them. The container's limit is 40Mi
	// more, for the program that runs the server.
	// +required
	// +kubebuilder:validation:XValidation:rule="isQuantity(self) && quantity(self).compareTo(quantity('32Mi')) >= 0 && quantity(self).compareTo(quantity('1Ti')) <= 0",message="must be a quantity from 32Mi to 1Ti, for example 256Mi"
	Memory resource.Quantity `json:"memory"`

	// MaxMemoryPercent is how much of memory keys may take (the server's maxmemory), from 10 to 90;
	// default 75. The rest is for what the server needs beside them, most of all while it saves
	// them in the background and clients write.
	// +optional
	// +default=75
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=90
	MaxMemoryPercent int32 `json:"maxMemoryPercent,omitempty"`

	// EvictionPolicy is which keys give way when that is full (the server's maxmemory-policy). The
	// volatile ones choose among keys with a time to live; with noeviction, writes fail. Default:
	// allkeys-lru, those that were not used for the longest time.
	// +optional
	// +default="allkeys-lru"
	// +kubebuilder:validation:Enum=allkeys-lru;allkeys-lfu;allkeys-random;volatile-lru;volatile-lfu;volatile-random;volatile-ttl;noeviction
	EvictionPolicy EvictionPolicy `json:"evictionPolicy,omitempty"`

	// Persistence keeps the data on volumes, so that they outlive the pods. It can't be added or
	// removed. Default: none; what is in memory goes with the pods.
	// +optional
	Persistence *CachePersistence `json:"persistence,omitempty"`

	// MinReplicasToWrite is how many replicas must receive for the primary to accept writes (the
	// server's min-replicas-to-write), less than replicas. It does not make a write wait for them:
	// it limits for how long a primary that is cut off accepts writes that are lost. Default: 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4
	MinReplicasToWrite int32 `json:"minReplicasToWrite,omitempty"`

	// PasswordSecret is the name of a Secret of this namespace whose key password has the password of
	// the user app, of 8 to 256 characters without spaces and control characters. A change of it is
	// followed. Default: Mainstay makes a password, in the Secret NAME-app, where you may change it.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	PasswordSecret string `json:"passwordSecret,omitempty"`

	// TLS lets clients connect to port 6379, by TLS; default true. If it is false, only plainPort is
	// open to them. The instances always use TLS among themselves.
	// +optional
	// +default=true
	TLS *bool `json:"tls,omitempty"`

	// PlainPort is a further port, for clients that can't use TLS, from 1024 to 65535, for example
	// 6380. Passwords and data cross the network unencrypted. Default: none.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 1024 && self <= 65535 && !(self in [6379, 8080, 8443, 9121])",message="must be from 1024 to 65535, and not 6379, 8080, 8443 or 9121, which the instances use"
	PlainPort int32 `json:"plainPort,omitempty"`

	// Resources are further requests and limits of the server's container, such as cpu. Those of
	// memory follow from spec.memory.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`

	// Parameters of the server, by their names in valkey.conf, such as hz: "20". Those that need no
	// restart take effect at once; for the others the pods are replaced one after the other. One that
	// is removed keeps its value until the server starts again (restartedAt). What other fields say,
	// and what replication and safety rest on, can't be set. Default: the server's.
	// +optional
	// +kubebuilder:validation:MaxProperties=100
	Parameters map[string]ParameterValue `json:"parameters,omitempty"`

	// Failover is when and how another instance takes over.
	// +optional
	Failover CacheFailover `json:"failover,omitzero"`

	// TopologySpread spreads the instances over zones and nodes: Preferred (the default) as far as
	// possible, Required strictly over nodes, Disabled not at all.
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

	// PriorityClassName is that of the pods. Default: the cluster's.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	PriorityClassName string `json:"priorityClassName,omitempty"`

	// Labels of all children and pods. Changing them replaces the pods, one after the other: replicas
	// first, then the primary, which hands over. The Lease and the EndpointSlice, which are made once,
	// keep those of their creation.
	// +optional
	Labels Labels `json:"labels,omitempty"`

	// Annotations of all children and pods. Changing them replaces the pods, as with labels.
	// +optional
	Annotations Annotations `json:"annotations,omitempty"`

	// RunAsUser is the user and the group of the server, and of the data. It can't be changed.
	// +optional
	// +default=1000
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4294967294
	RunAsUser int64 `json:"runAsUser,omitempty"`

	// DeletionPolicy is what becomes of the volumes of persistence when the Cache is deleted. Retain
	// (the default) keeps them: a new Cache of the same name takes them up. Delete deletes them.
	// +optional
	// +default="Retain"
	// +kubebuilder:validation:Enum=Retain;Delete
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// Reclaim is what becomes of the volume of persistence of an instance that a lower spec.replicas
	// removes. Retain (the default) keeps it: an instance that is added later takes it up. Delete
	// deletes it, once all remaining instances are ready.
	// +optional
	// +default="Retain"
	// +kubebuilder:validation:Enum=Retain;Delete
	Reclaim DeletionPolicy `json:"reclaim,omitempty"`

	// Rollout is when pods are replaced because their template has changed.
	// +optional
	Rollout Rollout `json:"rollout,omitzero"`

	// RestartedAt restarts the instances, one after the other, each time it changes:
	// kubectl patch cache NAME --type merge -p '{"spec":{"restartedAt":"2026-01-31T12:00:00Z"}}'.
	// +optional
	RestartedAt *metav1.Time `json:"restartedAt,omitempty"`

	// SwitchoverAt lets the primary hand over to a replica, once each time it changes; it goes on as
	// a replica, and nothing is lost: kubectl patch cache NAME --type merge -p
	// '{"spec":{"switchoverAt":"2026-01-31T12:00:00Z"}}'. It is carried out at once, whatever the time
	// says, or when a replica is ready. A time that is there from the beginning does nothing.
	// +optional
	SwitchoverAt *metav1.Time `json:"switchoverAt,omitempty"`

	// Paused stops Mainstay from changing anything; it still updates the status. The instances keep
	// running and failing over.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// Hibernated stops all instances, and keeps everything else: volumes, Services and Secrets.
	// Without persistence, the data are lost by it. Setting it to false starts the instances
	// again.
	// +optional
	Hibernated bool `json:"hibernated,omitempty"`
}

// CachePersistence keeps the data on volumes: each write within a second (the server's append-only
// file), and snapshots.
//
// +kubebuilder:validation:XValidation:rule="quantity(self.storage).compareTo(quantity(oldSelf.storage)) >= 0",message="spec.persistence.storage can't shrink: volumes only grow",fieldPath=".storage"
// +kubebuilder:validation:XValidation:rule="has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",message="spec.persistence.storageClassName can't change: the volumes exist",fieldPath=".storageClassName"
type CachePersistence struct {
	// Storage is the size of each instance's volume, at least 64Mi and twice spec.memory, for
	// example 1Gi. Three times the memory lets the server rewrite its file at any time. It can grow,
	// if the storage class allows it, and never shrinks.
	// +required
	// +kubebuilder:validation:XValidation:rule="isQuantity(self) && quantity(self).compareTo(quantity('64Mi')) >= 0",message="must be a quantity of at least 64Mi, for example 1Gi"
	Storage resource.Quantity `json:"storage"`
	// StorageClassName is the class of the volumes. Default: the cluster's. It can't be changed.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	StorageClassName *string `json:"storageClassName,omitempty"`
}

// CacheFailover is when and how another instance takes over.
type CacheFailover struct {
	// After is for how long the primary must be silent before another instance stands for election,
	// from 5s to 5m; default 11s. A primary that ends, or whose server dies, is replaced at once. The
	// parameter busy-reply-threshold must be at least 2s less.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+m)?([0-9]+s)?$') && duration(self) >= duration('5s') && duration(self) <= duration('5m')",message="must be from 5s to 5m, in whole seconds, for example 11s"
	After string `json:"after,omitempty"`
	// AcceptLoss is a user's word that an instance may lead although it may lack writes, or all data.
	// While there is no primary, set it to the number in status.term, which each election of a
	// primary raises. It counts for that term alone. Use it when the other instances are lost for
	// good. It has no effect while an instance that answers may have more: grow or repair its volume,
	// or delete its volume and its pod.
	// +optional
	// +kubebuilder:validation:Minimum=0
	AcceptLoss int64 `json:"acceptLoss,omitempty"`
}

// EvictionPolicy is which keys give way when memory is full.
type EvictionPolicy string

// Eviction policies, by their names in valkey.conf.
const (
	EvictAllKeysLRU     EvictionPolicy = "allkeys-lru"
	EvictAllKeysLFU     EvictionPolicy = "allkeys-lfu"
	EvictAllKeysRandom  EvictionPolicy = "allkeys-random"
	EvictVolatileLRU    EvictionPolicy = "volatile-lru"
	EvictVolatileLFU    EvictionPolicy = "volatile-lfu"
	EvictVolatileRandom EvictionPolicy = "volatile-random"
	EvictVolatileTTL    EvictionPolicy = "volatile-ttl"
	EvictNothing        EvictionPolicy = "noeviction"
)

// CacheStatus is the observed state of a Cache.
type CacheStatus struct {
	// ObservedGeneration is the generation of the spec that the rest describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Phase is a one-word summary: Pending, Creating, Running, Updating, Upgrading, SwitchingOver,
	// FailingOver, Degraded, Failed, Paused, Hibernated or Deleting. Programs should read the
	// conditions.
	// +optional
	Phase CachePhase `json:"phase,omitempty"`
	// Primary is the instance that takes writes; absent while there is none.
	// +optional
	Primary string `json:"primary,omitempty"`
	// FormerPrimary is the instance that took writes before the present primary or, while there is
	// none, the last one.
	// +optional
	FormerPrimary string `json:"formerPrimary,omitempty"`
	// PrimaryChange is the last change of the primary; absent if there was none.
	// +optional
	PrimaryChange *PrimaryChange `json:"primaryChange,omitempty"`
	// SwitchoverAt is the last spec.switchoverAt that was carried out.
	// +optional
	SwitchoverAt *metav1.Time `json:"switchoverAt,omitempty"`
	// SwitchoverFrom is the term whose primary is handing over on request; absent if none is.
	// +optional
	SwitchoverFrom int64 `json:"switchoverFrom,omitempty"`
	// SwitchoverFor is the spec.switchoverAt that is being carried out; absent if none is.
	// +optional
	SwitchoverFor *metav1.Time `json:"switchoverFor,omitempty"`
	// Replicas is the number of instances that exist.
	// +optional
	Replicas int32 `json:"replicas"`
	// ReadyReplicas is the number of instances that take connections.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`
	// InstanceSummary is ready/desired, for display.
	// +optional
	InstanceSummary string `json:"instanceSummary,omitempty"`
	// Term counts the elections. It is the primary's; while there is none, that of the record in the
	// Lease.
	// +optional
	Term int64 `json:"term,omitempty"`
	// UnreplicatedBytes is how many bytes of what the last primary had written its most advanced
	// replica had not received, at most, at the last sample: what an unplanned failover loses, beside
	// the writes since that sample. It is rounded up to a power of two, from 64 KiB on, and falls
	// after a minute only. Absent if no replica receives.
	// +optional
	UnreplicatedBytes int64 `json:"unreplicatedBytes,omitempty"`
	// CredentialsRevision changes with the content of the Secret NAME-app, and reveals nothing of it.
	// What is bound to the cache is restarted when it changes.
	// +optional
	CredentialsRevision string `json:"credentialsRevision,omitempty"`
	// Selector selects the pods; the scale subresource uses it.
	// +optional
	Selector string `json:"selector,omitempty"`
	// FirstReadyTime is when Ready became True for the first time; absent until then. It never
	// changes afterwards.
	// +optional
	FirstReadyTime *metav1.Time `json:"firstReadyTime,omitempty"`
	// Conditions are Ready, Progressing, Degraded, Paused, Writable and Replicated; StorageHealthy
	// with persistence; and Stalled while it is True.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
