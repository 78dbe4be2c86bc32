package crds

import (
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
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
