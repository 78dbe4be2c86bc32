package cluster

import (
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
)

// clients are those of the five kinds that an instance uses. client-go's own clientset would link
// the types of all of Kubernetes, which would be a third of the program.
type clients struct {
	leases    *gentype.ClientWithList[*coordinationv1.Lease, *coordinationv1.LeaseList]
	endpoints *gentype.Client[*discoveryv1.EndpointSlice]
	pods      *gentype.Client[*corev1.Pod]
	settings  *gentype.ClientWithList[*corev1.ConfigMap, *corev1.ConfigMapList]
	secrets   *gentype.Client[*corev1.Secret]
}

// newClients returns clients for the objects of a namespace. They do not connect yet.
func newClients(config *rest.Config, namespace string) (clients, error) {
	known := runtime.NewScheme()
	known.AddKnownTypes(coordinationv1.SchemeGroupVersion, &coordinationv1.Lease{}, &coordinationv1.LeaseList{})
	known.AddKnownTypes(discoveryv1.SchemeGroupVersion, &discoveryv1.EndpointSlice{})
	known.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.Pod{}, &corev1.Secret{}, &corev1.ConfigMap{},
		&corev1.ConfigMapList{})
	var byGroup []rest.Interface
	versions := []schema.GroupVersion{coordinationv1.SchemeGroupVersion, discoveryv1.SchemeGroupVersion, corev1.SchemeGroupVersion}
	for _, version := range versions {
		metav1.AddToGroupVersion(known, version)
		client, err := newClient(config, known, version)
		if err != nil {
			return clients{}, err
		}
		byGroup = append(byGroup, client)
	}
	parameters := runtime.NewParameterCodec(known)
	return clients{
		leases: gentype.NewClientWithList("leases", byGroup[0], parameters, namespace,
			func() *coordinationv1.Lease { return &coordinationv1.Lease{} },
			func() *coordinationv1.LeaseList { return &coordinationv1.LeaseList{} }),
		endpoints: gentype.NewClient("endpointslices", byGroup[1], parameters, namespace,
			func() *discoveryv1.EndpointSlice { return &discoveryv1.EndpointSlice{} }),
		pods:    gentype.NewClient("pods", byGroup[2], parameters, namespace, func() *corev1.Pod { return &corev1.Pod{} }),
		secrets: gentype.NewClient("secrets", byGroup[2], parameters, namespace, func() *corev1.Secret { return &corev1.Secret{} }),
		settings: gentype.NewClientWithList("configmaps", byGroup[2], parameters, namespace,
			func() *corev1.ConfigMap { return &corev1.ConfigMap{} }, func() *corev1.ConfigMapList { return &corev1.ConfigMapList{} }),
	}, nil
}

// newClient returns the REST client of one group.
func newClient(config *rest.Config, known *runtime.Scheme, version schema.GroupVersion) (rest.Interface, error) {
	config = rest.CopyConfig(config)
	config.GroupVersion, config.APIPath = &version, "/apis"
	if version.Group == "" {
		config.APIPath = "/api"
	}
	config.NegotiatedSerializer = serializer.NewCodecFactory(known).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	return client, nil
}
