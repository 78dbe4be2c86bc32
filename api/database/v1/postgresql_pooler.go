package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Pooler is PgBouncer in front of the primary.
type Pooler struct {
	// Instances of the pooler, 1 to 10; default 2.
	// +optional
	// +default=2
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 10",message="must be from 1 to 10"
	Instances int32 `json:"instances,omitempty"`

	// Mode is when a client gives its connection to the server back: Transaction (the default) after
	// each transaction, Session when it disconnects. In Transaction, what a session keeps from one
	// transaction to the next can't be relied on, such as SET, LISTEN and advisory locks; prepared
	// statements of the protocol can. Only in Transaction do clients wait, rather than fail, while the
	// primary hands over.
	// +optional
	// +default="Transaction"
	// +kubebuilder:validation:Enum=Transaction;Session
	Mode PoolerMode `json:"mode,omitempty"`

	// PoolSize is how many connections to the server each instance of the pooler has at most for each
	// pair of user and database, 1 to 1000. All instances together must fit into the server's
	// max_connections. Default: half of them, divided by the instances, at most 20.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 1000",message="must be from 1 to 1000"
	PoolSize int32 `json:"poolSize,omitempty"`

	// MaxClients is how many clients may be connected to each instance, 1 to 20000; default 1000.
	// +optional
	// +default=1000
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 20000",message="must be from 1 to 20000"
	MaxClients int32 `json:"maxClients,omitempty"`

	// IgnoreStartupParameters are parameters that are ignored when a client sends them as it connects,
	// also within options, for example search_path or statement_timeout; 20 at most, each spelled as
	// the client sends it. A client that sends one that is not ignored, and that PgBouncer can't keep
	// for it, is refused. Ignore only what does not matter: the client is not told, and its queries
	// may go to other tables, or never end.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^[A-Za-z][A-Za-z0-9_.]*$')",message="must be the name of a parameter, for example search_path"
	// +kubebuilder:validation:items:XValidation:rule="!(self.lowerAscii() in ['application_name', 'client_encoding', 'database', 'datestyle', 'intervalstyle', 'options', 'replication', 'standard_conforming_strings', 'timezone', 'user'])",message="must be a parameter that PgBouncer would refuse, for example search_path: this one must not be ignored"
	IgnoreStartupParameters []string `json:"ignoreStartupParameters,omitempty"`

	// Image of PgBouncer 1.21 or later, with the program pgbouncer on its PATH. Default: that of the
	// installation (databaseImages.pgbouncer of the chart's values).
	// +optional
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-zA-Z0-9]([-a-zA-Z0-9.]*[a-zA-Z0-9])?(:[0-9]+)?/|\\\\[[a-fA-F0-9:]+\\\\](:[0-9]+)?/)?[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*(:[A-Za-z0-9_][-A-Za-z0-9_.]{0,127})?(@[A-Za-z][A-Za-z0-9]*([-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?$')",message="must be an image reference: [registry[:port]/]path[:tag][@digest], the path in lower case, for example registry.example.com/pgbouncer:1.24.1"
	Image string `json:"image,omitempty"`

	// Resources are the requests and limits of each instance. Default: requests of 50m and 64Mi,
	// limits of 1 and 256Mi.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`
}

// PoolerMode is when a client gives its connection to the server back.
type PoolerMode string

// Modes of a pooler.
const (
	// PoolerTransaction is after each transaction.
	PoolerTransaction PoolerMode = "Transaction"
	// PoolerSession is when the client disconnects.
	PoolerSession PoolerMode = "Session"
)

// PoolerStatus is what is known of the pooler.
type PoolerStatus struct {
	// ReadyInstances is how many instances take connections.
	// +optional
	ReadyInstances int32 `json:"readyInstances"`
	// SecretName is the name of the Secret with which the user app connects through the pooler; empty
	// until an instance has taken connections.
	// +optional
	SecretName string `json:"secretName,omitempty"`
	// Problem says why the pooler, which has taken no connections yet, can't start now; empty if it
	// can. Applications that start meanwhile connect to the server itself, and are moved to the pooler
	// later.
	// +optional
	Problem string `json:"problem,omitempty"`
	// LeavesAt is when the pooler is deleted, after spec.pooler was removed, unless WaitsFor delays
	// it: some minutes later, so that applications that use it can be replaced before. Absent while
	// spec.paused is true: these minutes begin when it is not.
	// +optional
	LeavesAt *metav1.Time `json:"leavesAt,omitempty"`
	// WaitsFor is a bound application that delays the end of the pooler: it, or some of its pods,
	// still connect through it. Empty if there is none.
	// +optional
	WaitsFor string `json:"waitsFor,omitempty"`
}
