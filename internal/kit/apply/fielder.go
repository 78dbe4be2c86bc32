package apply

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// fielder is what lists the fields of an object, such as a managedfields.TypeConverter.
type fielder interface {
	ObjectToTyped(object runtime.Object, options ...typed.ValidationOptions) (*typed.TypedValue, error)
}

// background is a fielder that is being made.
type background struct{ made func() (fielder, error) }

// inBackground returns the fielder that create returns, and calls create in the background. Parsing
// the schemas of client-go's kinds, or those of our own definitions, takes some tenths of a second
// of a processor when a manager starts; its cache fills meanwhile.
func inBackground(create func() (fielder, error)) fielder {
	made := sync.OnceValues(create)
	go func() { _, _ = made() }()
	return background{made}
}

// ObjectToTyped waits for the fielder, and returns what it does. It fails if there is none.
func (b background) ObjectToTyped(object runtime.Object, options ...typed.ValidationOptions) (*typed.TypedValue, error) {
	made, err := b.made()
	if err != nil {
		return nil, err
	}
	return made.ObjectToTyped(object, options...)
}
