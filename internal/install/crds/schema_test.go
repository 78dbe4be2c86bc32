package crds

import (
	"encoding/json"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// TestCheckSpec: what the schema refuses is found with its path, and what it accepts is not.
func TestCheckSpec(t *testing.T) {
	app := schema.GroupVersionKind{Group: "apps.mainstay.dev", Version: "v1", Kind: "WebApp"}
	database := schema.GroupVersionKind{Group: "database.mainstay.dev", Version: "v1", Kind: "PostgreSQL"}
	for text, test := range map[string]struct {
		kind schema.GroupVersionKind
		want []string
	}{
		`{"image":"a","replicas":2,"env":[{"name":"A","value":"b"}],"resources":{"limits":{"cpu":"1","memory":"64Mi"}}}`: {app, nil},
		`{"image":"a","port":70000}`: {app, []string{`spec.port: Invalid value: 70000: should be less than or equal to 65535`}},
		`{"replicas":"two"}`: {app, []string{`spec.image: Required value`,
			`spec.replicas: Invalid value: must be of type integer: "string"`}},
		`{"image":"a","env":[{"value":"b"}]}`:                        {app, []string{`spec.env[0].name: Required value`}},
		`{"version":"17","storage":"1Gi","deletionPolicy":"Remain"}`: {database, []string{`spec.deletionPolicy: Unsupported value: "Remain": supported values: "Retain", "Delete"`}},
		`{"version":"17","storage":"1Gi","deletionPolicy":"` + strings.Repeat("x", 5000) + `"}`: {database,
			[]string{`spec.deletionPolicy: Unsupported value: supported values: "Retain", "Delete"`}},
		`{"version":"17","storage":"much"}`: {database, []string{`spec.storage: Invalid value: "much": should match`}},
		`{"version":"17","storage":"1Gi"}`:  {database, nil},
		`{"anything":1}`:                    {schema.GroupVersionKind{Kind: "Queue"}, nil},
	} {
		var content map[string]any
		if err := json.Unmarshal([]byte(text), &content); err != nil {
			t.Fatal(err)
		}
		problems, _, err := CheckSpec(test.kind, content, &Budget{})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for i, problem := range problems {
			got = append(got, problem.Error())
			if i < len(test.want) && strings.HasPrefix(got[i], test.want[i]) {
				got[i] = test.want[i]
			}
		}
		slices.Sort(got)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s\n%s", text, diff)
		}
	}
}

// TestCheckSpecIsBounded: what a check takes grows with the length of a spec, not with how many
// values that has.
func TestCheckSpecIsBounded(t *testing.T) {
	app := schema.GroupVersionKind{Group: "apps.mainstay.dev", Version: "v1", Kind: "WebApp"}
	for _, count := range []int{10, 2900, 200_000} {
		arguments := slices.Repeat([]any{"x"}, count)
		content := map[string]any{"image": "a", "imagePullPolicy": "x", "args": arguments}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		problems, wasChecked, err := CheckSpec(app, content, &Budget{})
		runtime.ReadMemStats(&after)
		if isChecked := len(problems) > 0; err != nil || isChecked != (count < freeValues) || isChecked != wasChecked {
			t.Errorf("%d values: %v, %v", count, problems, err)
		}
		const constant = 8 << 20
		if spent := after.TotalAlloc - before.TotalAlloc; spent > uint64(50*4*count+constant) {
			t.Errorf("%d values took %d bytes", count, spent)
		}
	}
}

// TestBudget: a hundred specs of a request take no more than one, and one that is too large does
// not keep a small one from being checked.
func TestBudget(t *testing.T) {
	app := schema.GroupVersionKind{Group: "apps.mainstay.dev", Version: "v1", Kind: "WebApp"}
	large := map[string]any{"image": "a", "imagePullPolicy": "x", "args": slices.Repeat([]any{"x"}, 2900)}
	var budget Budget
	checked := 0
	for range 100 {
		_, isChecked, err := CheckSpec(app, large, &budget)
		if err != nil {
			t.Fatal(err)
		}
		if isChecked {
			checked++
		}
	}
	if checked != 1 {
		t.Errorf("%d of 100 are checked", checked)
	}
	problems, isChecked, err := CheckSpec(app, map[string]any{"image": "a", "port": int64(70000)}, &budget)
	if err != nil || !isChecked || len(problems) != 1 {
		t.Errorf("a small spec: %v, %t, %v", problems, isChecked, err)
	}
}

// TestRequiredHaveNoDefault: the API server fills in defaults before it checks a spec; CheckSpec
// does not, and so would miss a required field with a default.
func TestRequiredHaveNoDefault(t *testing.T) {
	schemas, err := specSchemas()
	if err != nil || len(schemas) == 0 {
		t.Fatalf("%d schemas: %v", len(schemas), err)
	}
	var walk func(path string, s *spec.Schema)
	walk = func(path string, s *spec.Schema) {
		for name := range s.Properties {
			property := s.Properties[name]
			if property.Default != nil && slices.Contains(s.Required, name) {
				t.Errorf("%s.%s is required and has a default", path, name)
			}
			walk(path+"."+name, &property)
		}
		if s.Items != nil && s.Items.Schema != nil {
			walk(path+"[]", s.Items.Schema)
		}
		if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
			walk(path+"{}", s.AdditionalProperties.Schema)
		}
	}
	for kind, s := range schemas {
		walk(kind.Kind, s)
	}
}
