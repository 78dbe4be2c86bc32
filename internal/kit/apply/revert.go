package apply

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/mainstay-platform/mainstay/api"
	"github.com/mainstay-platform/mainstay/internal/kit/component"
	"github.com/mainstay-platform/mainstay/internal/kit/naming"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// reverts returns what someone else changed in live, a child as the API server has it, and what the
// write of wanted undoes.
//
//	the child's applied annotation   the field                             a revert
//	another hash                     any                                   no: what we desire has changed
//	the desired hash                 ours                                  no
//	the desired hash                 another manager's, the same value     no
//	the desired hash                 another manager's, or gone            yes
//	the desired hash                 data that we take back, not desired   yes
//	the desired hash                 added to a spec that we take back     yes
//
// Of an object whose kind is not in the scheme, a list counts as one field.
func (r renderer) reverts(wanted task, live plan.Object, manager string) (plan.Revert, error) {
	revert := plan.Revert{Ref: wanted.ref, APIVersion: wanted.object.GetAPIVersion(), UID: live.GetUID(),
		Version: live.GetResourceVersion()}
	if live.GetAnnotations()[api.AnnotationApplied] != wanted.hash {
		return revert, nil
	}
	owned, err := ownedFields(live, manager)
	if err != nil {
		return revert, err
	}
	content, err := toMap(live)
	if err != nil {
		return revert, err
	}
	writers := writersOf(live, manager)
	if !r.scheme.Recognizes(wanted.object.GroupVersionKind()) {
		changed := fieldpath.NewSet(differing(wanted.object.Object, content, nil)...)
		revert.Fields = changedFields(wanted, content, writers, changed.Difference(owned))
		return revert, nil
	}
	typed, err := r.fielderOf(wanted.object.GroupVersionKind()).ObjectToTyped(wanted.object)
	if err != nil {
		return revert, fmt.Errorf("reading the fields of %s: %w", wanted.ref, err)
	}
	desired, err := typed.ToFieldSet()
	if err != nil {
		return revert, fmt.Errorf("listing the fields of %s: %w", wanted.ref, err)
	}
	revert.Fields = changedFields(wanted, content, writers, desired.Difference(unmanaged).Difference(owned))
	if wanted.ReclaimData {
		revert.Fields = append(revert.Fields, addedData(wanted.object.Object, content, writers)...)
	}
	if wanted.ReclaimSpec {
		revert.Fields = append(revert.Fields, addedToSpec(desired, writers)...)
	}
	return revert, nil
}

// changedFields returns those of some desired fields that other managers have changed or removed in
// the content of a child.
func changedFields(wanted task, content map[string]any, writers writers, among *fieldpath.Set) []plan.RevertedField {
	var fields []plan.RevertedField
	for _, path := range outermost(among) {
		before, _ := lookup(wanted.object.Object, path)
		after, exists := lookup(content, path)
		if exists && reflect.DeepEqual(before, after) {
			continue
		}
		field := plan.RevertedField{Path: nameOf(path), Change: plan.FieldRemoved, By: writers.of(path, exists)}
		if exists {
			field.Change = plan.FieldChanged
			field.From, field.To = shown(wanted.ref, path, before), shown(wanted.ref, path, after)
		}
		if !naming.IsOurManager(field.By) {
			fields = append(fields, field)
		}
	}
	return fields
}

// differing returns the paths of desired fields that an object lacks, or has with another value. It
// knows no schema: a list is one field, as it is for renderer.same. Owners are left out: others may
// add theirs to the list, and an object that is ours has our own. below is the path of both.
func differing(wanted, live map[string]any, below fieldpath.Path) []fieldpath.Path {
	var paths []fieldpath.Path
	for key, desired := range wanted {
		path := append(below.Copy(), fieldpath.MakePathOrDie(key)...)
		found, exists := live[key]
		fields, hasFields := desired.(map[string]any)
		content, isObject := found.(map[string]any)
		switch {
		case path.Equals(ownersPath):
		case hasFields && isObject:
			paths = append(paths, differing(fields, content, path)...)
		case !exists || !component.Contains(found, desired):
			paths = append(paths, path)
		}
	}
	return paths
}

// ownersPath is the path of the owner references.
var ownersPath = fieldpath.MakePathOrDie("metadata", "ownerReferences")

// addedToSpec returns the fields of a spec that other managers have added to the desired ones.
func addedToSpec(desired *fieldpath.Set, writers writers) []plan.RevertedField {
	var fields []plan.RevertedField
	for _, entry := range writers.entries {
		owned := fieldpath.NewSet()
		if entry.Subresource != "" || entry.FieldsV1 == nil || naming.IsOurManager(entry.Manager) ||
			owned.FromJSON(entry.FieldsV1.GetRawReader()) != nil {
			continue
		}
		for _, path := range outermost(owned.Difference(desired)) {
			if name := path[0].FieldName; name != nil && *name == "spec" {
				fields = append(fields, plan.RevertedField{Path: nameOf(path), Change: plan.FieldAdded, By: entry.Manager})
			}
		}
	}
	return fields
}

// addedData returns the keys of a ConfigMap's data that are not desired.
func addedData(wanted, live map[string]any, writers writers) []plan.RevertedField {
	var fields []plan.RevertedField
	for _, part := range []string{"data", "binaryData"} {
		desired, _ := wanted[part].(map[string]any)
		found, _ := live[part].(map[string]any)
		for key := range found {
			if _, isDesired := desired[key]; isDesired {
				continue
			}
			path := fieldpath.MakePathOrDie(part, key)
			fields = append(fields, plan.RevertedField{Path: nameOf(path), Change: plan.FieldAdded, By: writers.of(path, true)})
		}
	}
	slices.SortFunc(fields, func(a, b plan.RevertedField) int { return cmp.Compare(a.Path, b.Path) })
	return fields
}

// outermost returns the paths of a set that are not inside another path of it: of a container that
// was removed, the container.
func outermost(set *fieldpath.Set) []fieldpath.Path {
	var all []fieldpath.Path
	set.Iterate(func(path fieldpath.Path) { all = append(all, path.Copy()) })
	slices.SortStableFunc(all, func(a, b fieldpath.Path) int { return a.Compare(b) })
	var found []fieldpath.Path
	for _, path := range all {
		if last := len(found) - 1; last >= 0 && len(path) > len(found[last]) && path[:len(found[last])].Equals(found[last]) {
			continue
		}
		if !path.Equals(appliedPath) {
			found = append(found, path)
		}
	}
	return found
}

// appliedPath is the path of our annotation.
var appliedPath = fieldpath.MakePathOrDie("metadata", "annotations", api.AnnotationApplied)

// lookup returns the value at a path, and whether there is one.
func lookup(content any, path fieldpath.Path) (any, bool) {
	for _, element := range path {
		switch {
		case element.FieldName != nil:
			fields, _ := content.(map[string]any)
			inner, exists := fields[*element.FieldName]
			if !exists {
				return nil, false
			}
			content = inner
		case element.Index != nil:
			items, _ := content.([]any)
			if *element.Index < 0 || *element.Index >= len(items) {
				return nil, false
			}
			content = items[*element.Index]
		default:
			items, _ := content.([]any)
			at := slices.IndexFunc(items, func(item any) bool { return isElement(item, element) })
			if at < 0 {
				return nil, false
			}
			content = items[at]
		}
	}
	return content, true
}

// isElement reports whether an item of a list is the one that an element of a path names: by its
// value, or by its keys, of which the desired object may leave out those with a default.
func isElement(item any, element fieldpath.PathElement) bool {
	if element.Value != nil {
		return value.Equals(value.NewValueInterface(item), *element.Value)
	}
	fields, isMap := item.(map[string]any)
	if !isMap || element.Key == nil {
		return false
	}
	return !slices.ContainsFunc(*element.Key, func(key value.Field) bool {
		given, exists := fields[key.Name]
		return exists && !value.Equals(value.NewValueInterface(given), key.Value)
	})
}

// nameOf returns a path as messages have it.
func nameOf(path fieldpath.Path) string { return strings.TrimPrefix(path.String(), ".") }

// plain are the names of fields whose values are no secret, and whose text is worth reading in a
// message. within are those whose members are such.
var (
	plain = []string{"image", "imagePullPolicy", "type", "protocol", "restartPolicy", "serviceAccountName", "port", "targetPort",
		"maxSurge", "maxUnavailable", "minAvailable", "host", "ingressClassName", "schedulerName", "priorityClassName", "failurePolicy"}
	within = []string{"labels", "matchLabels", "selector", "limits", "requests"}
)

// shown returns a value for a message; empty if it is long, or might be a secret: anything in a
// Secret or a ConfigMap, and every text that is not known to be none, such as that of a variable,
// of an annotation or of an argument.
func shown(ref plan.Ref, path fieldpath.Path, content any) string {
	if ref.Kind == "Secret" || ref.Kind == "ConfigMap" {
		return ""
	}
	switch content := content.(type) {
	case bool, int64, float64:
		return fmt.Sprint(content)
	case string:
		last, parent := path[len(path)-1], fieldpath.PathElement{}
		if len(path) > 1 {
			parent = path[len(path)-2]
		}
		isPlain := last.FieldName != nil && slices.Contains(plain, *last.FieldName)
		if isPlain || parent.FieldName != nil && slices.Contains(within, *parent.FieldName) {
			return content
		}
	}
	return ""
}

// writers are the managed fields of an object, the latest first, without those of our manager. What
// was written through the subresource scale has no time, and comes last.
type writers struct {
	entries []metav1.ManagedFieldsEntry
	// ours is when our manager wrote last.
	ours *metav1.Time
}

// writersOf returns the writers of an object.
func writersOf(object plan.Object, manager string) writers {
	var w writers
	for _, entry := range object.GetManagedFields() {
		switch {
		case entry.Manager == manager && entry.Subresource == "":
			w.ours = entry.Time
		default:
			w.entries = append(w.entries, entry)
		}
	}
	slices.SortFunc(w.entries, func(a, b metav1.ManagedFieldsEntry) int {
		return cmp.Or(timeOf(b).Compare(timeOf(a)), cmp.Compare(a.Manager, b.Manager))
	})
	return w
}

func timeOf(entry metav1.ManagedFieldsEntry) time.Time {
	return ptr.Deref(entry.Time, metav1.Time{}).Time
}

// last returns the manager that wrote the object itself last, at or after our last write; empty if
// there is none.
func (w writers) last() string {
	for _, entry := range w.entries {
		if entry.Manager != naming.ManagerHandover && entry.Subresource == "" && entry.Time != nil && !entry.Time.Before(w.ours) {
			return entry.Manager
		}
	}
	return ""
}

// of returns the manager that owns a field or, of a list that is taken as one field, a part of it.
// For one that is gone, which has no owner, it is the last writer.
func (w writers) of(path fieldpath.Path, exists bool) string {
	if !exists {
		return w.last()
	}
	for _, entry := range w.entries {
		fields := fieldpath.NewSet()
		if entry.FieldsV1 != nil && fields.FromJSON(entry.FieldsV1.GetRawReader()) == nil && hasWithin(fields, path) {
			return entry.Manager
		}
	}
	return ""
}

// hasWithin reports whether a set has a field, or a part of it.
func hasWithin(fields *fieldpath.Set, path fieldpath.Path) bool {
	if fields.Has(path) {
		return true
	}
	for _, element := range path {
		fields = fields.WithPrefix(element)
	}
	return !fields.Empty()
}

// observeChange returns what a write of the child undoes, and which field manager wrote it last. It
// reads the child from the API server, because the cache has only our managed fields: but not where
// what we desire has changed, unless the child is contested. A failure is ignored: the write
// matters more than the event. The manager is known also if what the write undoes is not.
func (r *run) observeChange(ctx context.Context, task task, existing plan.Found) (undone plan.Revert, by string) {
	if existing.Object.GetAnnotations()[api.AnnotationApplied] != task.hash && !r.brake.isContested(task.ref, task.hash) {
		return plan.Revert{}, ""
	}
	live := existing.Object
	if !existing.IsLive {
		found := plan.Children{}
		if err := r.Children.FindLive(ctx, r.owner, emptyLike(task.Object), found); err == nil && found[task.ref].Ownership == plan.Ours {
			live = found[task.ref].Object
		}
	}
	by = writersOf(live, r.manager).last()
	undone, err := r.render.reverts(task, live, r.manager)
	if err != nil {
		return plan.Revert{}, by
	}
	if by == "" && len(undone.Fields) > 0 {
		by = undone.Fields[0].By
	}
	return undone, by
}
