package crds

import (
	"context"
	"maps"
	"slices"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// stored returns a client of a live definition, and the number of its applies, which do nothing.
func stored(t *testing.T, live *apiextensionsv1.CustomResourceDefinition) (client.Client, *int) {
	t.Helper()
	scheme, applied := runtime.NewScheme(), 0
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(live).WithInterceptorFuncs(interceptor.Funcs{
		Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
			applied++
			return nil
		},
	}).Build()
	return c, &applied
}

// TestSetConversion: of a live definition with another text only the conversion and the served
// versions change. Our own text is applied, so that its fields keep their owner.
func TestSetConversion(t *testing.T) {
	type crd = apiextensionsv1.CustomResourceDefinition
	all := []string{"v1", "v1beta1", "v1alpha1"}
	later := map[string]string{"mainstay.dev/applied": "other", "mainstay.dev/release": "9.0.0"}
	for name, test := range map[string]struct {
		change func(*crd)
		// converted are the versions that are served with our webhook.
		converted []string
		isApplied bool
	}{
		"our text":                    {func(*crd) {}, all, true},
		"our text without marks":      {func(live *crd) { live.Annotations = nil }, all, true},
		"a later release":             {func(live *crd) { live.Annotations = later }, all, false},
		"another text with our marks": {func(live *crd) { live.Spec.Names.ShortNames = []string{"other"} }, all, false},
		"other versions": {func(live *crd) {
			live.Spec.Versions[1].Name = "v2beta1"
			live.Spec.Versions = append(live.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{Name: "v2", Served: true})
		}, []string{"v1", "v1alpha1", "v2"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := parse([]byte(twoVersions), "1.2.0")
			if err != nil {
				t.Fatal(err)
			}
			object, err := d.composed(nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			installed := typed(t, object)
			test.change(installed)
			c, applied := stored(t, installed.DeepCopy())
			webhook := conversionBy(apiextensionsv1.WebhookClientConfig{URL: new("https://127.0.0.1/convert")})
			set := func(conversion *apiextensionsv1.CustomResourceConversion, served []string) {
				t.Helper()
				before, err := d.read(t.Context(), c)
				if err != nil {
					t.Fatal(err)
				}
				if err := d.setConversion(t.Context(), c, before, conversion, served); err != nil {
					t.Fatal(err)
				}
				live, err := d.read(t.Context(), c)
				if err != nil {
					t.Fatal(err)
				}
				if !test.isApplied && (!equality.Semantic.DeepEqual(live.Spec.Conversion, conversion) || !slices.Equal(servedIn(live), served)) {
					t.Errorf("it serves %v with %v", servedIn(live), live.Spec.Conversion)
				}
				if !maps.Equal(live.Annotations, installed.Annotations) || !slices.Equal(live.Spec.Names.ShortNames, installed.Spec.Names.ShortNames) {
					t.Errorf("the text has changed: %+v", live)
				}
			}
			if served := d.convertible(installed); !slices.Equal(served, test.converted) {
				t.Errorf("with our webhook it serves %v", served)
			}
			set(webhook, test.converted)
			set(unconverted(), []string{"v1"})
			if (*applied == 2) != test.isApplied || (*applied == 0) == test.isApplied {
				t.Errorf("our text was applied %d times", *applied)
			}
		})
	}
}
