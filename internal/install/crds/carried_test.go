package crds

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

func TestOlderManagerKeepsLaterDefinition(t *testing.T) {
	ours := definition{marks: map[string]string{"mainstay.dev/applied": "b", "mainstay.dev/release": "1.2.0"}}
	for name, c := range map[string]struct {
		existing map[string]string
		want     bool
	}{
		"the same definition":     {map[string]string{"mainstay.dev/applied": "b", "mainstay.dev/release": "1.0.0"}, true},
		"a later release":         {map[string]string{"mainstay.dev/applied": "c", "mainstay.dev/release": "1.3.0"}, true},
		"an earlier release":      {map[string]string{"mainstay.dev/applied": "a", "mainstay.dev/release": "1.1.9"}, false},
		"edited since":            {map[string]string{"mainstay.dev/applied": "a", "mainstay.dev/release": "1.2.0"}, false},
		"made by Helm or kubectl": {nil, false},
		"an unreadable release":   {map[string]string{"mainstay.dev/applied": "a", "mainstay.dev/release": "latest"}, false},
		"an earlier pre-release":  {map[string]string{"mainstay.dev/applied": "a", "mainstay.dev/release": "1.2.0-rc.1"}, false},
		"a later pre-release":     {map[string]string{"mainstay.dev/applied": "a", "mainstay.dev/release": "1.3.0-rc.1"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ours.isOf(c.existing) || ours.isOlderThan(c.existing); got != c.want {
				t.Errorf("got %t, want %t", got, c.want)
			}
		})
	}
	same := map[string]string{"mainstay.dev/applied": "b", "mainstay.dev/release": "9.0.0"}
	if ours.isOlderThan(same) {
		t.Error("the same text counts as later: its conversion could not be set")
	}
}

// TestCarriedDefinitionsWorkWithoutAWebhook: without a webhook, an older version would return
// objects of the storage version unconverted.
func TestCarriedDefinitionsWorkWithoutAWebhook(t *testing.T) {
	definitions, err := carried()
	if err != nil || len(definitions) == 0 {
		t.Fatalf("%d definitions, %v", len(definitions), err)
	}
	for _, d := range definitions {
		object, err := d.composed(nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		live := typed(t, object)
		if !isWithdrawn(live) {
			t.Errorf("%s serves %v with conversion %v", d.name, servedIn(live), live.Spec.Conversion)
		}
		if IsRecord(d.name) && len(live.Spec.Versions) > 1 {
			t.Errorf("%s has several versions, but records are never migrated", d.name)
		}
		for _, v := range live.Spec.Versions {
			if v.Storage && !IsRecord(d.name) && (v.Subresources == nil || v.Subresources.Status == nil) {
				t.Errorf("%s has no status: Migrate could not rewrite its objects", d.name)
			}
		}
	}
}

const twoVersions = `
metadata: {name: things.example.com, annotations: {a: b}}
spec:
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
  - {name: v1beta1, served: false, storage: false}
  - {name: v1alpha1, served: false, storage: false}
`

func typed(t *testing.T, object *unstructured.Unstructured) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	definition := &apiextensionsv1.CustomResourceDefinition{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, definition); err != nil {
		t.Fatal(err)
	}
	return definition
}

// asRead returns a definition as the API server returns it after it has been written.
func asRead(t *testing.T, object *unstructured.Unstructured) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	written, read := typed(t, object), &apiextensionsv1.CustomResourceDefinition{}
	apiextensionsv1.SetDefaults_CustomResourceDefinition(written)
	var internal apiextensions.CustomResourceDefinition
	if err := errors.Join(
		apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(written, &internal, nil),
		apiextensionsv1.Convert_apiextensions_CustomResourceDefinition_To_v1_CustomResourceDefinition(&internal, read, nil),
	); err != nil {
		t.Fatal(err)
	}
	encoded, err := json.Marshal(read)
	if err != nil {
		t.Fatal(err)
	}
	live := &apiextensionsv1.CustomResourceDefinition{}
	if err := json.Unmarshal(encoded, live); err != nil {
		t.Fatal(err)
	}
	return live
}

// TestIsInstalled: a definition with our text needs no write, and one that another client has
// changed does, although its annotations still name our text.
func TestIsInstalled(t *testing.T) {
	type crd = apiextensionsv1.CustomResourceDefinition
	mark := func(release string) func(*crd) {
		return func(live *crd) {
			live.Annotations["mainstay.dev/applied"], live.Annotations["mainstay.dev/release"] = "other", release
		}
	}
	tests := map[string]struct {
		change            func(*crd)
		isIn, isInstalled bool
	}{
		"as installed": {func(*crd) {}, true, true},
		"converted": {func(live *crd) {
			live.Spec.Conversion = conversionBy(apiextensionsv1.WebhookClientConfig{URL: new("https://127.0.0.1/convert")})
			for i := range live.Spec.Versions {
				live.Spec.Versions[i].Served = true
			}
		}, true, true},
		"not served": {func(live *crd) {
			for i := range live.Spec.Versions {
				live.Spec.Versions[i].Served = false
			}
		}, true, false},
		"a removed field": {func(live *crd) {
			delete(live.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties, "kind")
		}, false, false},
		"an added short name": {func(live *crd) { live.Spec.Names.ShortNames = append(live.Spec.Names.ShortNames, "other") }, false, false},
		"an added version": {func(live *crd) {
			live.Spec.Versions = append(live.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{Name: "v9"})
		}, false, false},
		"objects stored in a version that is not ours": {func(live *crd) {
			delete(live.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties, "kind")
			live.Status.StoredVersions = []string{"v1", "v9"}
		}, false, true},
		"marks of an earlier release": {mark("0.0.0-alpha"), true, false},
		"marks of a later release":    {mark("999.0.0"), true, true},
	}
	definitions, err := carried()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range definitions {
		object, err := d.composed(nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		installed := asRead(t, object)
		for name, test := range tests {
			live := installed.DeepCopy()
			test.change(live)
			var served []string
			if usesWebhook(live) {
				served = servedIn(live)
			}
			isIn, err := d.isIn(live)
			isInstalled, errInstalled := d.isInstalled(live, served)
			if err := errors.Join(err, errInstalled); err != nil || isIn != test.isIn || isInstalled != test.isInstalled {
				t.Errorf("%s, %s: its text is ours: %t, it is installed: %t, %v", d.name, name, isIn, isInstalled, err)
			}
		}
	}
}

func TestComposed(t *testing.T) {
	d, err := parse([]byte(twoVersions), "1.2.0")
	if err != nil {
		t.Fatal(err)
	}
	webhook := conversionBy(apiextensionsv1.WebhookClientConfig{
		Service: &apiextensionsv1.ServiceReference{Namespace: "mainstay-system", Name: "mainstay"}, CABundle: []byte("pem"),
	})
	for name, test := range map[string]struct {
		conversion   *apiextensionsv1.CustomResourceConversion
		served, want []string
	}{
		"as carried":             {nil, nil, []string{"v1"}},
		"all versions":           {webhook, d.versions, []string{"v1", "v1beta1", "v1alpha1"}},
		"versions served before": {webhook, []string{"v1beta1", "v0"}, []string{"v1", "v1beta1"}},
	} {
		t.Run(name, func(t *testing.T) {
			object, err := d.composed(test.conversion, test.served)
			if err != nil {
				t.Fatal(err)
			}
			got := typed(t, object)
			if served := servedIn(got); !slices.Equal(served, test.want) {
				t.Errorf("serves %v, want %v", served, test.want)
			}
			if diff := cmp.Diff(test.conversion, got.Spec.Conversion); diff != "" {
				t.Error(diff)
			}
			if got.Spec.Versions[0].Schema == nil || got.Annotations["a"] != "b" || !d.isOf(got.Annotations) ||
				got.Annotations["mainstay.dev/release"] != "1.2.0" {
				t.Errorf("something was lost: %+v", got)
			}
		})
	}
	if again, err := parse([]byte(twoVersions), "1.2.0"); err != nil || cmp.Diff(d.text, again.text) != "" {
		t.Errorf("composing modified the carried definition: %v", err)
	}
}

func TestConversionIsCompletedLikeTheAPIServer(t *testing.T) {
	service := &apiextensionsv1.ServiceReference{Namespace: "a", Name: "b"}
	if got := conversionBy(apiextensionsv1.WebhookClientConfig{Service: service}).Webhook.ClientConfig.Service.Port; *got != 443 {
		t.Errorf("port %d", *got)
	}
	if service.Port != nil {
		t.Error("the argument was modified")
	}
	service.Port = ptr.To[int32](9443)
	if got := conversionBy(apiextensionsv1.WebhookClientConfig{Service: service}).Webhook.ClientConfig.Service.Port; *got != 9443 {
		t.Errorf("port %d", *got)
	}
}

func TestStoredIn(t *testing.T) {
	for name, test := range map[string]struct {
		stored []string
		others []string
	}{
		"only the storage version": {[]string{"v1"}, nil},
		"none yet":                 {nil, nil},
		"an older one":             {[]string{"v1beta1", "v1"}, []string{"v1beta1"}},
		"an older one only":        {[]string{"v1beta1"}, []string{"v1beta1"}},
	} {
		t.Run(name, func(t *testing.T) {
			live := &apiextensionsv1.CustomResourceDefinition{}
			live.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1beta1"}, {Name: "v1", Storage: true}}
			live.Status.StoredVersions = test.stored
			storage, others := storedIn(live)
			if storage != "v1" || !slices.Equal(others, test.others) {
				t.Errorf("got %s and %v", storage, others)
			}
		})
	}
}

func TestLaterToken(t *testing.T) {
	expired := apierrors.NewResourceExpired("the provided continue parameter is too old")
	if got := laterToken(expired); got != "" {
		t.Errorf("a token without one in the error: %q", got)
	}
	expired.ErrStatus.Continue = "next"
	if got := laterToken(expired); got != "next" {
		t.Errorf("got %q", got)
	}
	for _, err := range []error{nil, apierrors.NewInternalError(http.ErrAbortHandler),
		&apierrors.StatusError{ErrStatus: metav1.Status{ListMeta: metav1.ListMeta{Continue: "next"}}}} {
		if got := laterToken(err); got != "" {
			t.Errorf("%v: got %q", err, got)
		}
	}
}
