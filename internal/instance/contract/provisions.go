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

// ProvisionsKey is the key of the Provisions, as JSON, in the Secret ProvisionsName.
const ProvisionsKey = "provisions.json"

// ProvisionsName returns the name of the Secret with the databases and users that the primary
// makes. It is read only if the settings have its revision (Settings.Provisions).
func ProvisionsName(database string) string { return database + "-provisions" }

// Provisions are what the primary creates and changes in the server: the databases and users of the
// spec. They contain no passwords, only verifiers, which the server stores in place of passwords.
type Provisions struct {
	Databases []Database `json:"databases,omitempty"`
	Users     []User     `json:"users,omitempty"`
	// DropDatabases are databases that were in the spec with reclaim Delete, and no longer are.
	DropDatabases []string `json:"dropDatabases,omitempty"`
	// FormerUsers were in the spec and no longer are: they must not be able to log in.
	FormerUsers []FormerUser `json:"formerUsers,omitempty"`
	// FormerSecrets are the names of Secrets with which users connected before they got others. The
	// manager stores them until the Secrets are gone; they are nothing to the primary.
	FormerSecrets []string `json:"formerSecrets,omitempty"`
	// InitSQL are executed once in the application's database, if that was created while
	// Settings.Initialise was true.
	InitSQL []Statement `json:"initSQL,omitempty"`
	// Pooler is true if there are poolers, which need a role and a function in the server to look up
	// how users log in.
	Pooler bool `json:"pooler,omitempty"`
	// RotationDue is the earliest time at which a user gets its next password or loses its former one;
	// the zero time if no password rotates by time.
	RotationDue time.Time `json:"rotationDue,omitzero"`
}

// Statement is SQL from the user's spec: one statement or several.
type Statement struct {
	SQL string `json:"sql"`
	// IsSecret is true if the SQL is from a Secret: no part of it may be logged or reported.
	IsSecret bool `json:"isSecret,omitempty"`
}

// Database is a database of the server.
type Database struct {
	Name string `json:"name"`
	// Owner is a user; "" is the application's user, of the Secret DATABASE-app.
	Owner      string   `json:"owner,omitempty"`
	Extensions []string `json:"extensions,omitempty"`
	Schemas    []string `json:"schemas,omitempty"`
	// Delete is true if the database is dropped once it is removed from the spec.
	Delete bool `json:"delete,omitempty"`
}

// User is a role that can log in. A user whose password rotates has two roles, which are used by
// turns: one of its own name, and a second one, whose sessions act as the first.
type User struct {
	Name string `json:"name"`
	// As is, of a second role, the user as which its sessions act; "" for a role that acts as itself.
	As string `json:"as,omitempty"`
	// Verifier is what the server stores in place of the password (RFC 7677); "" if the role must not
	// log in.
	Verifier string `json:"verifier"`
	// IsUnknown is true if it is not known whether the role may log in: an existing one is left as it
	// is.
	IsUnknown bool `json:"isUnknown,omitempty"`
	// Roles are the roles of which the user is a member. It is removed from all others.
	Roles []string `json:"roles,omitempty"`
	// ConnectionLimit is how many connections the role may have at once; -1 is no limit.
	ConnectionLimit int32 `json:"connectionLimit"`
	// Secret is the name of the Secret with which the user connects.
	Secret string `json:"secret"`
	// Turn is what the manager stores about the rotation of the password; the zero value for a second
	// role.
	Turn Turn `json:"turn,omitzero"`
}

// Turn says which of the two roles of a user is in its Secret at present.
type Turn struct {
	// Login is the name of that role; "" is the role with the user's own name.
	Login string `json:"login,omitempty"`
	// Since is when that role got its password; the zero time if that is unknown.
	Since time.Time `json:"since,omitzero"`
	// Until is when the other role's password stops working; the zero time once it has.
	Until time.Time `json:"until,omitzero"`
	// RotatedAt is the last rotation time in the spec that was carried out.
	RotatedAt time.Time `json:"rotatedAt,omitzero"`
}

// FormerUser is a user that is no longer in the spec.
type FormerUser struct {
	Name   string `json:"name"`
	Secret string `json:"secret"`
}

// Limits of the content of ProvisionsKey, in bytes. More than MaxProvisionsBytes is not written,
// because the API server accepts Secrets of at most 1 MiB. The limit for reading is higher, so that
// everything that a Secret can hold can be read: what can't be read counts as lost.
const (
	MaxProvisionsBytes  = 1000 << 10
	readProvisionsBytes = 1 << 20
)

// ParseProvisions decodes the content of ProvisionsKey.
func ParseProvisions(text []byte) (Provisions, error) {
	var provisions Provisions
	if err := bounded.Unmarshal(text, readProvisionsBytes, &provisions); err != nil {
		return Provisions{}, fmt.Errorf("%s: %w", ProvisionsKey, err)
	}
	return provisions, nil
}

// IsEmpty reports whether there is nothing to make or to change.
func (p Provisions) IsEmpty() bool {
	return len(p.Databases)+len(p.Users)+len(p.DropDatabases)+len(p.FormerUsers)+len(p.FormerSecrets)+len(p.InitSQL) == 0 && !p.Pooler
}

// Encode returns the content of ProvisionsKey.
func (p Provisions) Encode() []byte { return encode(p) }

// encode returns a value as JSON. The characters <, > and &, which are frequent in SQL, are not
// escaped, which would make them six times as long.
func encode(value any) []byte {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value) // It consists of strings and numbers.
	return bytes.TrimSuffix(text.Bytes(), []byte("\n"))
}

// ProvisionsRevision returns the revision of a content of ProvisionsKey, a hash; "" if there is
// none. It reveals nothing about passwords, because the verifiers have random salts.
func ProvisionsRevision(text []byte) string {
	if len(text) == 0 {
		return ""
	}
	const most = 8
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:most])
}
