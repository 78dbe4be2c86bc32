package crdstorage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Record is an object that stores another one as a whole.
type Record interface {
	Object
	// Content returns the field with the stored object.
	Content() *runtime.RawExtension
}

// KeptForm returns the Form of objects that are stored as a whole in records of the same name. T is
// the served type of some kind, R the record.
//
// The metadata of a record are not simply those of the stored object, because both are objects of
// one cluster. With the same UID, or with the finalizers by which the garbage collector deletes
// dependents first, the collector would confuse them and release what it must not. See
// docs/decisions/20261122-served-resources.md.
//
// A record that can't be decoded, or whose content has no UID, as every stored object does, was
// edited by a client. It is still served, with its own metadata and what unreadable sets. Otherwise
// a single one would break all lists. It can be deleted, or be repaired by an update of the whole
// object.
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
				return nil, fmt.Errorf("a %T is not a record", backing)
			}
			served := PT(new(T))
			err := json.Unmarshal(record.Content().Raw, served)
			if err == nil && served.GetUID() == "" {
				err = errors.New("it has no metadata.uid")
			}
			if err != nil {
				served = PT(new(T))
				standIn(served, record, record.Content().Raw)
				unreadable(served, err)
			}
			// The library finds the kind of what it serves by its Go type.
			served.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
			served.SetName(record.GetName())
			served.SetNamespace(record.GetNamespace())
			served.SetResourceVersion(record.GetResourceVersion())
			// The record is being deleted, for example with its namespace: so is the stored object.
			if served.GetDeletionTimestamp() == nil && record.GetDeletionTimestamp() != nil {
				served.SetDeletionTimestamp(record.GetDeletionTimestamp())
				served.SetDeletionGracePeriodSeconds(new(int64))
			}
			return served, nil
		},
		Backed: func(served Object) (Object, error) {
			kept, isKept := served.DeepCopyObject().(PT)
			if !isKept {
				return nil, fmt.Errorf("a %T can't be stored here", served)
			}
			kept.SetResourceVersion("")
			kept.GetObjectKind().SetGroupVersionKind(kind)
			content, err := json.Marshal(kept)
			if err != nil {
				return nil, fmt.Errorf("encoding the object to store: %w", err)
			}
			record := PR(new(R))
			record.Content().Raw = content
			return record, nil
		},
	}
}

// space is the namespace of the UIDs of unreadable objects: a record's own UID must not be that of
// its stored object.
var space = uuid.NewSHA1(uuid.NameSpaceDNS, []byte("records.mainstay.dev"))

// standIn sets the metadata of an unreadable object. Mostly the metadata can still be decoded:
// identity, finalizers and owners must stay the same. If not, they are taken from the record.
func standIn(served, record Object, content []byte) {
	kept := &metav1.PartialObjectMetadata{}
	if json.Unmarshal(content, kept) != nil || kept.UID == "" {
		kept = &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			UID:               types.UID(uuid.NewSHA1(space, []byte(record.GetUID())).String()),
			CreationTimestamp: record.GetCreationTimestamp(), Labels: record.GetLabels(),
			// The object's finalizers are lost: to delete it, the user has to know that and remove this one.
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
