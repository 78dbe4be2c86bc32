// Package component says how a kind is a component of a stack: what a kind of stacks may know of
// the kinds that it composes. Kinds know no other kind; package setup hands this in. It is pure.
package component

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// Object is an object of a kind that can be a component. Those of our own kinds have conditions;
// those of other projects' kinds are unstructured.
type Object = plan.Object

// Traits are what a kind says about itself as a component.
type Traits struct {
	// Type is what users write: "webApp".
	Type string
	// MaxName is the length of the longest name of an object; 0 means that of any object, 253.
	MaxName int
	// Children returns everything that an object of the kind may own, each empty but for its name; it
	// is nil for a kind without children, or whose children are not known. While two objects may own
	// one of the same name, the second of them waits for the first to be gone.
	Children func(object Object) []Object
	// HasMetadata reports whether the spec has labels and annotations for children.
	HasMetadata bool
	// DataAfter says where the data of an object are once it is deleted, as the end of a sentence:
	// "its data stay on ...". It is nil for a kind without data. An object may lack its defaults. One
	// without a UID is only what a spec says: that data stay is never certain of it. Of a kind with
	// DataAfter, what others have set on an object is never removed, also when a stack adopts it.
	DataAfter func(object Object) string
	// Exposes are the fields of the spec that let clients outside the cluster in. They are left out
	// until the component is ready.
	Exposes []string
	// TakesVariables reports whether the spec has env, a list of environment variables.
	TakesVariables bool
	// TakesBindings reports whether the spec has bindings, a list of objects to bind to.
	TakesBindings bool
	// Binding is what an application that is bound to an object gets; nil if none can be bound.
	Binding *Binding
}

// Output is a value that a component offers: a key of a Secret in its namespace, or, if Secret is
// empty, the value itself.
type Output struct {
	// Name is the end of the environment variable's name, such as URI.
	Name        string
	Secret, Key string
	Value       string
}

// Kind is a kind that can be a component, and is on.
type Kind struct {
	Traits
	Kind schema.GroupVersionKind
	// New returns an empty object.
	New func() Object
	// Check returns what is wrong with an object by itself, without changing it.
	Check func(object Object) field.ErrorList
	// Missing returns why the cluster can't have such objects, or why they can't be read; "" if it
	// can. It may be nil.
	Missing func() string
	// Unlisted returns why such objects, which there may be, can't be read; "" if they can. It may be
	// nil.
	Unlisted func() string
}

// IsMissing reports whether the cluster can't have objects of the kind, or they can't be read.
func (k Kind) IsMissing() bool { return k.Missing != nil && k.Missing() != "" }

// Ref returns the reference to an object of the kind.
func (k Kind) Ref(namespace, name string) plan.Ref {
	return plan.NewRef(k.Kind.GroupKind(), namespace, name)
}

// Kinds are those that can be components.
type Kinds []Kind

// Get returns the kind of a type.
func (k Kinds) Get(typeName string) (Kind, bool) {
	return k.find(func(one Kind) bool { return one.Type == typeName })
}

// Of returns the kind of an object.
func (k Kinds) Of(ref plan.Ref) (Kind, bool) {
	return k.find(func(one Kind) bool { return one.Kind.Group == ref.Group && one.Kind.Kind == ref.Kind })
}

// External returns the kind of another project that is named so.
func (k Kinds) External(apiVersion, kind string) (Kind, bool) {
	return k.find(func(one Kind) bool {
		return one.Type == TypeObject && one.Kind.Kind == kind && one.Kind.GroupVersion().String() == apiVersion
	})
}

func (k Kinds) find(wanted func(Kind) bool) (Kind, bool) {
	at := slices.IndexFunc(k, wanted)
	if at < 0 {
		return Kind{}, false
	}
	return k[at], true
}

// Types returns what users may write as a type, sorted.
func (k Kinds) Types() []string {
	var types []string
	for _, one := range k {
		types = append(types, one.Type)
	}
	slices.Sort(types)
	return slices.Compact(types)
}

// Externals returns the kinds of other projects, as APIVERSION KIND, sorted.
func (k Kinds) Externals() []string {
	var names []string
	for _, one := range k {
		if one.Type == TypeObject {
			names = append(names, one.Kind.GroupVersion().String()+" "+one.Kind.Kind)
		}
	}
	slices.Sort(names)
	return names
}
