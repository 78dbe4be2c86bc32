package aggregated

import (
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	registryrest "k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/rest"

	farmv1alpha1 "github.com/mainstay-platform/mainstay/api/farm/v1alpha1"
)

// Names of the resources.
const (
	farmPods = "farmpods"
	llamas   = "llamas"
)

// resource is a served resource. A new one is an entry in resources, and nothing else in this
// package: the verbs of its storages show whether it can be written and needs admission.
type resource struct {
	// name is the plural, as in paths and in --resources.
	name string
	// storages returns the storages of the resource and its subresources, by name.
	storages func(served *served, config *rest.Config, options *Options) (map[string]registryrest.Storage, error)
}

func resources() []resource {
	return []resource{
		{name: farmPods, storages: farmPodStorages},
		{name: llamas, storages: llamaStorages},
	}
}

// AllResources returns the names of all resources that can be served.
func AllResources() []string {
	var names []string
	for _, one := range resources() {
		names = append(names, one.name)
	}
	return names
}

// install returns the API group with the enabled resources.
func install(served *served, config *rest.Config, options *Options) (*genericapiserver.APIGroupInfo, error) {
	group := genericapiserver.NewDefaultAPIGroupInfo(farmv1alpha1.GroupVersion.Group, served.scheme, metav1.ParameterCodec, served.codecs)
	group.NegotiatedSerializer = withoutProtobuf{group.NegotiatedSerializer}
	storages := map[string]registryrest.Storage{}
	for _, one := range resources() {
		if !slices.Contains(options.Resources, one.name) {
			continue
		}
		made, err := one.storages(served, config, options)
		if err != nil {
			return nil, fmt.Errorf("adding %s: %w", one.name, err)
		}
		maps.Copy(storages, made)
	}
	group.VersionedResourcesStorageMap[farmv1alpha1.GroupVersion.Version] = storages
	return &group, nil
}
