package aggregated

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"

	"github.com/mainstay-platform/mainstay/api"
)

// readable is all of a registry that reads. The library offers the verbs whose methods it finds.
type readable interface {
	rest.StorageWithReadiness
	rest.Scoper
	rest.SingularNameProvider
	rest.Getter
	rest.Lister
	rest.Watcher
}

// readOnly is a resource that can be got, listed and watched.
type readOnly struct {
	readable
	shortNames []string
}

// ShortNames are those for kubectl.
func (r readOnly) ShortNames() []string { return r.shortNames }

// Categories are those of everything of ours; not "all", where a Pod is already.
func (r readOnly) Categories() []string { return []string{api.ManagedBy} }

// never is a strategy for what is never made: the library's registry asks it whether the resource has namespaces.
type never struct {
	runtime.ObjectTyper
	names.NameGenerator
}

var _ rest.RESTCreateStrategy = never{}

// NamespaceScoped is true.
func (never) NamespaceScoped() bool { return true }

// PrepareForCreate is never called, as all below.
func (never) PrepareForCreate(context.Context, runtime.Object) {}

// Validate has nothing to refuse.
func (never) Validate(context.Context, runtime.Object) field.ErrorList { return nil }

// WarningsOnCreate has none.
func (never) WarningsOnCreate(context.Context, runtime.Object) []string { return nil }

// Canonicalize has nothing to do.
func (never) Canonicalize(runtime.Object) {}
