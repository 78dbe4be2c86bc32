package setup

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	"github.com/mainstay-platform/mainstay/internal/kit/admission"
	"github.com/mainstay-platform/mainstay/internal/registration"
	"github.com/mainstay-platform/mainstay/test/fuzz"
)

// longText is the length of a list or map that is far longer than a schema allows, in bytes.
const longText = 256 << 10

// spot is a list or a map of a type: the path to it, with [] for the first item of a list, and a
// long text of it.
type spot struct {
	path []string
	text string
}

// walked are parts of the paths of the packages whose types are walked: our own, those of
// Kubernetes, and those of the metadata.
var walked = []string{"/mainstay/api/", "k8s.io/api/", "k8s.io/apimachinery/pkg/apis/meta/"}

// spotsOf returns the lists and maps of a type, below those of its fields whose types are walked,
// each of them once: seen has those that were.
func spotsOf(of reflect.Type, path []string, seen map[reflect.Type]bool) []spot {
	below := func(step string) []string { return append(slices.Clone(path), step) }
	switch of.Kind() { //nolint:exhaustive // others have no items
	case reflect.Pointer:
		return spotsOf(of.Elem(), path, seen)
	case reflect.Slice:
		if of.Elem().Kind() == reflect.Uint8 {
			return nil
		}
		long := longOf("[", "]", func(number int) string { return itemOf(of.Elem(), number) })
		return append([]spot{{path, long}}, spotsOf(of.Elem(), below("[]"), seen)...)
	case reflect.Map:
		return []spot{{path, longOf("{", "}", func(number int) string { return fmt.Sprintf(`"key-%06d":%s`, number, valueOf(of.Elem(), "value")) })}}
	case reflect.Struct:
		var found []spot
		if seen[of] {
			return nil
		}
		seen[of] = true
		for field := range of.Fields() {
			if slices.ContainsFunc(walked, func(part string) bool { return strings.Contains(of.PkgPath(), part) }) {
				name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
				if name == "" {
					found = append(found, spotsOf(field.Type, path, seen)...)
				} else {
					found = append(found, spotsOf(field.Type, below(name), seen)...)
				}
			}
		}
		return found
	}
	return nil
}

// itemOf returns an item of a list: a struct with one text, that of its name if it has one.
func itemOf(of reflect.Type, number int) string {
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	text := fmt.Sprintf("name-%06d", number)
	if of.Kind() != reflect.Struct {
		return valueOf(of, text)
	}
	named := ""
	for field := range of.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.Type.Kind() == reflect.String && name != "" && (named == "" || name == "name") {
			named = name
		}
	}
	if named == "" {
		return `{"no":"` + text + `"}`
	}
	return `{"` + named + `":"` + text + `"}`
}

// valueOf returns a value of a type; of a string the text.
func valueOf(of reflect.Type, text string) string {
	switch of.Kind() { //nolint:exhaustive // null is a value of all others
	case reflect.String:
		return `"` + text + `"`
	case reflect.Int32, reflect.Int64:
		return "10"
	case reflect.Bool:
		return "true"
	}
	return "null"
}

// longOf returns a list or a map with as many items as make it long.
func longOf(before, after string, item func(number int) string) string {
	var text strings.Builder
	text.WriteString(before + item(0))
	for number := 1; text.Len() < longText; number++ {
		text.WriteString("," + item(number))
	}
	return text.String() + after
}

// put returns a value with another one at a path in it. It makes what leads there.
func put(in any, path []string, value any) any {
	if len(path) == 0 {
		return value
	}
	if path[0] == "[]" {
		list, _ := in.([]any)
		if len(list) == 0 {
			list = []any{map[string]any{"name": "first"}}
		}
		list[0] = put(list[0], path[1:], value)
		return list
	}
	fields, isObject := in.(map[string]any)
	if !isObject {
		fields = map[string]any{}
	}
	fields[path[0]] = put(fields[path[0]], path[1:], value)
	return fields
}

// samples returns a valid object of each kind, in the namespace shop.
func samples(t *testing.T) map[string]map[string]any {
	t.Helper()
	found := map[string]map[string]any{
		"Deployment": {"metadata": map[string]any{"name": "web"}, "spec": map[string]any{
			"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "app"}}}}}},
	}
	for _, pattern := range []string{"../../config/samples/*.yaml", "../../config/samples/*/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			content, err := os.ReadFile(file) //nolint:gosec // a file of this repository
			if err != nil {
				t.Fatal(err)
			}
			for document := range strings.SplitSeq(string(content), "\n---\n") {
				var object map[string]any
				if err := yaml.Unmarshal([]byte(document), &object); err != nil {
					t.Fatal(err)
				}
				if kind, isNamed := object["kind"].(string); isNamed {
					found[kind] = put(object, []string{"metadata", "namespace"}, "shop").(map[string]any)
				}
			}
		}
	}
	return found
}

// TestLongLists sends every webhook objects of its kinds in which one list or map is far longer
// than the schema allows, for each that their types have, each type once, and some of a
// Deployment. Everybody in the cluster can send them, and the API server calls mutating webhooks
// before it counts items. The answer costs memory in proportion to the length, and time in
// proportion to what it takes to parse it: the object is copied, compared and refused, so that it
// costs more than what is only read.
func TestLongLists(t *testing.T) {
	if fuzz.RaceCost > 1 {
		t.Skip("with the race detector it takes minutes: the layer pure runs it without")
	}
	// What is quadratic took 4 s and more.
	const mostTime, constantTime = 40, time.Second
	scheme, err := Scheme()
	if err != nil {
		t.Fatal(err)
	}
	cluster := fake.NewClientBuilder().WithScheme(scheme).WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}).Build()
	in := registration.Input{
		Manager: someManager{scheme: scheme, client: cluster}, Kinds: kinds(), Rules: strictRules, Reviewing: cluster, Version: &version.Info{},
	}
	all := samples(t)
	try := func(kind, path, text string, hooks []admission.Hook) {
		body := `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","namespace":"shop","operation":"UPDATE",` +
			`"kind":{"group":"apps","version":"v1","kind":"Deployment"},"resource":{"group":"apps","version":"v1","resource":"deployments"},` +
			`"options":{"fieldManager":"mainstay/instrumentation"},"object":` + text + `,"oldObject":{"metadata":{"name":"web"}}}}`
		parsing := measured(func() {
			var parsed any
			if err := json.Unmarshal([]byte(body), &parsed); err != nil {
				t.Fatal(err)
			}
		})
		for _, hook := range hooks {
			spent := measured(func() { post(t, hook.Handler, body) })
			if isTooMuch(spent, body) || spent.time > constantTime+mostTime*parsing.time {
				t.Errorf("%s of a %s: %d bytes at %s took %d bytes of memory and %s, and %s to be parsed", hook.Path, kind, len(body), path,
					spent.bytes, spent.time, parsing.time)
			}
		}
	}
	for _, kind := range kinds() {
		spots := spotsOf(reflect.TypeOf(kind.Object), nil, map[reflect.Type]bool{})
		if len(spots) < 3 || all[kind.GroupKind.Kind] == nil {
			t.Errorf("%s: %d lists, sample %v", kind.GroupKind.Kind, len(spots), all[kind.GroupKind.Kind])
		}
		for _, one := range spots {
			if one.path[0] != "status" {
				path := strings.Join(one.path, ".")
				try(kind.GroupKind.Kind, path, with(t, all[kind.GroupKind.Kind], one.path, one.text), kind.Hooks(in))
			}
		}
	}
	tryMixed(t, all["WebApp"], func(path, text string) {
		try("WebApp", path, text, kindOf(t, "WebApp").Hooks(in))
	})
	hooks := wiring{Input: in}.hooks()
	grants := longOf("{", "}", func(number int) string {
		return fmt.Sprintf(`"agent-%06d.instrumentation.mainstay.dev/granted":"r 2026-11-21T08:00:00Z 1"`, number)
	})
	try("Deployment", "metadata.annotations", with(t, all["Deployment"], []string{"metadata", "annotations"}, grants), hooks)
	pod := []string{"spec", "template", "spec"}
	containers := longOf("[", "]", func(number int) string { return itemOf(reflect.TypeFor[corev1.Container](), number) })
	for _, list := range [][]string{{"containers"}, {"initContainers"}, {"volumes"}, {"tolerations"}, {"containers", "[]", "env"}} {
		path := slices.Concat(pod, list)
		try("Deployment", strings.Join(path, "."), with(t, all["Deployment"], path, containers), hooks)
	}
}

// kindOf returns a kind by its name.
func kindOf(t *testing.T, name string) registration.Kind {
	t.Helper()
	all := kinds()
	at := slices.IndexFunc(all, func(kind registration.Kind) bool { return kind.GroupKind.Kind == name })
	if at < 0 {
		t.Fatal("there is no kind " + name)
	}
	return all[at]
}

// tryMixed tries lists of a WebApp in which only each third item is one that a policy removes: each
// of them must not cost a look at all others.
func tryMixed(t *testing.T, sample map[string]any, try func(path, text string)) {
	t.Helper()
	third := func(odd, usual string) func(int) string {
		return func(number int) string {
			if number%3 == 0 {
				return odd
			}
			return usual
		}
	}
	for _, list := range []struct {
		path []string
		item func(int) string
	}{
		{[]string{"spec", "securityContext", "capabilities", "add"}, third(`""`, `"NET_BIND_SERVICE"`)},
		{[]string{"spec", "podSecurityContext", "sysctls"}, third(`{}`, `{"name":"net.ipv4.tcp_keepalive_probes"}`)},
	} {
		try(strings.Join(list.path, ".")+", mixed", with(t, sample, list.path, longOf("[", "]", list.item)))
	}
}

// isTooMuch reports whether a webhook's answer took more memory than what it was sent is worth, or
// minutes.
func isTooMuch(spent cost, body string) bool {
	const most = 400
	return spent.bytes > uint64(fuzz.RaceCost*(most*len(body)+constantCost)) || spent.time > fuzz.Longest
}

// with returns an object with a text at a path of it.
func with(t *testing.T, object map[string]any, path []string, text string) string {
	t.Helper()
	written, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	var copied any
	if err := json.Unmarshal(written, &copied); err != nil {
		t.Fatal(err)
	}
	if written, err = json.Marshal(put(copied, path, json.RawMessage(text))); err != nil {
		t.Fatal(err)
	}
	return string(written)
}
