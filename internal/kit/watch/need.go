package watch

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/internal/kit/apply"
)

// Need is what one part of the manager reads of a kind of objects from the shared cache. A kind
// that nobody names is cached as Default says: the objects with our label, complete. If one part
// names a kind, every part that reads it must, or it finds only what the others read.
type Need struct {
	// Object is an empty object of the kind.
	Object client.Object
	// Select selects the objects; nil selects those with our label.
	Select labels.Selector
	// Unused are the parts of these objects that are not read.
	Unused []Part
}

// All returns the need for all objects of one of our own kinds, without managed fields.
func All(object client.Object) Need {
	return Need{Object: object, Select: labels.Everything(), Unused: []Part{ManagedFields}}
}

// Part is a part of objects that the cache can drop. Two parts with one name are the same.
type Part struct {
	Name string
	drop func(client.Object)
}

// NewPart returns a part of the objects of one type. drop changes an object in place.
func NewPart[T client.Object](name string, drop func(T)) Part {
	return Part{name, func(object client.Object) { drop(object.(T)) }}
}

// Parts of any object.
var (
	ManagedFields = NewPart("managed fields", func(object client.Object) { object.SetManagedFields(nil) })
	Annotations   = NewPart("annotations", func(object client.Object) { object.SetAnnotations(nil) })
)

// Unite returns the cache options for the needs of all parts of the manager, by the names of the
// parts. Of a kind of objects, the cache drops only what none of them reads. It returns an error if
// two of them select different objects, unless one selects all.
func Unite(needs map[string][]Need) (map[client.Object]cache.ByObject, error) {
	united, by := map[string]Need{}, map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(needs)) {
		for _, need := range needs[name] {
			if need.Select == nil {
				need.Select = ours
			}
			key := about(need.Object)
			known, twice := united[key]
			if !twice {
				united[key], by[key] = need, name
				continue
			}
			both, err := unite(known, need)
			if err != nil {
				return nil, fmt.Errorf("%s and %s: %w", by[key], name, err)
			}
			united[key] = both
		}
	}
	options := map[client.Object]cache.ByObject{}
	for _, need := range united {
		options[need.Object] = cache.ByObject{Label: need.Select, Transform: need.transform}
	}
	return options, nil
}

// unite returns the need of two users of one cache: what one of them uses is kept. It returns an
// error if they select by different labels.
func unite(a, b Need) (Need, error) {
	switch {
	case b.Select.Empty():
		a.Select = b.Select
	case !a.Select.Empty() && a.Select.String() != b.Select.String():
		return a, fmt.Errorf("they select different %T: %s and %s", a.Object, a.Select, b.Select)
	}
	isUsed := func(part Part) bool {
		return !slices.ContainsFunc(b.Unused, func(other Part) bool { return other.Name == part.Name })
	}
	a.Unused = slices.DeleteFunc(slices.Clone(a.Unused), isUsed)
	return a, nil
}

// transform keeps our managed fields only, and of the rest what is used.
func (n Need) transform(cached any) (any, error) {
	object, ok := cached.(client.Object)
	if !ok {
		return cached, nil // a tombstone
	}
	apply.KeepOurManagedFields(object)
	for _, part := range n.Unused {
		part.drop(object)
	}
	return object, nil
}

// about returns the objects that a need is for: by type, and for metadata-only needs by kind.
func about(object client.Object) string {
	name := reflect.TypeOf(object).String()
	if metadata, only := object.(*metav1.PartialObjectMetadata); only {
		name += " " + metadata.GroupVersionKind().String()
	}
	return name
}
