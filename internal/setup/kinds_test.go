package setup

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/version"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	"github.com/mainstay-platform/mainstay/charts"
	"github.com/mainstay-platform/mainstay/internal/install/crds"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation"
	"github.com/mainstay-platform/mainstay/internal/kit/watch"
	"github.com/mainstay-platform/mainstay/internal/registration"
)

// TestKindsFitEverywhere: each kind has a folder, a value in the chart and a definition, and there
// are no others. ClusterInstrumentation is in the folder of Instrumentation.
func TestKindsFitEverywhere(t *testing.T) {
	folders, err := os.ReadDir("../kinds")
	if err != nil {
		t.Fatal(err)
	}
	var named []string
	for _, folder := range folders {
		named = append(named, folder.Name())
	}
	inFolders := slices.DeleteFunc(allKinds(), func(name string) bool { return name == instrumentation.ClusterController })
	if diff := cmp.Diff(inFolders, named); diff != "" {
		t.Errorf("kinds (-) and folders of internal/kinds (+): %s", diff)
	}
	content, err := os.ReadFile("../../charts/mainstay/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var values struct {
		Kinds map[string]any `json:"kinds"`
	}
	if err := yaml.Unmarshal(content, &values); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(allKinds(), slices.Sorted(maps.Keys(values.Kinds))); diff != "" {
		t.Errorf("kinds (-) and the chart's values (+): %s", diff)
	}
	definitions, err := charts.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	var carried []string
	records := 0
	for _, definition := range definitions {
		if crds.IsRecord(definition.Name) {
			records++
			continue
		}
		carried = append(carried, definition.Name)
	}
	wanted := definitionsOf(kinds())
	slices.Sort(wanted)
	slices.Sort(carried)
	if diff := cmp.Diff(wanted, carried); diff != "" {
		t.Errorf("definitions of the kinds (-) and those that the chart carries (+): %s", diff)
	}
	if records != 1 {
		t.Errorf("there are %d definitions of records: what our own API server keeps is Llamas", records)
	}
}

func TestEnabledKinds(t *testing.T) {
	on, err := enabledKinds([]string{"webapp"})
	if err != nil || len(on) != 1 || on[0].Name != "webapp" {
		t.Errorf("got %v, %v", on, err)
	}
	for names, want := range map[string]string{
		"": "must name at least one kind",
		"webapp,shop": `unsupported value "shop": must be one of ` +
			"appconfig, appstack, cache, clusterinstrumentation, configmonitor, ecommerceplatform, instrumentation, " +
			"platformpolicy, postgresql, webapp",
	} {
		if _, err := enabledKinds(strings.FieldsFunc(names, func(r rune) bool { return r == ',' })); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want an error with %q", names, err, want)
		}
	}
}

// TestCacheOptions: only what enabled kinds need is cached.
func TestCacheOptions(t *testing.T) {
	held := func(names ...string) []string {
		t.Helper()
		on, err := enabledKinds(names)
		if err != nil {
			t.Fatal(err)
		}
		options, err := cacheOptions(on, nil)
		if err != nil {
			t.Fatal(err)
		}
		var kinds []string
		for object := range options {
			name := fmt.Sprintf("%T", object)
			if metadata, only := object.(*metav1.PartialObjectMetadata); only {
				name += " " + metadata.GroupVersionKind().String()
			}
			kinds = append(kinds, name)
		}
		slices.Sort(kinds)
		return kinds
	}
	if diff := cmp.Diff([]string{"*v1.PartialObjectMetadata /v1, Kind=Namespace", "*v1.PlatformPolicy"}, held("platformpolicy")); diff != "" {
		t.Error(diff)
	}
	if alone := held("webapp"); slices.ContainsFunc(alone,
		func(kind string) bool { return strings.Contains(kind, "Polic") || strings.Contains(kind, "Namespace") }) {
		t.Errorf("without policies the cache holds %v", alone)
	}
	says := func(name string, need watch.Need) registration.Kind {
		return registration.Kind{Name: name, Needs: []watch.Need{need}}
	}
	ours, owned := watch.Need{Object: &corev1.Pod{}}, watch.Need{Object: &corev1.Pod{}, Select: watch.OwnedPods}
	_, err := cacheOptions([]registration.Kind{says("a", ours), says("b", owned)}, nil)
	if err == nil || !strings.Contains(err.Error(), "a and b: they select different *v1.Pod") {
		t.Errorf("got %v", err)
	}
}

// TestScopesShareAWebhook: one webhook injects Instrumentations and ClusterInstrumentations,
// whichever of them are on.
func TestScopesShareAWebhook(t *testing.T) {
	scheme, err := Scheme()
	if err != nil {
		t.Fatal(err)
	}
	manager := someManager{scheme: scheme, client: fake.NewClientBuilder().WithScheme(scheme).Build()}
	for _, names := range [][]string{{"instrumentation"}, {"clusterinstrumentation"}, {"instrumentation", "clusterinstrumentation"}} {
		on, err := enabledKinds(names)
		if err != nil {
			t.Fatal(err)
		}
		wired := wiring{Input: registration.Input{Manager: manager, Kinds: on, Version: &version.Info{}}}
		mutating := 0
		for _, hook := range wired.hooks() {
			if hook.Mutating {
				mutating++
			}
		}
		if mutating != 1 {
			t.Errorf("%v: %d webhooks mutate", names, mutating)
		}
	}
}

// TestHooksWithoutPolicies: kinds that are off have no webhooks, and enabled kinds apply only their
// own rules.
func TestHooksWithoutPolicies(t *testing.T) {
	scheme, err := Scheme()
	if err != nil {
		t.Fatal(err)
	}
	on, err := enabledKinds([]string{"webapp"})
	if err != nil {
		t.Fatal(err)
	}
	manager := someManager{scheme: scheme, client: fake.NewClientBuilder().WithScheme(scheme).Build()}
	wired := wiring{Input: registration.Input{Manager: manager, Kinds: on}}
	said := map[string]string{}
	for _, hook := range wired.hooks() {
		if !strings.Contains(hook.Name, "webapps") {
			t.Errorf("asked about %s", hook.Name)
		}
		for _, operation := range []string{"CREATE", "UPDATE"} {
			review := `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","namespace":"shop","operation":"` + operation +
				`","object":%s,"oldObject":{"spec":{"image":"shop:1","replicas":1}}}}`
			for what, object := range map[string]string{"good": `{"spec":{"image":"shop:1","replicas":11}}`, "bad": `{"spec":{"image":"shop:1","autoscaling":{"min":3,"max":2}}}`} {
				answer := post(t, hook.Handler, strings.Replace(review, "%s", object, 1)).Body.String()
				said[hook.Path+" "+operation+" "+what] = strconv.FormatBool(strings.Contains(answer, `"allowed":true`))
			}
		}
	}
	want := map[string]string{
		"/mutate/webapps.apps.mainstay.dev CREATE bad": "true", "/mutate/webapps.apps.mainstay.dev CREATE good": "true",
		"/mutate/webapps.apps.mainstay.dev UPDATE bad": "true", "/mutate/webapps.apps.mainstay.dev UPDATE good": "true",
		"/validate/webapps.apps.mainstay.dev CREATE bad": "false", "/validate/webapps.apps.mainstay.dev CREATE good": "true",
		"/validate/webapps.apps.mainstay.dev UPDATE bad": "false", "/validate/webapps.apps.mainstay.dev UPDATE good": "true",
		"/validate/scale.webapps.apps.mainstay.dev CREATE bad": "true", "/validate/scale.webapps.apps.mainstay.dev CREATE good": "true",
		"/validate/scale.webapps.apps.mainstay.dev UPDATE bad": "true", "/validate/scale.webapps.apps.mainstay.dev UPDATE good": "true",
	}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Error(diff)
	}
}

// someManager is a manager with what hooks need.
type someManager struct {
	ctrl.Manager
	scheme *runtime.Scheme
	client client.Client
}

func (m someManager) GetScheme() *runtime.Scheme  { return m.scheme }
func (m someManager) GetClient() client.Client    { return m.client }
func (m someManager) GetAPIReader() client.Reader { return m.client }
