package ecommerceplatform

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/test/golden"
)

// situations returns all cases that testdata has a file for, by the file's name: each environment,
// and each override.
func situations() map[string]change {
	return map[string]change{
		"development": in("dev"), "staging": in("staging"), "production": in("prod"),
		"defaults":    withFields(`{}`),
		"replicas":    withFields("environment: production\nfrontend: {replicas: 5}\nbackend: {replicas: 2}"),
		"autoscaling": withFields(`frontend: {autoscaling: {min: 2, max: 8, cpu: 70}}`),
		"ports-and-variables": withFields("frontend: {port: 3000, env: [{name: THEME, value: dark}, {name: BACKEND_URL, value: 'http://proxy'}]}\n" +
			"backend: {port: 9000, env: [{name: LOG_LEVEL, value: info}]}"),
		"resources":          withFields(`backend: {resources: {limits: {cpu: 4}}}`),
		"database":           withFields(`database: {version: '14', storage: 500Gi, storageClassName: fast, resources: {limits: {memory: 16Gi}}}`),
		"mysql":              withFields("environment: production\ndatabase: {type: mysql, version: '8.4'}"),
		"cache":              withFields(`cache: {memory: 2Gi, version: '8', resources: {requests: {cpu: 100m}}}`),
		"without-cache":      withoutCache,
		"without-monitoring": withoutMonitoring,
		"ingress":            withFields(`ingress: {host: shop.example.com, className: nginx, tlsSecretName: shop-tls}`),
		"route":              withFields(`ingress: {host: shop.example.com, route: {parentRefs: [{name: public, namespace: gateways}]}}`),
		"labels":             withFields(`labels: {team: commerce}`),
	}
}

// TestCompile pins what a platform is made of: a change of a component replaces the pods of all
// platforms at the next upgrade of Mainstay.
func TestCompile(t *testing.T) {
	files := []string{"rule.yaml", "dashboard.yaml"} // of TestMonitoring
	withMySQL := installation
	withMySQL.Types, withMySQL.Databases = append(slices.Clone(installation.Types), "mysql"), append(slices.Clone(installation.Databases), "14")
	for name, change := range situations() {
		t.Run(name, func(t *testing.T) {
			platform := admitted(change)
			if problems := append(Validate(platform, withMySQL), ValidateWithin(platform, nil, nil, withMySQL)...); len(problems) > 0 {
				t.Fatal(problems)
			}
			content, err := yaml.Marshal(Compile(platform, nil, installation))
			if err != nil {
				t.Fatal(err)
			}
			golden.Check(t, name+".yaml", content)
		})
		files = append(files, name+".yaml")
	}
	golden.CheckUnused(t, files)
}

// specOf returns the spec of a component as text.
func specOf(stack *platformv1.AppStack, name string) string {
	if c := componentOf(stack, name); c != nil {
		return string(c.Spec.Raw)
	}
	return ""
}

// TestCompileKeeps: what can't be taken back stays as it was made.
func TestCompileKeeps(t *testing.T) {
	first := made(admitted(in("staging")), nil)
	newer := installation
	newer.Databases, newer.Caches = []string{"17", "18"}, []string{"10", "9"}
	for want, stack := range map[string]*platformv1.AppStack{
		`"storage":"50Gi"`:  Compile(admitted(in("development")), first, newer),
		`"version":"17"`:    Compile(admitted(in("staging")), first, newer),
		`"version":"18"`:    Compile(admitted(in("staging")), nil, newer),
		`"storage":"100Gi"`: Compile(admitted(in("production")), first, newer),
		`"storage":"60Gi"`:  Compile(admitted(withFields("environment: staging\ndatabase: {storage: 60Gi}")), first, newer),

		`"storageClassName":"fast"`: Compile(admitted(), made(admitted(withFields("database: {storageClassName: fast}")), nil), newer),
	} {
		if got := specOf(stack, "db"); !strings.Contains(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	kept, chosen := specOf(Compile(admitted(), first, newer), "cache"), specOf(Compile(admitted(), nil, newer), "cache")
	if !strings.Contains(kept, `"version":"9"`) || !strings.Contains(chosen, `"version":"10"`) {
		t.Errorf("the cache is %s, of a new platform %s", kept, chosen)
	}
	goes := admitted(withFields(`cache: {version: '8', enabled: false}`))
	if got := specOf(Compile(goes, first, newer), "cache"); !strings.Contains(got, `"version":"9"`) {
		t.Errorf("while it goes, the cache is %s", got)
	}
	if again := Compile(admitted(in("staging")), first, installation); again.Spec.Components[0].Spec.Raw == nil ||
		specOf(again, "db") != specOf(first, "db") {
		t.Errorf("the second time it is %s, was %s", specOf(again, "db"), specOf(first, "db"))
	}
	foreign := made(admitted(), nil)
	foreign.Spec.Components[0].Spec.Raw = []byte(`{"storage":"x","version":1}`)
	if got := specOf(Compile(admitted(), foreign, installation), "db"); !strings.Contains(got, `"storage":"10Gi"`) {
		t.Errorf("a spec that can't be read is kept: %s", got)
	}
}

// TestCompileAfterTheStackIsDeleted: the volumes outlive an AppStack that someone deletes, and the
// next one can read them. A user may choose another version then, because the volumes may be gone.
func TestCompileAfterTheStackIsDeleted(t *testing.T) {
	newer := installation
	newer.Databases = []string{"17", "18"}
	platform := admitted(withFields("environment: staging\ndatabase: {storageClassName: fast}"))
	stack := made(platform, nil)
	platform.Status = Status(platform, with(platform, stack, plan.Ours), Decision{}, plan.Result{})
	platform.Status = Status(platform, with(platform, nil, plan.Absent), Decision{}, plan.Result{})
	platform.Spec.Environment, platform.Spec.Database.StorageClassName = "development", nil
	for _, want := range []string{`"version":"17"`, `"storage":"50Gi"`, `"storageClassName":"fast"`} {
		if got := specOf(Compile(platform, nil, newer), "db"); !strings.Contains(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	platform.Spec.Database.Version = "18"
	if problems := ValidateWithin(platform, nil, nil, newer); len(problems) > 0 {
		t.Error(problems)
	}
	if got := specOf(Compile(platform, nil, newer), "db"); !strings.Contains(got, `"version":"18"`) {
		t.Errorf("got %s", got)
	}
}

// TestEditedDatabase: what someone has edited of the database in the AppStack is put back, and what
// the platform says of it stays; but volumes that have grown do not shrink.
func TestEditedDatabase(t *testing.T) {
	platform := admitted(in("staging"))
	stack := made(platform, nil)
	platform.Status = Status(platform, with(platform, stack, plan.Ours), Decision{}, plan.Result{})
	edits := strings.NewReplacer(`"version":"17"`, `"version":"16"`, `"storage":"50Gi"`, `"storage":"80Gi","storageClassName":"slow"`)
	stack.Spec.Components[0].Spec.Raw = []byte(edits.Replace(specOf(stack, "db")))
	for _, version := range []string{"", "17"} {
		platform.Spec.Database.Version = version
		observed := with(platform, stack, plan.Ours)
		decided := Decide(platform, observed)
		if len(decided.Problems) > 0 {
			t.Fatalf("version %q: %v", version, decided.Problems)
		}
		got := specOf(decided.Stack, "db")
		if !strings.Contains(got, `"version":"17"`) || !strings.Contains(got, `"storage":"80Gi"`) || strings.Contains(got, "slow") {
			t.Errorf("version %q: got %s", version, got)
		}
		status := Status(platform, observed, decided, plan.Result{}).Database
		if status.Version != "17" || status.Storage != "80Gi" || status.StorageClassName != nil {
			t.Errorf("version %q: the status says %+v", version, status)
		}
	}
	stack.Spec.Components[0].Spec.Raw = []byte(`{"storage":"x"}`)
	observed := with(platform, stack, plan.Ours)
	status := Status(platform, observed, Decide(platform, observed), plan.Result{}).Database
	if status.Version != "17" || status.Storage != "50Gi" {
		t.Errorf("of what can't be read, the status says %+v", status)
	}
}

// TestDatabaseMadeAnew: an AppStack that was deleted, and made anew with another version and class,
// is valid before the status has them.
func TestDatabaseMadeAnew(t *testing.T) {
	platform := admitted(in("staging"))
	platform.Status = Status(platform, with(platform, made(platform, nil), plan.Ours), Decision{}, plan.Result{})
	platform.Spec.Database.Version, platform.Spec.Database.StorageClassName = "16", new("fast")
	observed := with(platform, made(platform, nil), plan.Ours)
	decided := Decide(platform, observed)
	if len(decided.Problems) > 0 {
		t.Fatal(decided.Problems)
	}
	status := Status(platform, observed, decided, plan.Result{}).Database
	if status.Version != "16" || ptr.Deref(status.StorageClassName, "") != "fast" {
		t.Errorf("the status says %+v", status)
	}
}

// TestCacheGoesLast: a cache that is disabled stays until the backend runs without it.
func TestCacheGoesLast(t *testing.T) {
	disabled := admitted(withoutCache)
	has := func(stack *platformv1.AppStack) string {
		text := ""
		if componentOf(stack, "cache") != nil {
			text = "cache"
		}
		if strings.Contains(specOf(stack, "backend"), "shop-cache") {
			text += " bound"
		}
		return text
	}
	ready := func(stack *platformv1.AppStack, phase platformv1.ComponentPhase) *platformv1.AppStack {
		stack.Status = platformv1.AppStackStatus{ObservedGeneration: stack.Generation,
			Components: []platformv1.ComponentStatus{{Name: "backend", Phase: phase}}}
		return stack
	}
	first := ready(made(admitted(), nil), platformv1.ComponentReady)
	if got := has(first); got != "cache bound" {
		t.Fatalf("at first there is %q", got)
	}
	second := made(disabled, first)
	second.Generation = 2
	second.Status = first.Status
	if got := has(second); got != "cache" {
		t.Errorf("with the backend that uses it there is %q", got)
	}
	if got := has(Compile(disabled, second, installation)); got != "cache" {
		t.Errorf("before the stack has reported there is %q", got)
	}
	if got := has(Compile(disabled, ready(second, platformv1.ComponentProgressing), installation)); got != "cache" {
		t.Errorf("while the backend is rolled out there is %q", got)
	}
	if got := has(Compile(disabled, ready(second, platformv1.ComponentReady), installation)); got != "" {
		t.Errorf("once it runs without it there is %q", got)
	}
	if got := has(Compile(disabled, nil, installation)); got != "" {
		t.Errorf("of a new platform there is %q", got)
	}
	off := installation
	off.Types = slices.DeleteFunc(slices.Clone(installation.Types), func(one string) bool { return one == cacheType })
	if got := has(Compile(disabled, second, off)); got != "" {
		t.Errorf("with the kind Cache off there is %q, which is refused", got)
	}
}

// TestEndpoints: the most public address of the frontend, and that of the backend.
func TestEndpoints(t *testing.T) {
	for want, fields := range map[string]string{
		"http://shop-frontend.web.svc:8080 http://shop-backend.web.svc:8080": `{}`,
		"https://a.example.com/ http://shop-backend.web.svc:8080":            `ingress: {host: a.example.com, tlsSecretName: tls}`,
		"http://a.example.com/ http://shop-backend.web.svc:8080":             `ingress: {host: a.example.com}`,
		"http://shop-frontend.web.svc:8080 http://shop-backend.web.svc:9000": "ingress: {host: '*.example.com', tlsSecretName: tls}\nbackend: {port: 9000}",
	} {
		all := endpoints(admitted(withFields(fields)))
		if got := all[0].URL + " " + all[1].URL; got != want || all[0].Name != "frontend" {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestSpecsAreObjects: what is compiled is JSON that an AppStack takes.
func TestSpecsAreObjects(t *testing.T) {
	for _, c := range Compile(admitted(), nil, installation).Spec.Components {
		var spec map[string]any
		if err := json.Unmarshal(c.Spec.Raw, &spec); err != nil || len(spec) == 0 {
			t.Errorf("%s: %v", c.Name, err)
		}
	}
}
