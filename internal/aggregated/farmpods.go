package aggregated

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	registryrest "k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	farmv1alpha1 "github.com/mainstay-platform/mainstay/api/farm/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/aggregated/crdstorage"
	"github.com/mainstay-platform/mainstay/internal/aggregated/farmpod"
	"github.com/mainstay-platform/mainstay/internal/aggregated/ownerchain"
	"github.com/mainstay-platform/mainstay/internal/aggregated/table"
)

// farmPodStorages serves FarmPods from the Pods of the cluster, with one list and one watch of
// them.
//
// +kubebuilder:rbac:part=farmpods,groups="",resources=pods,verbs=list;watch
func farmPodStorages(served *served, config *rest.Config, _ *Options) (map[string]registryrest.Storage, error) {
	config = rest.CopyConfig(config)
	config.AcceptContentTypes, config.ContentType = runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON, runtime.ContentTypeProtobuf
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	owners, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	pods := crdstorage.REST{
		Client: clients.CoreV1().RESTClient(), Resource: string(corev1.ResourcePods), Codec: clientgoscheme.ParameterCodec,
		New: func() crdstorage.Object { return &corev1.Pod{} }, NewList: func() runtime.Object { return &corev1.PodList{} },
	}
	store := &registry.Store{
		NewFunc:                   func() runtime.Object { return &farmv1alpha1.FarmPod{} },
		NewListFunc:               func() runtime.Object { return &farmv1alpha1.FarmPodList{} },
		DefaultQualifiedResource:  farmv1alpha1.GroupVersion.WithResource(farmPods).GroupResource(),
		SingularQualifiedResource: farmv1alpha1.GroupVersion.WithResource("farmpod").GroupResource(),
		CreateStrategy:            never{ObjectTyper: served.scheme},
		DeleteStrategy:            never{ObjectTyper: served.scheme},
		TableConvertor:            table.New(farmpod.Columns(), clock.RealClock{}.Now),
		PredicateFunc:             selectFarmPods,
	}
	err = store.CompleteWithOptions(&generic.StoreOptions{
		AttrFunc:    farmPodAttributes,
		TriggerFunc: storage.IndexerFuncs{byNode: nodeOf},
		Indexers:    &toolscache.Indexers{storage.FieldIndex(byNode): nodesOf},
		RESTOptions: crdstorage.Serving{
			Objects: pods, Form: farmPodForm(ownerchain.New(owners,
				clock.RealClock{})), FromCache: true, Codec: served.codecs.LegacyCodec(farmv1alpha1.GroupVersion),
		},
	})
	if err != nil {
		return nil, fmt.Errorf("building the registry: %w", err)
	}
	return map[string]registryrest.Storage{farmPods: readOnly{store, []string{"fp"}}}, nil
}

// farmPodForm returns how a FarmPod is computed from a Pod.
func farmPodForm(owners *ownerchain.Resolver) crdstorage.Form {
	return crdstorage.Form{
		New:     func() runtime.Object { return &farmv1alpha1.FarmPod{} },
		NewList: func() runtime.Object { return &farmv1alpha1.FarmPodList{} },
		Backing: farmpod.PodName,
		Served: func(ctx context.Context, from crdstorage.Object) (crdstorage.Object, error) {
			pod, isPod := from.(*corev1.Pod)
			if !isPod {
				return nil, fmt.Errorf("a %T is not a Pod", from)
			}
			return farmpod.Of(pod, owners.Owner(ctx, pod.Namespace, pod)), nil
		},
		Prepare: owners.Fill,
	}
}

// byNode is the indexed field of FarmPods, as of Pods. With an index the library also lets a watch
// of all objects be further behind before it ends it as too slow: some hundred events instead of
// ten.
const byNode = "spec.nodeName"

func nodeOf(object runtime.Object) string {
	if pod, isFarmPod := object.(*farmv1alpha1.FarmPod); isFarmPod {
		return pod.Spec.NodeName
	}
	return ""
}

func nodesOf(object any) ([]string, error) {
	pod, isFarmPod := object.(*farmv1alpha1.FarmPod)
	if !isFarmPod {
		return nil, fmt.Errorf("a %T is not a FarmPod", object)
	}
	return []string{pod.Spec.NodeName}, nil
}

func selectFarmPods(label labels.Selector, field fields.Selector) storage.SelectionPredicate {
	return storage.SelectionPredicate{Label: label, Field: field, GetAttrs: farmPodAttributes, IndexFields: []string{byNode}}
}

// farmPodAttributes returns the labels and fields that selectors may name.
func farmPodAttributes(object runtime.Object) (labels.Set, fields.Set, error) {
	pod, isFarmPod := object.(*farmv1alpha1.FarmPod)
	if !isFarmPod {
		return nil, nil, fmt.Errorf("a %T is not a FarmPod", object)
	}
	return pod.Labels, farmpod.Fields(pod), nil
}
