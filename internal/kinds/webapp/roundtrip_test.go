package webapp

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/randfill"

	"github.com/mainstay-platform/mainstay/api"
	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	msappsv1beta1 "github.com/mainstay-platform/mainstay/api/apps/v1beta1"
	"github.com/mainstay-platform/mainstay/test/cases"
)

// filler creates random objects: every field, half of what may be nil, up to two of each list and
// map.
func filler(seed uint64) *randfill.Filler {
	return randfill.NewWithSeed(int64(seed)).NilChance(0.5).NumElements(0, 2).MaxDepth(25).Funcs(
		func(q *resource.Quantity, c randfill.Continue) {
			formats := []resource.Format{resource.DecimalSI, resource.BinarySI, resource.DecimalExponent}
			*q = *resource.NewMilliQuantity(c.Int63n(1e9), formats[c.Intn(len(formats))])
		},
		// Raw JSON can't be random bytes.
		func(f *metav1.FieldsV1, _ randfill.Continue) { f.SetRawBytes([]byte("{}")) },
		// The schema requires a host: without one there is no Ingress.
		func(i *msappsv1.Ingress, c randfill.Continue) { c.FillNoCustom(i); i.Host += "a.b" },
	)
}

// asJSON returns what the API server would store. Only what survives it matters: not the difference
// between nil and empty maps, nor the nanoseconds of a time.
func asJSON(t testing.TB, object any) string {
	t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// throughJSON encodes and decodes an object.
func throughJSON[T any](t testing.TB, object *T) *T {
	t.Helper()
	arrived := new(T)
	if err := json.Unmarshal([]byte(asJSON(t, object)), arrived); err != nil {
		t.Fatal(err)
	}
	return arrived
}

func randomV1(t testing.TB, seed uint64) *msappsv1.WebApp {
	app := &msappsv1.WebApp{}
	filler(seed).Fill(app)
	return throughJSON(t, app)
}

// randomV1beta1 has, in half of the cases, a stash as FromV1 writes it.
func randomV1beta1(t testing.TB, seed uint64) *msappsv1beta1.WebApp {
	app := &msappsv1beta1.WebApp{}
	filler(seed).Fill(app)
	if seed%2 == 0 {
		return throughJSON(t, app)
	}
	more, old := randomV1(t, seed), &msappsv1beta1.WebApp{}
	if app.Spec.Host == "" {
		more.Spec.Ingress = nil
	}
	if err := FromV1(t.Context(), more, old); err != nil {
		t.Fatal(err)
	}
	if text, ok := old.Annotations[api.AnnotationV1Spec]; ok {
		metav1.SetMetaDataAnnotation(&app.ObjectMeta, api.AnnotationV1Spec, text)
	}
	return throughJSON(t, app)
}

// checkV1 converts the app of a seed from v1 to v1beta1 and back.
func checkV1(t testing.TB, seed uint64) {
	t.Helper()
	app := randomV1(t, seed)
	old, back := &msappsv1beta1.WebApp{TypeMeta: app.TypeMeta}, &msappsv1.WebApp{TypeMeta: app.TypeMeta}
	if err := FromV1(t.Context(), app, old); err != nil {
		t.Fatal(err)
	}
	if err := ToV1(t.Context(), throughJSON(t, old), back); err != nil {
		t.Fatal(err)
	}
	if want, got := asJSON(t, app), asJSON(t, back); want != got {
		t.Fatalf("v1 -> v1beta1 -> v1: %s", cmp.Diff(app, back))
	}
}

// checkV1beta1 converts the app of a seed from v1beta1 to v1 and back.
func checkV1beta1(t testing.TB, seed uint64) {
	t.Helper()
	app := randomV1beta1(t, seed)
	hub, back := &msappsv1.WebApp{TypeMeta: app.TypeMeta}, &msappsv1beta1.WebApp{TypeMeta: app.TypeMeta}
	if err := ToV1(t.Context(), app, hub); err != nil {
		t.Fatal(err)
	}
	if err := FromV1(t.Context(), throughJSON(t, hub), back); err != nil {
		t.Fatal(err)
	}
	if want, got := asJSON(t, app), asJSON(t, back); want != got {
		t.Fatalf("v1beta1 -> v1 -> v1beta1: %s", cmp.Diff(app, back))
	}
}

// TestRoundTrip: nothing is lost in a conversion to the other version and back.
func TestRoundTrip(t *testing.T) {
	// Of 7 random mutations of the conversion (2026-11-22) 5 were found, each with the first object; 2
	// refuse less of what users write by hand.
	for seed := range cases.Seeds(t, 250, 30_000) {
		checkV1(t, seed)
		checkV1beta1(t, seed)
	}
}

// BenchmarkRoundTrip checks b.N random objects, each in both directions: -bench=RoundTrip
// -benchtime=100000x.
func BenchmarkRoundTrip(b *testing.B) {
	next := uint64(0)
	for b.Loop() {
		checkV1(b, next)
		checkV1beta1(b, next)
		next++
	}
}

// BenchmarkConvert converts a page of a list, as the API server requests it.
func BenchmarkConvert(b *testing.B) {
	const page = 500
	full, small := make([]*msappsv1.WebApp, page), make([]*msappsv1beta1.WebApp, page)
	for i := range full {
		full[i], small[i] = randomV1(b, uint64(i)), new(msappsv1beta1.WebApp)
		if err := FromV1(b.Context(), full[i], small[i]); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("ToV1Beta1", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for _, app := range full {
				if err := FromV1(b.Context(), app, &msappsv1beta1.WebApp{}); err != nil {
					b.Fatal(err)
				}
			}
		}
		b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/page, "µs/object")
	})
	b.Run("ToV1", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for _, app := range small {
				if err := ToV1(b.Context(), app, &msappsv1.WebApp{}); err != nil {
					b.Fatal(err)
				}
			}
		}
		b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/page, "µs/object")
	})
}
