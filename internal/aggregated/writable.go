package aggregated

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	registryrest "k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/mainstay-platform/mainstay/api"
)

// isWritten reports whether one of the storages has a verb that writes. The library offers the
// verbs whose methods it finds.
func isWritten(storages map[string]registryrest.Storage) bool {
	for _, one := range storages {
		switch one.(type) {
		case registryrest.Creater, //nolint:misspell // the library's name
			registryrest.NamedCreater, registryrest.Updater, registryrest.GracefulDeleter, registryrest.CollectionDeleter,
			registryrest.Connecter:
			return true
		}
	}
	return false
}

// writable is a resource with all verbs.
type writable struct {
	*registry.Store
	shortNames []string
}

var _ registryrest.StandardStorage = writable{}

// ShortNames returns the short names for kubectl.
func (w writable) ShortNames() []string { return w.shortNames }

// Categories returns the categories of all our kinds.
func (writable) Categories() []string { return []string{"all", api.ManagedBy} }

// statusOnly is the status subresource.
type statusOnly struct{ store *registry.Store }

var (
	_ registryrest.Patcher             = statusOnly{}
	_ registryrest.ResetFieldsStrategy = statusOnly{}
)

// New returns an empty object.
func (s statusOnly) New() runtime.Object { return s.store.New() }

// Destroy does nothing: the resource itself stops the store that both share.
func (statusOnly) Destroy() {}

// Get returns the whole object.
func (s statusOnly) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	return s.store.Get(ctx, name, options)
}

// Update changes the status of an existing object.
func (s statusOnly) Update( //nolint:revive // the library's interface
	ctx context.Context, name string, changed registryrest.UpdatedObjectInfo, validateNew registryrest.ValidateObjectFunc,
	validate registryrest.ValidateObjectUpdateFunc,
	_ bool, options *metav1.UpdateOptions,
) (runtime.Object, bool, error) {
	return s.store.Update(ctx, name, changed, validateNew, validate, false, options)
}

// ConvertToTable prints the whole object.
func (s statusOnly) ConvertToTable(ctx context.Context, object, options runtime.Object) (*metav1.Table, error) {
	return s.store.ConvertToTable(ctx, object, options)
}

// GetResetFields returns the strategy's.
func (s statusOnly) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return s.store.GetResetFields()
}
