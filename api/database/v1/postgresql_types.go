package v1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rolloutv1 "github.com/mainstay-platform/mainstay/api/rollout/v1"
)

// PostgreSQL is a PostgreSQL database of one to five instances. One instance, the primary, takes
// writes; the others receive them, take reads, and elect a new primary among themselves when it
// fails. They do so without Mainstay's manager.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:path=postgresqls,shortName=pg,categories={all,mainstay}
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the database is as its spec says"
// +kubebuilder:printcolumn:name="Primary",type=string,JSONPath=`.status.primary`,description="The instance that takes writes"
// +kubebuilder:printcolumn:name="Instances",type=string,JSONPath=`.status.instanceSummary`,description="Instances that take connections, out of the desired ones"
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.spec.version`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Timeline",type=integer,JSONPath=`.status.timeline`,priority=1
// +kubebuilder:printcolumn:name="Lag",type=string,JSONPath=`.status.lag`,priority=1
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]{0,48}[a-z0-9])?$')",fieldPath=".metadata",messageExpression="'metadata.name ' + self.metadata.name + ' must be a DNS label of at most 50 characters, lower-case letters, digits and -, starting with a letter (the names of its instances are longer)'"
type PostgreSQL struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired database.
	// +required
	Spec PostgreSQLSpec `json:"spec"`
	// Status is the observed state.
	// +optional
	Status PostgreSQLStatus `json:"status,omitzero"`
}

// PostgreSQLList is a list of PostgreSQLs.
//
// +kubebuilder:object:root=true
type PostgreSQLList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PostgreSQL `json:"items"`
}

// PostgreSQLSpec is the desired database. Only version and storage are required.
//
// +kubebuilder:validation:XValidation:rule="self.version == oldSelf.version",message="spec.version can't change: another major version needs a dump and a restore into a new PostgreSQL",fieldPath=".version"
// +kubebuilder:validation:XValidation:rule="has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",message="spec.storageClassName can't change: the volumes exist",fieldPath=".storageClassName"
// +kubebuilder:validation:XValidation:rule="(has(self.runAsUser) ? self.runAsUser : 1000) == (has(oldSelf.runAsUser) ? oldSelf.runAsUser : 1000)",message="spec.runAsUser can't change: the data belong to that user",fieldPath=".runAsUser"
// +kubebuilder:validation:XValidation:rule="has(self.walStorage) == has(oldSelf.walStorage)",message="spec.walStorage can't be added or removed: the log is where it was made. Restore a dump into a new PostgreSQL",fieldPath=".walStorage"
// +kubebuilder:validation:XValidation:rule="quantity(self.storage).compareTo(quantity(oldSelf.storage)) >= 0",message="spec.storage can't shrink: volumes only grow",fieldPath=".storage"
type PostgreSQLSpec struct {
	// Version is the major version of the server: "12" to "18". 12, 13 and 14 get no more fixes
	// from the PostgreSQL project. It can't be changed.
	// +required
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self in ['12', '13', '14', '15', '16', '17', '18']",message="must be one of \"12\", \"13\", \"14\", \"15\", \"16\", \"17\" and \"18\", for example \"17\""
	Version string `json:"version"`

	// Image of the server, with the programs postgres and initdb of that version on its PATH.
	// Changing it to another minor version replaces the pods one after the other. Default: that of
	// the installation for the version (databaseImages.postgresql of the chart's values).
	// +optional
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-zA-Z0-9]([-a-zA-Z0-9.]*[a-zA-Z0-9])?(:[0-9]+)?/|\\\\[[a-fA-F0-9:]+\\\\](:[0-9]+)?/)?[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*(:[A-Za-z0-9_][-A-Za-z0-9_.]{0,127})?(@[A-Za-z][A-Za-z0-9]*([-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?$')",message="must be an image reference: [registry[:port]/]path[:tag][@digest], the path in lower case, for example registry.example.com/postgresql:17.11"
	Image string `json:"image,omitempty"`

	// ImagePullSecrets name Secrets of this namespace with credentials for registries.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`

	// Replicas is the number of instances, 1 to 5; default 1. `kubectl scale postgresql` changes
	// it. From 3 on, the database goes on without loss when any one of them fails.
	// +optional
	// +default=1
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 5",message="must be from 1 to 5"
	Replicas int32 `json:"replicas,omitempty"`

	// Storage is the size of each instance's volume, at least 512Mi, for example 10Gi. It can grow,
	// if the storage class allows it, and never shrinks.
	// +required
	// +kubebuilder:validation:XValidation:rule="isQuantity(self) && quantity(self).compareTo(quantity('512Mi')) >= 0",message="must be a quantity of at least 512Mi, for example 10Gi"
	Storage resource.Quantity `json:"storage"`

	// StorageClassName is the class of the volumes. Default: the cluster's. It can't be changed.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	StorageClassName *string `json:"storageClassName,omitempty"`

	// AutoGrow lets the volumes of the data grow by themselves when one of them is nearly full.
	// The storage class must allow that. Default: they have the size of spec.storage, or the
	// larger one that they have already.
	// +optional
	AutoGrow *AutoGrow `json:"autoGrow,omitempty"`

	// WALStorage puts the server's log (pg_wal) on a volume of its own, so that log and data don't
	// share a disk's speed, and neither fills the other's. It can't be added or removed. Default: the
	// log is with the data.
	// +optional
	WALStorage *WALStorage `json:"walStorage,omitempty"`

	// Resources are the requests and limits of the server's container.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`

	// Parameters of the server, by their names in its documentation, such as work_mem: "64MB". Those
	// that need no restart take effect at once; for the others the pods are replaced one after the
	// other. What replication and safety rest on can't be set. Default: memory and connections follow
	// from resources.limits; everything else is the server's.
	// +optional
	// +kubebuilder:validation:MaxProperties=200
	Parameters map[string]ParameterValue `json:"parameters,omitempty"`

	// Databases of the server, beside the database app of the Secret NAME-app, which is always there.
	// One that leaves the list stays in the server, unless its reclaim is Delete.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=100
	Databases []Database `json:"databases,omitempty"`

	// Users of the server, beside the user app of the Secret NAME-app, which is always there. Each has
	// a Secret with which it connects. One that leaves the list can't log in any more, and its Secret
	// is deleted; the role stays, because it may own something.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=1000
	Users []User `json:"users,omitempty"`

	// InitSQL is executed in the database app, once, when that is made: before Ready becomes True, in
	// one transaction, in this order, as the user app. So it has no COMMIT, no psql commands, and
	// nothing that can't be in a transaction, such as VACUUM. If a statement fails, nothing of it is
	// done, and Ready says which; correct it, or remove it. It is never executed in a database that
	// exists already, and has no effect once the PostgreSQL was ready. At most 64 KiB together.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	InitSQL []InitSQL `json:"initSQL,omitempty"`

	// PgHBA are lines of pg_hba.conf that limit who connects from where, such as
	// "hostssl orders shop 10.0.0.0/8 scram-sha-256" and "hostssl all all all reject". The first line
	// that matches counts; what none matches needs TLS and a password, as without them. A line begins
	// with hostssl; its databases and users are all or names with commas between them (+ before a role
	// is its members), its address is all or a network, and its method scram-sha-256, cert or reject.
	// A change takes effect at once. Default: none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=512
	PgHBA []string `json:"pgHBA,omitempty"`

	// Pooler puts PgBouncer between clients and the primary, by the Service NAME-pooler: many clients
	// share few connections, and wait while the primary hands over. Applications that are bound to the
	// database connect through it. Default: none.
	// +optional
	Pooler *Pooler `json:"pooler,omitempty"`

	// Durability is what a commit waits for. With Required it waits until enough instances have
	// flushed it that no failover loses it, and waits as long as there are too few. With Preferred
	// it does the same, but goes on alone when the others are gone; then only this primary may lead
	// again. With Asynchronous it waits for no other instance: what none of them has received when the
	// primary fails is lost, and only clocks keep a former primary from writing beside the next.
	// Default: Required from 3 instances on, else Preferred.
	// +optional
	// +kubebuilder:validation:Enum=Required;Preferred;Asynchronous
	Durability Durability `json:"durability,omitempty"`

	// Failover is when and how another instance takes over.
	// +optional
	Failover Failover `json:"failover,omitzero"`

	// Backup is when the database is backed up. It is checked and stored; this Mainstay makes no
	// backups yet.
	// +optional
	Backup Backup `json:"backup,omitzero"`

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
	// first, then the primary, which hands over. Secrets, the Lease and the EndpointSlice that are
	// made once keep those of their creation.
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

	// DeletionPolicy is what becomes of the volumes when the PostgreSQL is deleted. Retain (the
	// default) keeps them: a new PostgreSQL of the same name takes them up. Delete deletes them.
	// +optional
	// +default="Retain"
	// +kubebuilder:validation:Enum=Retain;Delete
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// Reclaim is what becomes of the volumes of an instance that a lower spec.replicas removes.
	// Retain (the default) keeps them: an instance that is added later takes them up. Delete
	// deletes them, once all remaining instances are ready and no commit depends on the removed
	// one.
	// +optional
	// +default="Retain"
	// +kubebuilder:validation:Enum=Retain;Delete
	Reclaim DeletionPolicy `json:"reclaim,omitempty"`

	// Rollout is when pods are replaced because their template has changed.
	// +optional
	Rollout Rollout `json:"rollout,omitzero"`

	// RestartedAt restarts the instances, one after the other, each time it changes:
	// kubectl patch pg NAME --type merge -p '{"spec":{"restartedAt":"2026-01-31T12:00:00Z"}}'.
	// +optional
	RestartedAt *metav1.Time `json:"restartedAt,omitempty"`

	// PreferredPrimary is the instance that should take writes, for example shop-db-1: when it and all
	// others are ready, the primary hands over to it, within rollout.window. That is tried once after
	// each failover and each change of the spec. A failover does not wait for it, and a primary by
	// spec.switchoverAt stays. Default: whichever leads goes on.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	PreferredPrimary string `json:"preferredPrimary,omitempty"`

	// SwitchoverAt lets the primary hand over to a replica, once each time it changes; it goes on as
	// a replica: kubectl patch pg NAME --type merge -p
	// '{"spec":{"switchoverAt":"2026-01-31T12:00:00Z"}}'. It is carried out at once, whatever the time
	// says, or when a replica is ready. A time that is there from the beginning does nothing.
	// +optional
	SwitchoverAt *metav1.Time `json:"switchoverAt,omitempty"`

	// Paused stops Mainstay from changing anything; it still updates the status. The instances keep
	// running and failing over.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// Hibernated stops all instances, and keeps everything else: volumes, Services and Secrets.
	// Clients are refused meanwhile. Setting it to false starts the instances again.
	// +optional
	Hibernated bool `json:"hibernated,omitempty"`
}

// AutoGrow is when volumes grow by themselves: all instances' at once, and not again within ten
// minutes, unless the primary would fill its own before these are over.
type AutoGrow struct {
	// Limit is how large each volume gets at most, for example 100Gi.
	// +required
	// +kubebuilder:validation:XValidation:rule="isQuantity(self) && quantity(self).compareTo(quantity('512Mi')) >= 0",message="must be a quantity of at least 512Mi, for example 100Gi"
	Limit resource.Quantity `json:"limit"`
	// From is how full a volume has to be, in percent: 50 to 95, default 80. Instances tell it in
	// steps of five.
	// +optional
	// +default=80
	// +kubebuilder:validation:XValidation:rule="self >= 50 && self <= 95",message="must be from 50 to 95"
	From int32 `json:"from,omitempty"`
	// By is how much larger the volumes get each time, in percent: 5 to 100, default 25. It is more
	// where the primary would fill its own within ten minutes.
	// +optional
	// +default=25
	// +kubebuilder:validation:XValidation:rule="self >= 5 && self <= 100",message="must be from 5 to 100"
	By int32 `json:"by,omitempty"`
}

// WALStorage is a volume of its own for the server's log.
//
// +kubebuilder:validation:XValidation:rule="quantity(self.size).compareTo(quantity(oldSelf.size)) >= 0",message="spec.walStorage.size can't shrink: volumes only grow",fieldPath=".size"
// +kubebuilder:validation:XValidation:rule="has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",message="spec.walStorage.storageClassName can't change: the volumes exist",fieldPath=".storageClassName"
type WALStorage struct {
	// Size of each instance's volume for the log, at least 512Mi, for example 5Gi. It can grow, if the
	// storage class allows it, and never shrinks.
	// +required
	// +kubebuilder:validation:XValidation:rule="isQuantity(self) && quantity(self).compareTo(quantity('512Mi')) >= 0",message="must be a quantity of at least 512Mi, for example 5Gi"
	Size resource.Quantity `json:"size"`
	// StorageClassName is the class of these volumes. Default: the cluster's. It can't be changed.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	StorageClassName *string `json:"storageClassName,omitempty"`
}

// ParameterValue is the value of a parameter of the server.
//
// +kubebuilder:validation:MaxLength=1024
type ParameterValue string

// Failover is when and how another instance takes over.
type Failover struct {
	// After is for how long the primary must be silent before another instance stands for election,
	// from 5s to 5m; default 11s. A primary that ends, or whose server dies, is replaced at once.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+m)?([0-9]+s)?$') && duration(self) >= duration('5s') && duration(self) <= duration('5m')",message="must be from 5s to 5m, in whole seconds, for example 11s"
	After string `json:"after,omitempty"`
	// AcceptLoss is a user's word that an instance may lead although it may lack acknowledged
	// writes. While there is no primary, set it to the number in status.term, which each election of
	// a primary raises. It counts for that term alone; the conditions name both terms if it is
	// another. Use it when the other instances' volumes are lost for good. It has no effect while an
	// instance that answers may have more: grow or repair its volume, or delete its volume and its
	// pod.
	// +optional
	// +kubebuilder:validation:Minimum=0
	AcceptLoss int64 `json:"acceptLoss,omitempty"`
}

// Rollout is when pods are replaced because their template has changed.
type Rollout struct {
	// Window is when pods that are ready may be replaced. One that is not ready is replaced at any
	// time; spec.switchoverAt does not wait for it. Default: at any time.
	// +optional
	Window *rolloutv1.Window `json:"window,omitempty"`
}

// Durability is what a commit waits for.
type Durability string

// Durabilities.
const (
	// DurabilityRequired waits for enough instances, however long.
	DurabilityRequired Durability = "Required"
	// DurabilityPreferred waits for them while they are there.
	DurabilityPreferred Durability = "Preferred"
	// DurabilityAsynchronous waits for none.
	DurabilityAsynchronous Durability = "Asynchronous"
)

// TopologySpread is how strictly pods are spread.
type TopologySpread string

// Ways to spread pods.
const (
	// SpreadPreferred spreads over zones and nodes as far as possible.
	SpreadPreferred TopologySpread = "Preferred"
	// SpreadRequired leaves a pod pending rather than put two instances on one node.
	SpreadRequired TopologySpread = "Required"
	// SpreadDisabled adds no rules for the scheduler.
	SpreadDisabled TopologySpread = "Disabled"
)

// DeletionPolicy is what becomes of volumes.
type DeletionPolicy string

// Deletion policies.
const (
	// DeletionRetain keeps the volumes.
	DeletionRetain DeletionPolicy = "Retain"
	// DeletionDelete deletes them.
	DeletionDelete DeletionPolicy = "Delete"
)

// PrimaryChange is a change of the primary.
type PrimaryChange struct {
	// From and To are the former and the next primary.
	From string `json:"from"`
	To   string `json:"to"`
	// Term is that of the next primary.
	Term int64 `json:"term"`
	// Planned is true if the former primary handed over, false for a failover.
	// +optional
	Planned bool `json:"planned,omitempty"`
	// Cause says why the former primary leads no more, as far as the instances know.
	// +optional
	Cause string `json:"cause,omitempty"`
	// Seconds is for how long no instance was seen to take writes; absent if that was not noticed.
	// +optional
	Seconds int32 `json:"seconds,omitempty"`
	// UnreplicatedBytes is, of a failover of a Cache, status.unreplicatedBytes before it: how many
	// bytes of the former primary's writes no replica had at the last sample, at most. What it wrote
	// after that sample comes on top. Absent if that is unknown, and for a PostgreSQL.
	// +optional
	UnreplicatedBytes int64 `json:"unreplicatedBytes,omitempty"`
}

// PostgreSQLStatus is the observed state of a PostgreSQL.
type PostgreSQLStatus struct {
	// ObservedGeneration is the generation of the spec that the rest describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Phase is a one-word summary: Pending, Creating, Running, Updating, Upgrading, SwitchingOver,
	// FailingOver, Degraded, Failed, Paused, Hibernated or Deleting. Programs should read the
	// conditions.
	// +optional
	Phase PostgreSQLPhase `json:"phase,omitempty"`
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
	// PreferredTerm is the last term whose primary is not asked again to hand over to
	// spec.preferredPrimary: it was asked, or another instance leads since then on request.
	// +optional
	PreferredTerm int64 `json:"preferredTerm,omitempty"`
	// PreferredGeneration is the generation of the spec for which PreferredTerm counts.
	// +optional
	PreferredGeneration int64 `json:"preferredGeneration,omitempty"`
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
	// Timeline is that of the primary's data.
	// +optional
	Timeline int64 `json:"timeline,omitempty"`
	// Lag is how far the replica that is furthest behind is: absent, Seconds or Minutes.
	// +optional
	Lag string `json:"lag,omitempty"`
	// CredentialsRevision changes with the content of the Secret NAME-app, and reveals nothing of it.
	// What is bound to the database is restarted when it changes.
	// +optional
	CredentialsRevision string `json:"credentialsRevision,omitempty"`

	// Pooler is what is known of spec.pooler; absent without one.
	// +optional
	Pooler *PoolerStatus `json:"pooler,omitempty"`

	// Users are those of spec.users that exist, and with which Secret they connect.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=1000
	Users []UserStatus `json:"users,omitempty"`
	// Selector selects the pods; the scale subresource uses it.
	// +optional
	Selector string `json:"selector,omitempty"`
	// FirstReadyTime is when Ready became True for the first time; absent until then. It never
	// changes afterwards.
	// +optional
	FirstReadyTime *metav1.Time `json:"firstReadyTime,omitempty"`
	// Conditions are Ready, Progressing, Degraded, Paused, Writable, Durable and StorageHealthy;
	// BackupHealthy while backups are wanted; and Stalled while it is True.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
