package workload

import (
	"time"
)

// SourceKind is ConfigMap or Secret.
type SourceKind string

// Kinds of sources.
const (
	ConfigMap SourceKind = "ConfigMap"
	Secret    SourceKind = "Secret"
)

// SourceRef names a source within its namespace.
type SourceRef struct {
	Kind SourceKind
	Name string
}

// String returns, for example, "ConfigMap/flags".
func (r SourceRef) String() string { return string(r.Kind) + "/" + r.Name }

// SourceState is what is known about a source.
type SourceState int

// The source states. Only a Present source can cause restarts.
const (
	// Absent: it does not exist.
	Absent SourceState = iota
	// Present: it exists, and its hashes are known.
	Present
	// NotGranted: it is a Secret of a namespace whose Secrets may not be read.
	NotGranted
)

// absent replaces the hash of a key that does not exist.
const absent = "-"

// Source is a ConfigMap or Secret as far as restarts are concerned: hashes, and no values.
type Source struct {
	Ref   SourceRef
	State SourceState
	// Keys has the hash of each value.
	Keys map[string]string
	// Binary are the keys with binary data. Containers can't have variables of them.
	Binary []string
	// KeyID identifies the key of a Secret's hashes; empty for a ConfigMap.
	KeyID string
	// Created is when the object was created, Changed when its data last changed, both in whole
	// seconds.
	Created, Changed time.Time
	// Writers are the field managers of its data, the latest first.
	Writers []string
	Declaration
}

// Declaration is what a source's owner says about its content. It is zero for a source whose edits
// none of our kinds reverts.
type Declaration struct {
	// Owner is the kind of the owner.
	Owner string
	// Declared is the hash of the content that the owner has written. If the content differs, it was
	// edited and is being reverted.
	Declared string
	// PutBack means that the owner has put back an earlier content because a rollout failed. That
	// content waits for no window, order or canary.
	PutBack bool
}

// All returns the hash of all data.
func (s Source) All() string {
	if s.KeyID != "" {
		return s.KeyID + ":" + HashAll(s.Keys)
	}
	return HashAll(s.Keys)
}

// Key returns the hash of one value.
func (s Source) Key(key string) string {
	if hash, there := s.Keys[key]; there {
		return hash
	}
	return absent
}

// IsEdited reports whether the content differs from what its owner has written.
func (s Source) IsEdited() bool { return s.Declared != "" && s.Declared != s.All() }
