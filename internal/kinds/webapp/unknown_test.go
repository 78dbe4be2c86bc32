package webapp

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-platform/mainstay/api"
	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	msappsv1beta1 "github.com/mainstay-platform/mainstay/api/apps/v1beta1"
)

// asV1beta1 and backAsV1 convert as the webhook does: typed, and then with the unknown fields.
func asV1beta1(t *testing.T, source string) string {
	t.Helper()
	var from msappsv1.WebApp
	to := msappsv1beta1.WebApp{TypeMeta: metav1.TypeMeta{APIVersion: msappsv1beta1.GroupVersion.String(), Kind: "WebApp"}}
	if err := json.Unmarshal([]byte(source), &from); err != nil {
		t.Fatal(err)
	}
	if err := FromV1(t.Context(), &from, &to); err != nil {
		t.Fatal(err)
	}
	return kept(t, source, asJSON(t, &to))
}

func backAsV1(t *testing.T, source string) string {
	t.Helper()
	var from msappsv1beta1.WebApp
	to := msappsv1.WebApp{TypeMeta: metav1.TypeMeta{APIVersion: msappsv1.GroupVersion.String(), Kind: "WebApp"}}
	if err := json.Unmarshal([]byte(source), &from); err != nil {
		t.Fatal(err)
	}
	if err := ToV1(t.Context(), &from, &to); err != nil {
		t.Fatal(err)
	}
	return kept(t, source, asJSON(t, &to))
}

func kept(t *testing.T, source, converted string) string {
	t.Helper()
	text, err := KeepUnknown([]byte(source), []byte(converted))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// valueOf decodes JSON.
func valueOf(t *testing.T, text string) (value map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatal(err)
	}
	return value
}

// TestUnknownFields: what a later release has added to v1 survives a client that reads and writes
// v1beta1, in each depth. v1beta1's own fields count, as for what is known.
func TestUnknownFields(t *testing.T) {
	const head = `{"apiVersion":"apps.mainstay.dev/v1","kind":"WebApp","metadata":{"name":"shop"},"spec":`
	for name, test := range map[string]struct{ spec, change, want string }{
		"at the top": {`{"image":"a","later":{"x":[1,2]},"id":9007199254740993}`, `"image":"a"`,
			`{"image":"a","later":{"x":[1,2]},"id":9007199254740993}`},
		"within others": {`{"image":"a","env":[{"name":"A","later":1},{"name":"B"}],"autoscaling":{"max":3,"later":true}}`, `"image":"a"`,
			`{"image":"a","env":[{"name":"A","later":1},{"name":"B"}],"autoscaling":{"max":3,"later":true}}`},
		"of an ingress": {`{"image":"a","ingress":{"host":"a.b","later":1}}`, `"host":"c.d"`,
			`{"image":"a","ingress":{"host":"c.d","later":1}}`},
		"of an ingress that is removed": {`{"image":"a","later":1,"ingress":{"host":"a.b","later":1}}`, `"host":""`, `{"image":"a","later":1}`},
		"nothing":                       {`{"image":"a","paused":true}`, `"image":"b"`, `{"image":"b","paused":true}`},
	} {
		t.Run(name, func(t *testing.T) {
			old := valueOf(t, asV1beta1(t, head+test.spec+"}"))
			maps.Copy(old["spec"].(map[string]any), valueOf(t, "{"+test.change+"}"))
			back := backAsV1(t, asJSON(t, old))
			if diff := cmp.Diff(valueOf(t, test.want), valueOf(t, back)["spec"]); diff != "" {
				t.Error(diff)
			}
			if strings.Contains(test.want, "9007199254740993") && !strings.Contains(back, "9007199254740993") {
				t.Errorf("a number has changed: %s", back)
			}
			if strings.Contains(back, api.AnnotationV1Spec) {
				t.Errorf("the stash is stored: %s", back)
			}
		})
	}
}

// TestTooLargeForV1beta1: an object whose annotations have no room for the stash can be read as
// v1beta1, and a write as v1beta1 is refused, because it would lose the rest.
func TestTooLargeForV1beta1(t *testing.T) {
	app := newApp(spec(func(s *msappsv1.WebAppSpec) { s.Args = []string{strings.Repeat("<", 100<<10)} }))
	var old msappsv1beta1.WebApp
	if err := FromV1(t.Context(), app, &old); err != nil || old.Labels[api.LabelV1Spec] != "" || old.Annotations[api.AnnotationV1Spec] == "" {
		t.Errorf("100 KiB do not fit: labels %v, %v", old.Labels, err)
	}
	app.Annotations = map[string]string{"note": strings.Repeat("a", 200<<10)}
	if err := FromV1(t.Context(), app, &old); err != nil || old.Annotations[api.AnnotationV1Spec] != "" || old.Labels[api.LabelV1Spec] == "" {
		t.Fatalf("the label is missing: %v, %v", old.Labels, err)
	}
	err := ToV1(t.Context(), &old, &msappsv1.WebApp{})
	if err == nil || !strings.Contains(err.Error(), "write it as apps.mainstay.dev/v1") {
		t.Errorf("it may be written: %v", err)
	}
	app.Annotations, app.Labels = nil, map[string]string{api.LabelV1Spec: tooLarge}
	if err := FromV1(t.Context(), app, &old); err != nil || old.Labels[api.LabelV1Spec] != "" {
		t.Errorf("a label of a client counts: %v, %v", old.Labels, err)
	}
}
