package contract

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/mainstay-platform/mainstay/internal/kit/bounded"
)

// ProvisionsKey is the key of the Secret ProvisionsName under which the primary finds the
// Provisions, as JSON.
const ProvisionsKey = "provisions.json"

// ProvisionsName is the name of the Secret with the databases and users that the primary makes. The
// settings say its revision; only then it is read.
func ProvisionsName(database string) string { return database + "-provisions" }

// Provisions are what the primary makes and changes in the server: databases and users of the
// spec. They have no password, but what the server keeps in place of one.
type Provisions struct {
	Databases []Database `json:"databases,omitempty"`
	Users     []User     `json:"users,omitempty"`
	// DropDatabases are databases that were in the spec with reclaim Delete, and no longer are.
	DropDatabases []string `json:"dropDatabases,omitempty"`
	// FormerUsers were in the spec and no longer are: they must not log in.
	FormerUsers []FormerUser `json:"formerUsers,omitempty"`
	// InitSQL are executed in the application's database, once, if it was made with the settings
	// saying Initialise.
	InitSQL []Statement `json:"initSQL,omitempty"`
	// Pooler is true if poolers connect: they need a role that tells them how users log in.
	Pooler bool `json:"pooler,omitempty"`
	// RotationDue is when the first user is to get its next password, or loses its former one; zero if
	// none does by time.
	RotationDue time.Time `json:"rotationDue,omitzero"`
}

// Statement is SQL of the user's: one statement or several.
type Statement struct {
	SQL string `json:"sql"`
	// IsSecret is true if it is from a Secret: nothing of it must be said.
	IsSecret bool `json:"isSecret,omitempty"`
}

// Database is a database of the server.
type Database struct {
	Name string `json:"name"`
	// Owner is a user; "" is the application's of the Secret DATABASE-app.
	Owner      string   `json:"owner,omitempty"`
	Extensions []string `json:"extensions,omitempty"`
	Schemas    []string `json:"schemas,omitempty"`
	// Delete is true if it is dropped when it leaves the spec.
	Delete bool `json:"delete,omitempty"`
}

// User is a role that can log in. A user whose password rotates has two, which take turns: that of
// its name, and one that acts as that.
type User struct {
	Name string `json:"name"`
	// As is the user as which this one acts; "" is itself.
	As string `json:"as,omitempty"`
	// Verifier is what the server keeps in place of the password (RFC 7677); "" if it must not log in.
	Verifier string `json:"verifier"`
	// IsUnknown is true if it is not known whether it may log in: it stays as it is.
	IsUnknown bool `json:"isUnknown,omitempty"`
	// Roles are exactly those that the user is a member of.
	Roles []string `json:"roles,omitempty"`
	// ConnectionLimit is how many connections it may have at once; -1 is any number.
	ConnectionLimit int32 `json:"connectionLimit"`
	// Secret is the name of the Secret with which the user connects.
	Secret string `json:"secret"`
	// Turn is what the manager remembers of the rotation; nothing of a user that acts as another.
	Turn Turn `json:"turn,omitzero"`
}

// Turn says which of the two roles of a user is in its Secret.
type Turn struct {
	// Login is that role; "" is the one that has the user's name.
	Login string `json:"login,omitempty"`
	// Since is when it got its password; zero if that is not known.
	Since time.Time `json:"since,omitzero"`
	// Until is when the other one ends; zero once it has ended.
	Until time.Time `json:"until,omitzero"`
	// RotatedAt is the last time of the spec that was carried out.
	RotatedAt time.Time `json:"rotatedAt,omitzero"`
}

// FormerUser is a user that is no longer in the spec.
type FormerUser struct {
	Name   string `json:"name"`
	Secret string `json:"secret"`
}

// Limits of the content of ProvisionsKey, in bytes. What is longer than MaxProvisionsBytes is not
// written: the API server takes a Secret of 1 MiB. Whatever that may hold can be read, because
// what can't be counts as lost.
const (
	MaxProvisionsBytes  = 1000 << 10
	readProvisionsBytes = 1 << 20
)

// ParseProvisions reads the content of ProvisionsKey.
func ParseProvisions(text []byte) (Provisions, error) {
	var provisions Provisions
	if err := bounded.Unmarshal(text, readProvisionsBytes, &provisions); err != nil {
		return Provisions{}, fmt.Errorf("%s: %w", ProvisionsKey, err)
	}
	return provisions, nil
}

// IsEmpty reports whether there is nothing to make or to change.
func (p Provisions) IsEmpty() bool {
	return len(p.Databases)+len(p.Users)+len(p.DropDatabases)+len(p.FormerUsers)+len(p.InitSQL) == 0 && !p.Pooler
}

// Encode returns the content of ProvisionsKey. SQL is full of <, > and &, which stay as they are.
func (p Provisions) Encode() []byte {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(p) // It consists of strings and numbers.
	return bytes.TrimSuffix(text.Bytes(), []byte("\n"))
}

// ProvisionsRevision returns the revision of a content of ProvisionsKey; "" of none. It reveals
// nothing: the verifiers have random salts.
func ProvisionsRevision(text []byte) string {
	if len(text) == 0 {
		return ""
	}
	const most = 8
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:most])
}
