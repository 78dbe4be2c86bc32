package setup

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mainstay-platform/mainstay/api"
	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	msappsv1beta1 "github.com/mainstay-platform/mainstay/api/apps/v1beta1"
	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/install/crds"
	"github.com/mainstay-platform/mainstay/internal/kinds/appconfig"
	"github.com/mainstay-platform/mainstay/internal/kinds/appconfig/appconfigcontroller"
	"github.com/mainstay-platform/mainstay/internal/kinds/appstack"
	"github.com/mainstay-platform/mainstay/internal/kinds/configmonitor"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/injection"
	"github.com/mainstay-platform/mainstay/internal/kinds/webapp"
	"github.com/mainstay-platform/mainstay/internal/kinds/webapp/webappcontroller"
	"github.com/mainstay-platform/mainstay/internal/kit/component"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/policy"
	"github.com/mainstay-platform/mainstay/internal/registration"
	"github.com/mainstay-platform/mainstay/internal/workload"
	"github.com/mainstay-platform/mainstay/test/fuzz"
)

const quantityBomb = `"1e-999999999"`

// objects returns a JSON list of about so many empty objects.
func objects(count int) string { return "[" + strings.Repeat("{},", count) + "{}]" }

// entry is one place where text of users is parsed.
type entry struct {
	// accepted is read; each of beyond is not, and costs no more than its length justifies.
	accepted string
	beyond   map[string]string
	// read returns whether a text was read as what it says.
	read func(t *testing.T, text string) bool
}

func records(of string) string {
	return `[{"id":"a","image":"x","mode":"InitContainer","mountPath":"/x","containers":[{"name":"app"}]` + of + `}]`
}

// entries are the rows of the table in docs/threat-model.md, by their first column.
func entries(t *testing.T) map[string]entry {
	t.Helper()
	scheme, err := Scheme()
	if err != nil {
		t.Fatal(err)
	}
	conversion, err := Converter(scheme)
	if err != nil {
		t.Fatal(err)
	}
	review := webappcontroller.Registration().Hooks(registration.Input{Manager: someManager{scheme: scheme}, Rules: strictRules})[0].Handler
	demands := func(annotation string, parse func(*workload.Target) int, enough int) func(*testing.T, string) bool {
		return func(_ *testing.T, text string) bool {
			uses := map[workload.SourceRef]workload.Use{{Kind: workload.ConfigMap, Name: "flags"}: {}}
			return parse(&workload.Target{Annotations: map[string]string{annotation: text}, Uses: uses}) == enough
		}
	}
	long := strings.Repeat("x", 256<<10)
	names := func(count int) string {
		var all strings.Builder
		for i := range count {
			fmt.Fprintf(&all, "name-%d,", i)
		}
		return strings.TrimSuffix(all.String(), ",")
	}
	all := databaseEntries()
	maps.Copy(all, specEntries())
	maps.Copy(all, map[string]entry{
		"annotation `instrumentation.mainstay.dev/injected`": {
			accepted: records(`,"sizeLimit":"1e3"`),
			beyond: map[string]string{
				"bytes": records(`,"directory":"` + long + `"`), "objects": records(`,"x":` + objects(60_000)),
				"a quantity": records(`,"sizeLimit":` + quantityBomb), "in other letters": `[{"\u017fizeLimit":` + quantityBomb + `}]`, "another": records(`,"resources":{"limits":{"cpu":` + quantityBomb + `}}`),
			},
			read: func(_ *testing.T, text string) bool {
				return injection.Injected(map[string]string{instrv1.AnnotationInjected: text}) != nil
			},
		},
		"annotation `config.mainstay.dev/observed`": {
			accepted: `{"sources":{"ConfigMap/a":{"all":"x"}}}`,
			beyond: map[string]string{
				"bytes":   `{"sources":{"ConfigMap/a":{"all":"` + long + `"}}}`,
				"objects": `{"sources":{"a":{"all":"x"}},"x":` + objects(60_000) + `}`,
			},
			read: func(_ *testing.T, text string) bool { return workload.ParseStamp(text).Sources != nil },
		},
		"annotation `config.mainstay.dev/evicted`": {
			accepted: `{"of":"x"}`,
			beyond:   map[string]string{"bytes": `{"of":"` + long + `"}`, "objects": `{"of":"x","y":` + objects(60_000) + `}`},
			read:     func(_ *testing.T, text string) bool { return configmonitor.ParseRecord(text).Of != "" },
		},
		"annotation `mainstay.dev/v1-spec`": {
			accepted: `{"servicePort":81}`,
			beyond: map[string]string{
				"bytes": `{"servicePort":81,"args":["` + long + `"]}`, "objects": `{"servicePort":81,"env":` + objects(60_000) + `}`,
				"a quantity": `{"servicePort":81,"resources":{"limits":{"cpu":` + quantityBomb + `}}}`,
			},
			read: func(t *testing.T, text string) bool {
				t.Helper()
				older := &msappsv1beta1.WebApp{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{api.AnnotationV1Spec: text}}}
				var newer msappsv1.WebApp
				return webapp.ToV1(t.Context(), older, &newer) == nil && newer.Spec.ServicePort == 81
			},
		},
		"annotation `config.mainstay.dev/reload`": {
			accepted: names(250),
			beyond:   map[string]string{"names": names(251), "more": names(20_000), "one": strings.Repeat("a,", 128<<10)},
			read: demands(configv1.AnnotationReload, func(target *workload.Target) int {
				found, err := workload.OfWorkload(target)
				if err != nil {
					return -len(found)
				}
				return len(found)
			}, 250),
		},
		"annotation `config.mainstay.dev/pod-selector`": {
			accepted: "app in (a,b)",
			beyond:   map[string]string{"bytes": "app in (" + strings.Repeat("a,", 2048) + "b)"},
			read: func(_ *testing.T, text string) bool {
				_, asked, _ := workload.OfSource(workload.SourceRef{Kind: workload.ConfigMap, Name: "flags"},
					map[string]string{configv1.AnnotationPodSelector: text})
				return asked
			},
		},
		"annotations of Stakater Reloader": {
			accepted: `fl(a|b)gs`,
			beyond: map[string]string{
				"expressions": strings.Repeat("x+,", 1000) + "fl.*", "one that is long": "fl.*|" + strings.Repeat("y", 1000),
				"many that are large": strings.Repeat(`((\pL{9}){9}){9},(?i)((\pL{8}){9}){9},`, 1000) + "fl.*",
			},
			read: demands("configmap.reloader.stakater.com/reload", func(target *workload.Target) int {
				found, _ := workload.OfStakater(target, nil)
				return len(found)
			}, 1),
		},
		"review of an admission": {
			accepted: `{"spec":{"image":"reg.io/a:1","resources":{"requests":{"cpu":"1e-3"}}}}`,
			beyond: map[string]string{
				"bytes": `{"spec":{"args":["` + strings.Repeat("x", 5<<20) + `"]}}`, "objects": `{"spec":{"sidecars":` + objects(300_000) + `}}`,
				"nulls":      `{"spec":{"sidecars":[` + strings.Repeat("null,", 300_000) + `0]}}`,
				"a quantity": `{"spec":{"resources":{"limits":{"cpu":` + quantityBomb + `}}}}`,
				"levels":     strings.Repeat(`{"spec":`, 200) + "1" + strings.Repeat("}", 200),
			},
			read: func(t *testing.T, text string) bool {
				t.Helper()
				body := `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","namespace":"shop","operation":"CREATE","object":` + text + `}}`
				answer := post(t, review, body).Body.String()
				return !strings.Contains(answer, "may not") && !strings.Contains(answer, "must be a quantity")
			},
		},
		"review of a conversion": {
			accepted: `{"apiVersion":"apps.mainstay.dev/v1beta1","kind":"WebApp"}`,
			beyond: map[string]string{
				"objects":    `{"apiVersion":"apps.mainstay.dev/v1","kind":"WebApp","spec":{"sidecars":` + objects(300_000) + `}}`,
				"a quantity": `{"apiVersion":"apps.mainstay.dev/v1","kind":"WebApp","spec":{"resources":{"limits":{"cpu":` + quantityBomb + `}}}}`,
				"items":      strings.Repeat(`{"apiVersion":"apps.mainstay.dev/v1beta1","kind":"WebApp"},`, 10_000) + `{}`,
			},
			read: func(t *testing.T, text string) bool {
				t.Helper()
				answer := post(t, conversion, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"1",`+
					`"desiredAPIVersion":"apps.mainstay.dev/v1","objects":[`+text+`]}}`)
				return answer.Code == http.StatusOK && strings.Contains(answer.Body.String(), `"status":"Success"`)
			},
		},
		"`components[].spec` of an AppStack": {
			accepted: `{"image":"reg.io/a:1"}`,
			beyond: map[string]string{
				"objects": `{"image":"reg.io/a:1","sidecars":` + objects(100_000) + `}`, "bytes": `{"image":"` + strings.Repeat("x", 1<<20) + `"}`,
				"a quantity": `{"image":"reg.io/a:1","resources":{"limits":{"cpu":` + quantityBomb + `}}}`,
				"many names": `{"image":"reg.io/a:1","imagePullSecrets":[{"name":"` + strings.Repeat(`x"},{"name":"`, 60_000) + `"}]}`,
			},
			read: func(_ *testing.T, text string) bool { return isComponent(text) },
		},
		"annotation `platform.mainstay.dev/depends-on`": {
			accepted: "a",
			beyond:   map[string]string{"bytes": strings.Repeat("a,", 128<<10)},
			read:     func(_ *testing.T, text string) bool { return isOrdered(api.AnnotationDependsOn, text) },
		},
		"annotation `platform.mainstay.dev/depended-on`": {
			accepted: "a",
			beyond:   map[string]string{"bytes": strings.Repeat("a,", 128<<10)},
			read:     func(_ *testing.T, text string) bool { return isOrdered(api.AnnotationDependedOn, text) },
		},
		"templates of an AppConfig": {
			accepted: `{{ "a" | upper }}`,
			beyond: map[string]string{
				"bytes": strings.Repeat("x", 1<<20) + "{{ 1 }}", "iterations": `{{ range 99999 }}x{{ end }}`,
				"work": `{{ $a := "x" }}{{ range 9000 }}{{ $a = print $a $a }}{{ end }}`, "an expression": `{{ regexMatch "((a{100}){100}){100}" "a" }}`,
			},
			read: func(_ *testing.T, text string) bool {
				config := &configv1.AppConfig{Spec: configv1.AppConfigSpec{Application: "shop", Config: map[string]string{"KEY": text}}}
				appconfig.Default(config)
				return len(appconfig.Validate(config, policy.Environments{})) == 0 && appconfig.RenderingIn(config, policy.None, policy.Environments{}).Problem == ""
			},
		},
	})
	return all
}

// stackKinds are kinds of components: the WebApp, and the AppConfig, which renders.
func stackKinds() component.Kinds {
	kinds := []registration.Kind{webappcontroller.Registration(), appconfigcontroller.Registration()}
	in := registration.Input{Manager: someManager{}, Kinds: kinds}
	var all component.Kinds
	for _, one := range in.Components() {
		all = append(all, one.Kind)
	}
	return all
}

// isComponent reports whether a text is accepted as the spec of a WebApp in a stack; a list, as
// those of several.
func isComponent(text string) bool {
	specs := []json.RawMessage{json.RawMessage(text)}
	if strings.HasPrefix(text, "[") && json.Unmarshal([]byte(text), &specs) != nil {
		return false
	}
	stack := &platformv1.AppStack{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	for i, spec := range specs {
		stack.Spec.Components = append(stack.Spec.Components, platformv1.Component{
			Name: fmt.Sprintf("c%d", i), Type: "webApp", Spec: runtime.RawExtension{Raw: spec},
		})
	}
	appstack.Default(stack)
	if len(appstack.Validate(stack, stackKinds())) > 0 {
		return false
	}
	app, _ := stackKinds().Get("webApp")
	object, err := appstack.Object(stack, &stack.Spec.Components[0], app, appstack.Additions{IsExposed: true})
	if err != nil {
		return false
	}
	problems, _, err := crds.CheckSpec(app.Kind, appstack.SpecOf(object), &crds.Budget{})
	return err == nil && len(problems) == 0
}

// isOrdered reports whether an object that left the spec of a stack, and depends on the component a
// by this annotation, is deleted before that is.
func isOrdered(key, text string) bool {
	stack, all := &platformv1.AppStack{}, stackKinds()
	stack.Name, stack.Namespace = "shop", "shop"
	app, _ := all.Get("webApp")
	found := plan.Children{}
	for name, annotation := range map[string]string{"shop-a": "", "shop-b": text} {
		object := &msappsv1.WebApp{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{key: annotation}}}
		found[app.Ref("shop", name)] = plan.Found{Object: object, Ownership: plan.Ours}
	}
	decided := appstack.Decide(stack, appstack.Observed{Children: found, Kinds: all})
	return decided.Left[0].Name == "a" && decided.Left[0].Action == appstack.Wait
}

// What reading a text may cost: so many bytes of memory for each byte of it, and a millisecond of a
// processor for each KiB, beside constants.
const (
	maxCost, constantCost = 50, 8 << 20
	constantTime          = 500 * time.Millisecond
)

// TestHostileInput walks all places where text of users is parsed. What is within the limits is
// read; what is beyond is not, and costs no more than its length justifies.
func TestHostileInput(t *testing.T) {
	all := entries(t)
	for name, one := range all {
		t.Run(name, func(t *testing.T) {
			if !one.read(t, one.accepted) {
				t.Errorf("%.100s is not read", one.accepted)
			}
			for what, text := range one.beyond {
				isRead := false
				spent := measured(func() { isRead = one.read(t, text) })
				if isRead {
					t.Errorf("%s: it is read: %.100s", what, text)
				}
				t.Logf("%s: %d bytes took %s and %d bytes", what, len(text), spent.time, spent.bytes)
				if spent.exceeds(len(text), constantCost, fuzz.RaceCost*constantTime) {
					t.Errorf("%s: %d bytes took %d bytes of memory and %s", what, len(text), spent.bytes, spent.time)
				}
			}
		})
	}
	checkLimitsPage(t, all)
}
