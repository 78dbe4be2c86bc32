package aggregated

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	registryrest "k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"

	"github.com/mainstay-platform/mainstay/api"
)

// readable has the reading methods of a registry. The library offers the verbs whose methods it
// finds.
type readable interface {
	registryrest.StorageWithReadiness
	registryrest.Scoper
	registryrest.SingularNameProvider
	registryrest.Getter
	registryrest.Lister
	registryrest.Watcher
}

// readOnly is a resource with the verbs get, list and watch.
type readOnly struct {
	readable
	shortNames []string
}

// ShortNames returns the short names for kubectl.
func (r readOnly) ShortNames() []string { return r.shortNames }

// Categories returns the category of all our resources; not "all", which has the Pods already.
func (r readOnly) Categories() []string { return []string{api.ManagedBy} }

// never is the strategy of objects that are never created. The library's registry asks it whether
// the resource is namespaced.
type never struct {
	runtime.ObjectTyper
	names.NameGenerator
}

var _ registryrest.RESTCreateStrategy = never{}

// NamespaceScoped returns true.
func (never) NamespaceScoped() bool { return true }

// PrepareForCreate is never called; neither is any method below.
func (never) PrepareForCreate(context.Context, runtime.Object) {}

// Validate returns no errors.
func (never) Validate(context.Context, runtime.Object) field.ErrorList { return nil }

// WarningsOnCreate returns no warnings.
func (never) WarningsOnCreate(context.Context, runtime.Object) []string { return nil }

// Canonicalize has nothing to do.
func (never) Canonicalize(runtime.Object) {}
