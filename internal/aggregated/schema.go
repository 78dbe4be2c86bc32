package aggregated

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	farmv1alpha1 "github.com/mainstay-platform/mainstay/api/farm/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/aggregated/farmpod"
)

// served has the served types and their codecs.
type served struct {
	scheme *runtime.Scheme
	codecs serializer.CodecFactory
}

// newSchema registers each type as the served version and as the internal one, which the library
// works with: they are the same.
func newSchema() (*served, error) {
	scheme := runtime.NewScheme()
	if err := farmv1alpha1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("adding the types: %w", err)
	}
	internal := schema.GroupVersion{Group: farmv1alpha1.GroupVersion.Group, Version: runtime.APIVersionInternal}
	scheme.AddKnownTypes(internal, &farmv1alpha1.FarmPod{}, &farmv1alpha1.FarmPodList{}, &farmv1alpha1.Llama{}, &farmv1alpha1.LlamaList{})
	utilruntime.Must(scheme.SetVersionPriority(farmv1alpha1.GroupVersion))
	if err := farmpod.FieldLabels(scheme); err != nil {
		return nil, fmt.Errorf("adding the field selectors: %w", err)
	}
	// Types that every API server responds with.
	unversioned := schema.GroupVersion{Version: "v1"}
	metav1.AddToGroupVersion(scheme, unversioned)
	scheme.AddUnversionedTypes(unversioned, &metav1.Status{}, &metav1.APIVersions{}, &metav1.APIGroupList{}, &metav1.APIGroup{},
		&metav1.APIResourceList{})
	return &served{scheme: scheme, codecs: serializer.NewCodecFactory(scheme)}, nil
}

// withoutProtobuf offers all encodings except protobuf: our types can't be encoded in it, and a
// client that accepts protobuf or JSON, as many do, would get neither.
type withoutProtobuf struct{ runtime.NegotiatedSerializer }

// SupportedMediaTypes implements runtime.NegotiatedSerializer.
func (w withoutProtobuf) SupportedMediaTypes() []runtime.SerializerInfo {
	return slices.DeleteFunc(slices.Clone(w.NegotiatedSerializer.SupportedMediaTypes()), func(form runtime.SerializerInfo) bool {
		return form.MediaType == runtime.ContentTypeProtobuf
	})
}
