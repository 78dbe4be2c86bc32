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
type background struct{ made func() fielder }

// inBackground returns the fielder that create returns, and calls create beside the caller.
// client-go parses the schemas of all kinds for its own, which takes 0.2 s of a processor at the
// start of a manager; its cache fills meanwhile.
func inBackground(create func() fielder) fielder {
	made := sync.OnceValue(create)
	go made()
	return background{made}
}

// ObjectToTyped waits for the fielder, and returns what it does.
func (b background) ObjectToTyped(object runtime.Object, options ...typed.ValidationOptions) (*typed.TypedValue, error) {
	return b.made().ObjectToTyped(object, options...)
}
