package crdstorage

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Record is an object that keeps another whole.
type Record interface {
	Object
	// Content is where.
	Content() *runtime.RawExtension
}

// KeptForm is the form of what is kept whole in a record of the same name, T being what is served, of some kind, and R the record.
//
// The record's metadata are not those of what it keeps, one to one, for they are two objects of one cluster: with one UID, or with the finalizers by
// which the garbage collector deletes dependents first, it would take the one for the other, and release what it must not.
// docs/decisions/20261122-served-resources.md has more.
//
// A record that can't be read, for somebody wrote into it, is served all the same, with the metadata that it has itself and what unreadable says of
// it: else a single one would be in the way of all lists. It can be deleted, or be put right by an update of the whole.
func KeptForm[T, R any, PT interface {
	*T
	Object
}, PR interface {
	*R
	Record
}](kind schema.GroupVersionKind, newList func() runtime.Object, finalizer string, unreadable func(served PT, err error),
) Form {
	return Form{
		New:       func() runtime.Object { return PT(new(T)) },
		NewList:   newList,
		Backing:   Same,
		Finalizer: finalizer,
		Served: func(_ context.Context, backing Object) (Object, error) {
			record, isRecord := backing.(PR)
			if !isRecord {
				return nil, fmt.Errorf("a %T keeps nothing", backing)
			}
			served := PT(new(T))
			if err := json.Unmarshal(record.Content().Raw, served); err != nil {
				served = PT(new(T))
				standIn(served, record, record.Content().Raw)
				unreadable(served, err)
			}
			// The library knows the kind of what it serves by its type.
			served.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
			served.SetName(record.GetName())
			served.SetNamespace(record.GetNamespace())
			served.SetResourceVersion(record.GetResourceVersion())
			// Somebody deleted the record, as with its namespace: what it keeps is being deleted.
			if served.GetDeletionTimestamp() == nil && record.GetDeletionTimestamp() != nil {
				served.SetDeletionTimestamp(record.GetDeletionTimestamp())
				served.SetDeletionGracePeriodSeconds(new(int64))
			}
			return served, nil
		},
		Backed: func(served Object) (Object, error) {
			kept, isKept := served.DeepCopyObject().(PT)
			if !isKept {
				return nil, fmt.Errorf("a %T is not kept here", served)
			}
			kept.SetResourceVersion("")
			kept.GetObjectKind().SetGroupVersionKind(kind)
			content, err := json.Marshal(kept)
			if err != nil {
				return nil, fmt.Errorf("encoding what is to be kept: %w", err)
			}
			record := PR(new(R))
			record.Content().Raw = content
			return record, nil
		},
	}
}

// space is that of the UIDs of what can't be read: a record's own is not that of what it keeps.
var space = uuid.NewSHA1(uuid.NameSpaceDNS, []byte("records.mainstay.dev"))

// standIn gives something its metadata, which mostly can be read where the rest can't: who it is, what waits for its end and what it belongs to
// must not be taken for something else. If not even they can be, it has what the record tells.
func standIn(served, record Object, content []byte) {
	kept := &metav1.PartialObjectMetadata{}
	if json.Unmarshal(content, kept) != nil || kept.UID == "" {
		kept = &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			UID:               types.UID(uuid.NewSHA1(space, []byte(record.GetUID())).String()),
			CreationTimestamp: record.GetCreationTimestamp(), Labels: record.GetLabels(),
			// Who waited for its end is not known any more: whoever deletes it has to know that, and to take this off.
			Finalizers: record.GetFinalizers(),
		}}
	}
	served.SetUID(kept.UID)
	served.SetGenerateName(kept.GenerateName)
	served.SetGeneration(kept.Generation)
	served.SetCreationTimestamp(kept.CreationTimestamp)
	served.SetDeletionTimestamp(kept.DeletionTimestamp)
	served.SetDeletionGracePeriodSeconds(kept.DeletionGracePeriodSeconds)
	served.SetLabels(kept.Labels)
	served.SetAnnotations(kept.Annotations)
	served.SetOwnerReferences(kept.OwnerReferences)
	served.SetFinalizers(kept.Finalizers)
	served.SetManagedFields(kept.ManagedFields)
}
