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

// Ref names a source within its namespace.
type SourceRef struct {
	Kind SourceKind
	Name string
}

// String is "ConfigMap/flags".
func (r SourceRef) String() string { return string(r.Kind) + "/" + r.Name }

// Standing is what is known of a source.
type SourceState int

// Standings. What is not Present is never a reason to restart anything.
const (
	// Absent: there is none.
	Absent SourceState = iota
	// Present: it is there, and its hashes are known.
	Present
	// NotGranted: it is a Secret of a namespace whose Secrets may not be read.
	NotGranted
)

// absent is, in place of a hash, that there is no such key.
const absent = "-"

// Source is a ConfigMap or Secret as far as restarts are concerned: hashes, and nothing that it holds.
type Source struct {
	Ref      SourceRef
	Standing SourceState
	// Keys has the hash of each value.
	Keys map[string]string
	// Binary are those of the keys whose values are binary data: no container has variables of them.
	Binary []string
	// KeyID names the key of a Secret's hashes; empty for a ConfigMap.
	KeyID string
	// Created is when the object was made, Changed when its data were changed last: both to the second.
	Created, Changed time.Time
	// Writers are the field managers of its data, the latest first.
	Writers []string
	// Declared is the hash of the content that its AppConfig has given it; empty for what belongs to no
	// AppConfig. While the content is another, somebody has edited it and it is being put back.
	Declared string
	// PutBack means that the content is an earlier one, which its AppConfig has put back because a rollout failed: it waits for no
	// window, order or canary.
	PutBack bool
}

// All is the hash of all data.
func (s Source) All() string {
	if s.KeyID != "" {
		return s.KeyID + ":" + HashAll(s.Keys)
	}
	return HashAll(s.Keys)
}

// Key is the hash of one value.
func (s Source) Key(key string) string {
	if hash, there := s.Keys[key]; there {
		return hash
	}
	return absent
}

// isBeingPutBack tells that the content is not the one that its AppConfig gave it.
func (s Source) isBeingPutBack() bool { return s.Declared != "" && s.Declared != s.All() }
