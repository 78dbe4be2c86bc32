package served

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// resourceOf is what discovery says about a resource, in either of its forms.
type resourceOf struct {
	Kind, Singular                string
	Namespaced                    bool
	Verbs, ShortNames, Categories []string
}

// served are our served resources.
var served = map[string]resourceOf{
	"farmpods": {"FarmPod", "farmpod", true, []string{"get", "list", "watch"}, []string{"fp"}, []string{"mainstay"}},
	"llamas": {
		"Llama", "llama", true, []string{"create", "delete", "deletecollection", "get", "list", "patch", "update",
			"watch"}, []string{"ll"}, []string{"all", "mainstay"},
	},
	"llamas/status": {"Llama", "", true, []string{"get", "patch", "update"}, nil, nil},
}

// TestDiscovery checks both forms of discovery: that of clients before Kubernetes 1.26, and
// aggregated discovery.
func TestDiscovery(t *testing.T) {
	t.Parallel()
	var legacy metav1.APIResourceList
	decode(t, get(t, "/apis/farm.mainstay.dev/v1alpha1", "application/json").Body, &legacy)
	got := map[string]resourceOf{}
	for _, one := range legacy.APIResources {
		got[one.Name] = resourceOf{one.Kind, one.SingularName, one.Namespaced, slices.Sorted(slices.Values(one.Verbs)), one.ShortNames,
			one.Categories}
	}
	if diff := cmp.Diff(served, got); diff != "" {
		t.Error("legacy", diff)
	}

	var aggregated apidiscoveryv2.APIGroupDiscoveryList
	decode(t, get(t, "/apis", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList").Body, &aggregated)
	got = map[string]resourceOf{}
	for _, group := range aggregated.Items {
		if group.Name != "farm.mainstay.dev" {
			continue
		}
		for _, one := range group.Versions[0].Resources {
			namespaced := one.Scope == apidiscoveryv2.ScopeNamespace
			got[one.Resource] = resourceOf{one.ResponseKind.Kind, one.SingularResource, namespaced, slices.Sorted(slices.Values(one.Verbs)),
				one.ShortNames, one.Categories}
			for _, sub := range one.Subresources {
				got[one.Resource+"/"+sub.Subresource] = resourceOf{Kind: sub.ResponseKind.Kind, Namespaced: namespaced,
					Verbs: slices.Sorted(slices.Values(sub.Verbs))}
			}
		}
	}
	if diff := cmp.Diff(served, got); diff != "" {
		t.Error("aggregated", diff)
	}

	var group metav1.APIGroup
	decode(t, get(t, "/apis/farm.mainstay.dev", "application/json").Body, &group)
	if group.PreferredVersion.GroupVersion != "farm.mainstay.dev/v1alpha1" {
		t.Errorf("preferred: %+v", group.PreferredVersion)
	}
}

func decode(t *testing.T, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%v: %.200s", err, text)
	}
}

// schema is the part of an OpenAPI schema that the tests read.
type schema struct {
	Description string
	Type        string
	Ref         string `json:"$ref"`
	AllOf       []schema
	Properties  map[string]schema
	Items       *schema
	Required    []string
	Kinds       []metav1.GroupVersionKind `json:"x-kubernetes-group-version-kind"`
	ListType    string                    `json:"x-kubernetes-list-type"`
	MapKeys     []string                  `json:"x-kubernetes-list-map-keys"`
}

// TestExplained checks that kubectl explain has a description of every field, in both versions of
// OpenAPI.
func TestExplained(t *testing.T) {
	t.Parallel()
	openAPI(t)
	var v2 struct{ Definitions map[string]schema }
	decode(t, get(t, "/openapi/v2", "application/json").Body, &v2)
	t.Run("v2", func(t *testing.T) { t.Parallel(); explained(t, v2.Definitions) })
	var v3 struct {
		Components struct{ Schemas map[string]schema }
		Paths      map[string]any
	}
	decode(t, openAPI(t), &v3)
	t.Run("v3", func(t *testing.T) { t.Parallel(); explained(t, v3.Components.Schemas) })
	for _, path := range []string{"farmpods", "farmpods/{name}", "llamas", "llamas/{name}", "llamas/{name}/status"} {
		if v3.Paths["/apis/farm.mainstay.dev/v1alpha1/namespaces/{namespace}/"+path] == nil {
			t.Errorf("%s is no path", path)
		}
	}
}

// openAPI returns the part of our API in the API server's OpenAPI, which the API server fetches
// from time to time.
func openAPI(t *testing.T) string {
	t.Helper()
	g := gomega.NewWithT(t)
	var text string
	g.Eventually(func() string {
		text = get(t, "/openapi/v3/apis/farm.mainstay.dev/v1alpha1", "application/json").Body
		return text
	}).Should(gomega.ContainSubstring("FarmPod"))
	g.Eventually(func() string { return get(t, "/openapi/v2", "application/json").Body }).Should(gomega.ContainSubstring("FarmPod"))
	return text
}

func explained(t *testing.T, schemas map[string]schema) {
	fields := 0
	for _, kind := range []string{"FarmPod", "Llama"} {
		var found *schema
		for _, one := range schemas {
			if slices.Contains(one.Kinds, metav1.GroupVersionKind{Group: "farm.mainstay.dev", Version: "v1alpha1", Kind: kind}) {
				found = &one
			}
		}
		if found == nil {
			t.Fatalf("%s has no schema", kind)
		}
		explain(t, schemas, kind, *found, &fields)
	}
	// The number of fields of the types. It shows that the walk reaches the innermost.
	if want := 2*2 + 20; fields < want {
		t.Errorf("%d fields were found, expected more than %d", fields, want)
	}
}

// explain walks all fields recursively.
func explain(t *testing.T, schemas map[string]schema, path string, at schema, fields *int) {
	for at.Ref != "" || len(at.AllOf) == 1 {
		ref := at.Ref
		if ref == "" {
			ref = at.AllOf[0].Ref
		}
		next, exists := schemas[ref[strings.LastIndex(ref, "/")+1:]]
		if !exists {
			t.Errorf("%s: %s is no schema", path, ref)
			return
		}
		at = next
	}
	if at.Items != nil {
		explain(t, schemas, path+"[]", *at.Items, fields)
	}
	for name, one := range at.Properties {
		child := path + "." + name
		*fields++
		if strings.TrimSpace(one.Description) == "" {
			t.Errorf("%s has no description", child)
		}
		if name != "metadata" {
			explain(t, schemas, child, one, fields)
		}
	}
}

// TestMergedByType checks that conditions are a map by type, so that two appliers do not overwrite
// each other's.
func TestMergedByType(t *testing.T) {
	t.Parallel()
	var v3 struct {
		Components struct{ Schemas map[string]schema }
	}
	decode(t, openAPI(t), &v3)
	for name, one := range v3.Components.Schemas {
		if conditions, has := one.Properties["conditions"]; has {
			if got := fmt.Sprint(conditions.ListType, conditions.MapKeys); got != "map[type]" {
				t.Errorf("%s: conditions are %s", name, got)
			}
			return
		}
	}
	t.Error("no schema has conditions")
}
