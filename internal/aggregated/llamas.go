package aggregated

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	registryrest "k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	farmv1alpha1 "github.com/mainstay-platform/mainstay/api/farm/v1alpha1"
	recordsv1alpha1 "github.com/mainstay-platform/mainstay/api/records/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/aggregated/crdstorage"
	"github.com/mainstay-platform/mainstay/internal/aggregated/llama"
	"github.com/mainstay-platform/mainstay/internal/aggregated/table"
)

// llamaStorages serves Llamas, each stored in a LlamaRecord.
func llamaStorages(served *served, config *rest.Config, options *Options) (map[string]registryrest.Storage, error) {
	kept, err := llamaRecords(config, options.LlamaStorage)
	if err != nil {
		return nil, err
	}
	strategy := llama.NewStrategy(served.scheme, clock.RealClock{})
	newList := func() runtime.Object { return &farmv1alpha1.LlamaList{} }
	store := &registry.Store{
		NewFunc:                   func() runtime.Object { return &farmv1alpha1.Llama{} },
		NewListFunc:               newList,
		DefaultQualifiedResource:  farmv1alpha1.GroupVersion.WithResource(llamas).GroupResource(),
		SingularQualifiedResource: farmv1alpha1.GroupVersion.WithResource("llama").GroupResource(),
		CreateStrategy:            strategy,
		UpdateStrategy:            strategy,
		DeleteStrategy:            strategy,
		ResetFieldsStrategy:       strategy,
		TableConvertor:            table.New(llama.Columns(), clock.RealClock{}.Now),
	}
	err = store.CompleteWithOptions(&generic.StoreOptions{RESTOptions: crdstorage.Serving{
		Objects: kept, Codec: served.codecs.LegacyCodec(farmv1alpha1.GroupVersion),
		Form: crdstorage.KeptForm[farmv1alpha1.Llama, recordsv1alpha1.LlamaRecord](farmv1alpha1.GroupVersion.WithKind("Llama"), newList,
			recordsv1alpha1.Finalizer, llama.Unreadable),
	}})
	if err != nil {
		return nil, fmt.Errorf("building the registry: %w", err)
	}
	ofStatus := *store
	ofStatus.CreateStrategy, ofStatus.DeleteStrategy = nil, nil
	ofStatus.UpdateStrategy, ofStatus.ResetFieldsStrategy = llama.StatusStrategy{Strategy: strategy}, llama.StatusStrategy{Strategy: strategy}
	return map[string]registryrest.Storage{llamas: writable{store, []string{"ll"}}, llamas + "/status": statusOnly{&ofStatus}}, nil
}

// llamaRecords returns the objects that store them.
//
// +kubebuilder:rbac:part=llamas,groups=records.mainstay.dev,resources=llamarecords,verbs=get;list;watch;create;update;delete
func llamaRecords(config *rest.Config, where string) (crdstorage.Objects, error) {
	newList := func() runtime.Object { return &recordsv1alpha1.LlamaRecordList{} }
	if where == storageMemory {
		return crdstorage.NewMemory(recordsv1alpha1.GroupVersion.WithResource("llamarecords").GroupResource(), newList), nil
	}
	scheme := runtime.NewScheme()
	if err := recordsv1alpha1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("adding the types: %w", err)
	}
	config = rest.CopyConfig(config)
	config.GroupVersion, config.APIPath = &recordsv1alpha1.GroupVersion, "/apis"
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	return crdstorage.REST{
		Client: client, Resource: "llamarecords", Codec: runtime.NewParameterCodec(scheme), NewList: newList,
		New: func() crdstorage.Object { return &recordsv1alpha1.LlamaRecord{} },
	}, nil
}
