package apply

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// patchKey is what the brake knows the patches of an object by: the object and the fields that they
// write. Patches of other fields, such as those of two Instrumentations, are slowed apart. The
// content of the fields is the brake's hash, so that one that changes for a reason, and changes
// back, does not count.
type patchKey struct {
	ref    plan.Ref
	uid    string
	fields string
}

// whySlowed is the reason for a patch that is left out for a while. It has no time, so that a
// status that repeats it is not written each time.
const whySlowed = "another client changes it again and again, so it is written at most once a minute"

// moment is a time in a patch. Our annotations say when they were written, and are otherwise the
// same each time that they are put back.
var moment = regexp.MustCompile(`[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[-+][0-9]{2}:[0-9]{2})`)

// keyOf returns the key of a patch, and the hash of its purpose, or of its content without times
// and without the version that the object must have.
func keyOf(patch plan.Patch) (key patchKey, hash string, err error) {
	patch.Version = ""
	_, body, err := patch.Body()
	if err != nil {
		return patchKey{}, "", err
	}
	same := moment.ReplaceAll(body, nil)
	if patch.Purpose != "" {
		same = []byte(patch.Purpose)
	}
	return patchKey{patch.Ref, string(patch.UID), shortHash([]byte(fieldsOf(patch)))}, shortHash(same), nil
}

func shortHash(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:16])
}

// fieldsOf returns the paths that a patch writes, a line each.
func fieldsOf(patch plan.Patch) string {
	var paths []string
	for _, operation := range patch.Operations {
		paths = append(paths, operation.Path)
	}
	if patch.Operations == nil {
		paths = leavesOf("", patch.Merge)
	}
	slices.Sort(paths)
	return strings.Join(slices.Compact(paths), "\n")
}

// leavesOf returns the paths of the values of a merge patch that are no objects. Names are quoted,
// because those of annotations have slashes.
func leavesOf(at string, content map[string]any) []string {
	var paths []string
	for name, value := range content {
		path := at + "/" + strconv.Quote(name)
		if inner, isObject := value.(map[string]any); isObject {
			paths = append(paths, leavesOf(path, inner)...)
		} else {
			paths = append(paths, path)
		}
	}
	return paths
}

// slowedPatch returns how long a patch must wait, because someone else undoes it again and again; 0
// if it may be written now. What can't be composed is left to the writing, which reports it.
func (a *Applier) slowedPatch(patch *plan.Patch) time.Duration {
	key, hash, err := keyOf(*patch)
	if err != nil {
		return 0
	}
	return a.brake.pause(key, hash)
}

// patched records that a patch has changed its object, and reports whether that was slowed.
func (a *Applier) patched(patch *plan.Patch) bool {
	key, hash, err := keyOf(*patch)
	if err != nil {
		return false
	}
	slowed, _ := a.brake.written(key, hash, "", false)
	return slowed
}

// opponent returns the field manager, other than this controller's, that wrote an object last,
// before a patch that was slowed takes its fields over; empty if none did since our last write, or
// for any other patch. It lists the object's metadata, because the right to get it may be missing.
// A failure is ignored: the write matters more than the name. Nothing is recorded of a client that
// only removes fields.
func (a *Applier) opponent(ctx context.Context, manager string, patch *plan.Patch) string {
	key, hash, err := keyOf(*patch)
	if err != nil || !a.brake.isContested(key, hash) {
		return ""
	}
	var found metav1.PartialObjectMetadataList
	found.SetGroupVersionKind(schema.FromAPIVersionAndKind(patch.APIVersion, patch.Ref.Kind+"List"))
	err = a.Children.Live.List(ctx, &found, client.InNamespace(patch.Ref.Namespace),
		client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector(metav1.ObjectNameField, patch.Ref.Name)})
	if err != nil || len(found.Items) != 1 {
		return ""
	}
	return a.lastOther(manager, &found.Items[0])
}

// lastOther returns the field manager, other than this controller's, that wrote an object itself
// last, at or after this controller's own last write; empty if there is none. Without a record of
// such a write, because the other has taken all its fields over, the other must have written
// lately.
func (a *Applier) lastOther(manager string, live *metav1.PartialObjectMetadata) string {
	found := writersOf(live, manager)
	if found.ours == nil {
		found.ours = &metav1.Time{Time: a.brake.clock.Now().Add(-forgetAfter)}
	}
	return found.last()
}
