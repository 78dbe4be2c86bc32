package plan

import (
	"cmp"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
)

// Revert is a change of an object by someone else that was undone.
type Revert struct {
	Ref Ref
	// APIVersion of the object, such as apps/v1.
	APIVersion string
	// UID and Version are those of the changed object, or of the one that was made again, of which no
	// version is known.
	UID     types.UID
	Version string
	// Fields that were changed, in a stable order; none if the object was deleted, and created again.
	Fields []RevertedField
}

// RevertedField is one field that was changed.
type RevertedField struct {
	// Path as in messages of the API server: spec.replicas.
	Path string
	// Change is what happened to it.
	Change FieldChange
	// From is the desired value, and To the one that was undone. Both are empty if they must not be
	// shown.
	From, To string
	// By is the field manager that changed it; empty if that is not recorded.
	By string
}

// FieldChange is what happened to a field.
type FieldChange string

// The changes of a field.
const (
	FieldChanged FieldChange = "changed"
	FieldAdded   FieldChange = "added"
	FieldRemoved FieldChange = "removed"
)

// maxPath limits how much of a path a message repeats, in bytes. The end of a path says more than
// its start.
const maxPath = 100

// String returns the field for messages: "spec.replicas was changed from 3 to 5 by kubectl".
func (f RevertedField) String() string {
	path, values := f.Path, ""
	if more := len(path) - maxPath; more > 0 {
		path = "..." + path[more:]
	}
	if f.From != "" && f.To != "" {
		values = fmt.Sprintf(" from %s to %s", conditions.Short(f.From), conditions.Short(f.To))
	}
	return fmt.Sprintf("%s was %s%s by %s", path, f.Change, values, conditions.Short(cmp.Or(f.By, "an unknown field manager")))
}

// IsDeletion reports whether the object was deleted, and created again.
func (r Revert) IsDeletion() bool { return len(r.Fields) == 0 }

// Message says what was undone. It names at most three fields, and is at most as long as an event
// may be. remedy says how to change the object for good.
func (r Revert) Message(remedy string) string {
	if r.IsDeletion() {
		return message("%s was deleted, and is created again; the audit log says who deleted it. %s", r.Ref, remedy)
	}
	fields := make([]string, len(r.Fields))
	for i, field := range r.Fields {
		fields[i] = field.String()
	}
	return message("a change of %s is undone: %s. %s", r.Ref, conditions.FirstFew(fields, ", "), remedy)
}

// message formats a message of limited length. A value that was cut between two characters stays
// valid text.
func message(format string, values ...any) string {
	return conditions.Truncate(strings.ToValidUTF8(strings.TrimSpace(fmt.Sprintf(format, values...)), "?"))
}
