package backing

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
func KeptForm[T, R any, PT interface {
	*T
	Object
}, PR interface {
	*R
	Record
}](kind schema.GroupVersionKind, newList func() runtime.Object, finalizer string,
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
				return nil, fmt.Errorf("what is kept can't be read: %w", err)
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
