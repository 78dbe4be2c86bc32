package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Database is a database of the server.
//
// +kubebuilder:validation:XValidation:rule="self.name != 'app' || !has(self.owner) || self.owner == 'app'",message="the database app belongs to the user app: leave owner out",fieldPath=".owner"
// +kubebuilder:validation:XValidation:rule="self.name != 'app' || !has(self.reclaim) || self.reclaim == 'Retain'",message="the database app always exists: it can't be dropped",fieldPath=".reclaim"
type Database struct {
	// Name of the database: letters, digits, _ and -, beginning with a letter or _; at most 63. The
	// database app is always there; it is listed only for its extensions and schemas.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z_][-A-Za-z0-9_]{0,62}$')",message="must be letters, digits, _ and -, beginning with a letter or _; at most 63 characters"
	// +kubebuilder:validation:XValidation:rule="!(self in ['postgres', 'template0', 'template1']) && !self.startsWith('pg_') && !self.startsWith('mainstay_')",message="is the server's or Mainstay's own: choose another name"
	Name string `json:"name"`

	// Owner is the user that the database belongs to: one of spec.users, or app. Default: app.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Owner string `json:"owner,omitempty"`

	// Extensions that the database has, by their names, such as pg_trgm. The server's image must have
	// them. One that leaves the list stays in the database.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^[a-z_][-a-z0-9_]{0,62}$')",message="must be the name of an extension, such as pg_trgm"
	Extensions []string `json:"extensions,omitempty"`

	// Schemas that the database has; they are made for its owner. One that leaves the list stays in
	// the database.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^[A-Za-z_][-A-Za-z0-9_]{0,62}$')",message="must be letters, digits, _ and -, beginning with a letter or _; at most 63 characters"
	Schemas []string `json:"schemas,omitempty"`

	// Reclaim is what becomes of the database when it leaves the list. Retain (the default) leaves it
	// in the server. Delete drops it, with all that it holds, and ends its connections.
	// +optional
	// +kubebuilder:validation:Enum=Retain;Delete
	Reclaim DeletionPolicy `json:"reclaim,omitempty"`
}

// User is a role of the server that logs in with a password. It is never a superuser.
//
// +kubebuilder:validation:XValidation:rule="!has(self.passwordSecret) || !has(self.rotateEvery)",message="Mainstay does not make the password of passwordSecret: change it in that Secret",fieldPath=".rotateEvery"
// +kubebuilder:validation:XValidation:rule="!has(self.passwordSecret) || !has(self.rotatedAt)",message="Mainstay does not make the password of passwordSecret: change it in that Secret",fieldPath=".rotatedAt"
type User struct {
	// Name of the user: letters, digits, _ and -, beginning with a letter or _; at most 63. The user
	// app is always there, by the Secret NAME-app.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z_][-A-Za-z0-9_]{0,62}$')",message="must be letters, digits, _ and -, beginning with a letter or _; at most 63 characters"
	// +kubebuilder:validation:XValidation:rule="!(self in ['app', 'postgres', 'public', 'none']) && !self.startsWith('pg_') && !self.startsWith('mainstay_')",message="is the server's or Mainstay's own: choose another name"
	Name string `json:"name"`

	// PasswordSecret is the key of a Secret of this namespace with the password: 1 to 256 characters
	// of ASCII. While it can't be read, the user stays as it is. Default: a password is made, and is
	// in the Secret that secretName names; what you write there counts.
	// +optional
	PasswordSecret *corev1.SecretKeySelector `json:"passwordSecret,omitempty"`

	// Roles that the user is a member of, exactly these: others of spec.users, app, and
	// pg_read_all_data, pg_write_all_data, pg_monitor, pg_read_all_settings, pg_read_all_stats,
	// pg_stat_scan_tables, pg_signal_backend, pg_checkpoint and pg_maintain, where the version has
	// them.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=63
	Roles []string `json:"roles,omitempty"`

	// ConnectionLimit is how many connections the user may have at once. Default: any number.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	ConnectionLimit *int32 `json:"connectionLimit,omitempty"`

	// SecretName is the name of the Secret with which the user connects: host, port, dbname, username,
	// password, uri, jdbc-uri, pgpass and ca.crt. dbname is the first database of spec.databases that
	// the user owns, else app. Default: the name of the PostgreSQL, a - and that of the user; it is
	// required where that is no name of a Secret.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName,omitempty"`

	// RotateEvery is how long a password is used before the next one is made, for example 720h: from
	// 1h to 17520h, and longer than overlap. Default: a password is used until rotatedAt or an edit of
	// the Secret changes it.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	RotateEvery string `json:"rotateEvery,omitempty"`

	// RotatedAt makes a new password: each new time does so once, for example 2026-01-31T12:00:00Z. A
	// time that is there from the beginning does nothing.
	// +optional
	RotatedAt *metav1.Time `json:"rotatedAt,omitempty"`

	// Overlap is how long the former password still works after the Secret has the next one: from 1m
	// to 720h; default 1h. While a WebApp that is bound to the user has not replaced its pods, it
	// works for longer. Its sessions of the server end then. A client that stays connected to the
	// pooler is not asked for its password again.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	Overlap string `json:"overlap,omitempty"`
}

// UserStatus is a user that exists.
type UserStatus struct {
	// Name of the user.
	Name string `json:"name"`
	// SecretName is the name of the Secret with which it connects.
	SecretName string `json:"secretName"`
	// Revision changes with the content of that Secret, and reveals nothing of it.
	Revision string `json:"revision"`
	// Pooled reports whether that content has the address of the pooler.
	// +optional
	Pooled bool `json:"pooled,omitempty"`
	// Blocked reports whether the Secret can't be written now, for example because the passwordSecret
	// of the spec lacks its key: the user and its Secret stay as they are.
	// +optional
	Blocked bool `json:"blocked,omitempty"`
	// Login is the name by which it logs in, the username of that Secret: its own or, after the first
	// rotation and then every other one, its own with .2 at the end. It acts as the user in any case.
	// +optional
	Login string `json:"login,omitempty"`
	// Since is when that Secret got this password; absent while that is not known.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
	// FormerLogin is the name by which clients with the former password still log in; absent if there
	// is none.
	// +optional
	FormerLogin string `json:"formerLogin,omitempty"`
	// FormerUntil is when the former password ends, unless WaitsFor delays it.
	// +optional
	FormerUntil *metav1.Time `json:"formerUntil,omitempty"`
	// WaitsFor is what delays the end of the former password: an application that still has it, or
	// "the primary", while that has not made what the spec says.
	// +optional
	WaitsFor string `json:"waitsFor,omitempty"`
}

// InitSQL is SQL, or where it is.
//
// +kubebuilder:validation:XValidation:rule="[has(self.sql), has(self.configMapKeyRef), has(self.secretKeyRef)].filter(x, x).size() == 1",message="must have exactly one of sql, configMapKeyRef or secretKeyRef"
type InitSQL struct {
	// SQL is one statement, or several.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	SQL string `json:"sql,omitempty"`
	// ConfigMapKeyRef is the key of a ConfigMap of this namespace with them.
	// +optional
	ConfigMapKeyRef *corev1.ConfigMapKeySelector `json:"configMapKeyRef,omitempty"`
	// SecretKeyRef is the key of a Secret of this namespace with them. Of what fails, only the
	// position and the server's error code are said.
	// +optional
	SecretKeyRef *corev1.SecretKeySelector `json:"secretKeyRef,omitempty"`
}
