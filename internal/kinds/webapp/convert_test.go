package webapp

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mainstay-platform/mainstay/api"
	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	msappsv1beta1 "github.com/mainstay-platform/mainstay/api/apps/v1beta1"
	"github.com/mainstay-platform/mainstay/test/fuzz"
)

// small returns a v1beta1 app with a stash; empty means none.
func small(spec msappsv1beta1.WebAppSpec, stash string) *msappsv1beta1.WebApp {
	app := &msappsv1beta1.WebApp{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "shop"}, Spec: spec}
	if stash != "" {
		app.Annotations = map[string]string{api.AnnotationV1Spec: stash}
	}
	return app
}

// TestFromV1 has each v1 spec next to its v1beta1 form.
func TestFromV1(t *testing.T) {
	for name, test := range map[string]struct {
		v1    msappsv1.WebAppSpec
		want  msappsv1beta1.WebAppSpec
		stash string
	}{
		"what v1beta1 has leaves no stash": {
			msappsv1.WebAppSpec{Image: "shop:1", Replicas: ptr.To[int32](2), Port: 80, Ingress: &msappsv1.Ingress{Host: "a.b"}},
			msappsv1beta1.WebAppSpec{Image: "shop:1", Replicas: ptr.To[int32](2), Port: 80, Host: "a.b"},
			"",
		},
		"the least": {msappsv1.WebAppSpec{Image: "shop:1"}, msappsv1beta1.WebAppSpec{Image: "shop:1"}, ""},
		"more than v1beta1 has": {
			msappsv1.WebAppSpec{Image: "shop:1", Env: []corev1.EnvVar{{Name: "A", Value: "<b>"}}, Suspend: true, Paused: true},
			msappsv1beta1.WebAppSpec{Image: "shop:1"},
			`{"suspend":true,"env":[{"name":"A","value":"<b>"}],"paused":true}`,
		},
		"an ingress with more than a host": {
			msappsv1.WebAppSpec{Image: "shop:1", Ingress: &msappsv1.Ingress{Host: "a.b", Path: "/x", TLSSecretName: "tls"}},
			msappsv1beta1.WebAppSpec{Image: "shop:1", Host: "a.b"},
			`{"ingress":{"path":"/x","tlsSecretName":"tls"}}`,
		},
		"empty is not left out": {
			msappsv1.WebAppSpec{Image: "shop:1", NetworkPolicy: &msappsv1.NetworkPolicy{}},
			msappsv1beta1.WebAppSpec{Image: "shop:1"}, `{"networkPolicy":{}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got msappsv1beta1.WebApp
			app := &msappsv1.WebApp{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "shop"}, Spec: test.v1}
			if err := FromV1(t.Context(), app, &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(small(test.want, test.stash), &got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestToV1 has each v1beta1 app next to its v1 spec: its fields take precedence over the stash.
func TestToV1(t *testing.T) {
	for name, test := range map[string]struct {
		spec  msappsv1beta1.WebAppSpec
		stash string
		want  msappsv1.WebAppSpec
	}{
		"the least": {msappsv1beta1.WebAppSpec{Image: "shop:1"}, "", msappsv1.WebAppSpec{Image: "shop:1"}},
		"a host": {msappsv1beta1.WebAppSpec{Image: "shop:1", Host: "a.b"}, "",
			msappsv1.WebAppSpec{Image: "shop:1", Ingress: &msappsv1.Ingress{Host: "a.b"}}},
		"empty stashes": {msappsv1beta1.WebAppSpec{Image: "shop:1"}, "{}", msappsv1.WebAppSpec{Image: "shop:1"}},
		"a host with the rest of its ingress": {
			msappsv1beta1.WebAppSpec{Image: "shop:1", Host: "new.b"}, `{"ingress":{"path":"/x"}}`,
			msappsv1.WebAppSpec{Image: "shop:1", Ingress: &msappsv1.Ingress{Host: "new.b", Path: "/x"}},
		},
		"a host that was removed takes its ingress along": {
			msappsv1beta1.WebAppSpec{Image: "shop:1"}, `{"ingress":{"path":"/x"},"paused":true}`,
			msappsv1.WebAppSpec{Image: "shop:1", Paused: true},
		},
		"fields that v1 lacks are not taken": {
			msappsv1beta1.WebAppSpec{Image: "shop:1"}, `{"hostNetwork":true,"Paused":true,"volumes":[{"name":"a","hostPath":{"path":"/"}}]}`,
			msappsv1.WebAppSpec{Image: "shop:1", Volumes: []msappsv1.Volume{{Name: "a"}}},
		},
		"replicas beside a stashed autoscaling, which Validate refuses": {
			msappsv1beta1.WebAppSpec{Image: "shop:1", Replicas: ptr.To[int32](3)}, `{"autoscaling":{"max":5}}`,
			msappsv1.WebAppSpec{Image: "shop:1", Replicas: ptr.To[int32](3), Autoscaling: &msappsv1.Autoscaling{Max: 5}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got msappsv1.WebApp
			if err := ToV1(t.Context(), small(test.spec, test.stash), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got.Spec); diff != "" {
				t.Error(diff)
			}
			if _, kept := got.Annotations[api.AnnotationV1Spec]; kept {
				t.Error("the stash is kept")
			}
		})
	}
}

// badStashes are refused, with words from the reason.
var badStashes = map[string]struct{ stash, want string }{
	"no JSON":                 {"{", "unexpected end"},
	"more than JSON":          {"{} {}", "after top-level value"},
	"no object":               {"[]", "cannot unmarshal"},
	"a field of another type": {`{"paused":"yes"}`, "cannot unmarshal"},
	"a field twice":           {`{"paused":true,"paused":false}`, "duplicate field"},
	"a quantity that is none": {`{"resources":{"limits":{"cpu":"a lot"}}}`, "quantities must match"},
	"image":                   {`{"image":"evil:1"}`, "fields of the v1beta1 spec"},
	"replicas":                {`{"replicas":3}`, "fields of the v1beta1 spec"},
	"port":                    {`{"port":3}`, "fields of the v1beta1 spec"},
	"ingress.host":            {`{"ingress":{"host":"a.b"}}`, "fields of the v1beta1 spec"},
	"a quantity that costs too much": {`{"resources":{"limits":{"cpu":"1e-999999999"}}}`,
		`resources.limits[cpu]: Invalid value: "1e-999999999": must be a quantity with an exponent`},
	"too much": {`{"args":["` + strings.Repeat("a", 256<<10) + `"]}`, "may not be more than 262144 bytes"},
}

func TestABadStashIsRefused(t *testing.T) {
	for name, test := range badStashes {
		t.Run(name, func(t *testing.T) {
			var to msappsv1.WebApp
			if err := ToV1(t.Context(), small(msappsv1beta1.WebAppSpec{Image: "shop:1"}, test.stash), &to); err != nil {
				t.Fatalf("one object keeps all from being read: %v", err)
			}
			if diff := cmp.Diff(msappsv1.WebAppSpec{Image: "shop:1"}, to.Spec); diff != "" {
				t.Errorf("something of it was taken: %s", diff)
			}
			// As the API server does after a mutating webhook.
			to.Labels = map[string]string{"added": "by a webhook"}
			var back msappsv1beta1.WebApp
			if err := errors.Join(FromV1(t.Context(), &to, &back), ToV1(t.Context(), &back, &to)); err != nil {
				t.Fatal(err)
			}
			Default(&to)
			err := Validate(&to).ToAggregate()
			if err == nil {
				t.Fatal("accepted")
			}
			for _, want := range []string{"metadata.annotations[mainstay.dev/v1-spec]: Forbidden", test.want} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q lacks %q", err, want)
				}
			}
			if len(err.Error()) > 500 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

// TestAStashOnV1IsNone: a v1 object may have the annotation, copied from a v1beta1 one. It has no
// meaning there.
func TestAStashOnV1IsNone(t *testing.T) {
	app := newApp()
	app.Annotations = map[string]string{api.AnnotationV1Spec: `{"paused":true}`, "team": "a"}
	var got msappsv1beta1.WebApp
	if err := FromV1(t.Context(), app, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"team": "a"}, got.Annotations); diff != "" {
		t.Error(diff)
	}
}

// TestConversionSharesNoMemory: a later change of one form does not affect the other.
func TestConversionSharesNoMemory(t *testing.T) {
	app := newApp(spec(func(s *msappsv1.WebAppSpec) {
		s.Replicas = ptr.To[int32](2)
		s.Env = []corev1.EnvVar{{Name: "A"}}
		s.Ingress = &msappsv1.Ingress{Host: "a.b"}
	}))
	app.Labels = map[string]string{"team": "a"}
	before := app.DeepCopy()
	var old msappsv1beta1.WebApp
	var back msappsv1.WebApp
	if err := FromV1(t.Context(), app, &old); err != nil {
		t.Fatal(err)
	}
	kept := old.DeepCopy()
	if err := ToV1(t.Context(), &old, &back); err != nil {
		t.Fatal(err)
	}
	back.Labels["team"] = "b"
	*back.Spec.Replicas, back.Spec.Env[0].Name, back.Spec.Ingress.Host = 9, "B", "c.d"
	if diff := cmp.Diff(kept, &old); diff != "" {
		t.Errorf("v1beta1 was changed through v1: %s", diff)
	}
	*old.Spec.Replicas, old.Labels["team"] = 9, "b"
	if diff := cmp.Diff(before, app); diff != "" {
		t.Errorf("v1 was changed through v1beta1: %s", diff)
	}
}

// FuzzStash: any annotation gives an error that names it, or a v1 spec that survives a round trip.
func FuzzStash(f *testing.F) {
	for _, seed := range []string{"", "{}", "null", `{"ingress":{"path":"/x"},"env":[{"name":"A"}]}`, `{"strategy":{"maxSurge":"25%"}}`, `{"restartedAt":"2026-01-31T12:00:00Z"}`} {
		f.Add(seed, "a.b")
	}
	for _, bad := range badStashes {
		f.Add(bad.stash, "")
	}
	fuzz.AddBombs(f, `{"env":[{"name":"A"}],"resources":{"limits":{"cpu":"1"}}}`, "a.b")
	f.Fuzz(func(t *testing.T, text, host string) {
		defer fuzz.Budget(t, text, host, text, host)() // there and back
		var app, again msappsv1.WebApp
		var old msappsv1beta1.WebApp
		if err := ToV1(t.Context(), small(msappsv1beta1.WebAppSpec{Image: "shop:1", Host: host}, text), &app); err != nil {
			t.Fatal(err)
		}
		if _, unreadable := app.Annotations[api.AnnotationV1Spec]; unreadable {
			return // Validate refuses it
		}
		if err := FromV1(t.Context(), &app, &old); err != nil {
			t.Fatal(err)
		}
		if err := ToV1(t.Context(), &old, &again); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(asJSON(t, &app), asJSON(t, &again)); diff != "" {
			t.Error(diff)
		}
	})
}
