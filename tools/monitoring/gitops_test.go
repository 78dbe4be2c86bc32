package monitoring

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/itchyny/gojq"
	lua "github.com/yuin/gopher-lua"
	"sigs.k8s.io/yaml"
)

const (
	gitops          = "../../docs/gitops/"
	definitions     = "../../charts/mainstay/crds/*.yaml"
	healthKey       = "resource.customizations.health."
	injectedGoldens = "../../internal/kinds/instrumentation/injection/testdata/*.yaml"
)

// files returns the files of a pattern, of which there must be several.
func files(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) < 2 {
		t.Fatalf("%s: %d files, %v", pattern, len(found), err)
	}
	return found
}

// kinds returns our kinds as group_Kind, except those of records, which are not a public API.
func kinds(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, file := range files(t, definitions) {
		var definition struct {
			Spec struct {
				Group string
				Names struct{ Kind string }
			}
		}
		read(t, file, &definition)
		if definition.Spec.Group != "records.mainstay.dev" {
			found = append(found, definition.Spec.Group+"_"+definition.Spec.Names.Kind)
		}
	}
	slices.Sort(found)
	return found
}

// healthScript returns the health check of all kinds.
func healthScript(t *testing.T) string {
	t.Helper()
	var patch struct{ Data map[string]string }
	read(t, gitops+"argocd-cm.yaml", &patch)
	var have []string
	for key, script := range patch.Data {
		have = append(have, strings.TrimPrefix(key, healthKey))
		if script != patch.Data[healthKey+"apps.mainstay.dev_WebApp"] {
			t.Errorf("%s has a script of its own", key)
		}
	}
	slices.Sort(have)
	if want := kinds(t); !slices.Equal(have, want) {
		t.Errorf("there are health checks of %q, want %q", have, want)
	}
	return patch.Data[healthKey+"apps.mainstay.dev_WebApp"]
}

// health evaluates a script as Argo CD does: with the libraries base, table and package only, and
// for at most a second.
func health(t *testing.T, script string, object any) (status, message string) {
	t.Helper()
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for name, open := range map[string]lua.LGFunction{
		lua.LoadLibName: lua.OpenPackage, lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable,
	} {
		if err := state.CallByParam(lua.P{Fn: state.NewFunction(open), Protect: true}, lua.LString(name)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	state.SetContext(ctx)
	state.SetGlobal("obj", toLua(state, object))
	if err := state.DoString(script); err != nil {
		t.Fatal(err)
	}
	result, isTable := state.Get(-1).(*lua.LTable)
	if !isTable {
		t.Fatalf("the script returns %s", state.Get(-1))
	}
	return lua.LVAsString(result.RawGetString("status")), lua.LVAsString(result.RawGetString("message"))
}

// toLua converts a value that was read from JSON.
func toLua(state *lua.LState, value any) lua.LValue {
	switch value := value.(type) {
	case bool:
		return lua.LBool(value)
	case float64:
		return lua.LNumber(value)
	case string:
		return lua.LString(value)
	case []any:
		table := state.NewTable()
		for _, item := range value {
			table.Append(toLua(state, item))
		}
		return table
	case map[string]any:
		table := state.NewTable()
		for key, item := range value {
			table.RawSetString(key, toLua(state, item))
		}
		return table
	}
	return lua.LNil
}

// TestHealth: the rows of the table in docs/gitops.md, each with a status as our controllers write
// it.
func TestHealth(t *testing.T) {
	script := healthScript(t)
	for name, test := range map[string]struct {
		// generation is the status's; that of the object is 2. conditions are "Type=Status Reason".
		generation float64
		conditions []string
		want       string
	}{
		"new":                       {-1, nil, "Progressing waiting until Mainstay has seen this generation"},
		"changed":                   {1, []string{"Ready=True Available"}, "Progressing waiting until Mainstay has seen this generation"},
		"without conditions":        {2, nil, "Progressing waiting until Mainstay has seen this generation"},
		"without Ready":             {2, []string{"Degraded=False Healthy"}, "Progressing waiting until Mainstay has seen this generation"},
		"ready":                     {2, []string{"Degraded=False Healthy", "Paused=False Active", "Ready=True Available"}, "Healthy Ready: Available"},
		"ready, a Secret missing":   {2, []string{"Degraded=True SecretMissing", "Ready=True UpToDate"}, "Healthy Ready: UpToDate"},
		"rolling out":               {2, []string{"Degraded=False Healthy", "Progressing=True Deploying", "Ready=False Deploying"}, "Progressing Ready: Deploying"},
		"rolling out with problems": {2, []string{"Degraded=True CrashLoop", "Progressing=True CrashLoop", "Ready=False CrashLoop"}, "Progressing Ready: CrashLoop"},
		"failed":                    {2, []string{"Degraded=True Flapping", "Progressing=False Settled", "Ready=False Flapping"}, "Degraded Ready: Flapping"},
		"stalled":                   {2, []string{"Degraded=True RolloutFailed", "Progressing=True RolloutFailed", "Ready=False RolloutFailed", "Stalled=True RolloutFailed"}, "Degraded Ready: RolloutFailed"},
		"an invalid policy":         {2, []string{"Ready=False InvalidSpec", "Stalled=True InvalidSpec"}, "Degraded Ready: InvalidSpec"},
		"writes fail":               {2, []string{"Degraded=False Healthy", "Ready=Unknown ReconcileFailed"}, "Progressing Ready: ReconcileFailed"},
		"paused":                    {2, []string{"Degraded=False Healthy", "Paused=True PausedByUser", "Ready=True Available"}, "Suspended Paused: PausedByUser"},
		"paused, a change withheld": {2, []string{"Degraded=False Healthy", "Paused=True PausedByUser", "Ready=False PausedByUser"}, "Suspended Ready: PausedByUser"},
		"suspending":                {2, []string{"Degraded=False Healthy", "Progressing=True Suspending", "Ready=False Suspending"}, "Progressing Ready: Suspending"},
		"suspended":                 {2, []string{"Degraded=False Healthy", "Progressing=False Suspended", "Ready=False Suspended", "Suspended=True Suspended"}, "Suspended Ready: Suspended"},
		"paused and crashing":       {2, []string{"Degraded=True CrashLoop", "Paused=True PausedByUser", "Ready=False CrashLoop"}, "Degraded Ready: CrashLoop"},
		"hibernated":                {2, []string{"Degraded=False Healthy", "Progressing=False Settled", "Ready=False Hibernated"}, "Suspended Ready: Hibernated"},
		"awaiting approval":         {2, []string{"Degraded=False Healthy", "Ready=False AwaitingApproval"}, "Suspended Ready: AwaitingApproval"},
	} {
		var conditions []any
		for _, text := range test.conditions {
			condition, reason, _ := strings.Cut(text, " ")
			kind, status, _ := strings.Cut(condition, "=")
			conditions = append(conditions, map[string]any{"type": kind, "status": status, "reason": reason, "message": kind + ": " + reason})
		}
		status := map[string]any{"observedGeneration": test.generation}
		if conditions != nil {
			status["conditions"] = conditions
		}
		object := map[string]any{"metadata": map[string]any{"generation": 2.0}, "status": status}
		if status, message := health(t, script, object); status+" "+message != test.want {
			t.Errorf("%s: %s %s, want %s", name, status, message, test.want)
		}
	}
	if status, _ := health(t, script, map[string]any{"metadata": map[string]any{"generation": 1.0}}); status != "Progressing" {
		t.Errorf("without a status: %s", status)
	}
}

// waitsForOthers are reasons for which objects wait, and which neither a user nor the clock ends:
// for these, Progressing is right.
var waitsForOthers = []string{"RouteAPIMissing", "RouteNotAccepted", "WaitingForBinding"}

// TestReasonsOfTheHealthCheck: the script names reasons that our controllers use, and all for which
// an object of some kind waits until a user or the clock continues.
func TestReasonsOfTheHealthCheck(t *testing.T) {
	_, rest, _ := strings.Cut(healthScript(t), "local suspended = {")
	list, _, _ := strings.Cut(rest, "}")
	var declared strings.Builder
	for _, file := range files(t, "../../api/*/*/*_conditions.go") {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		declared.Write(content)
	}
	named := regexp.MustCompile(`(\w+) = true`).FindAllStringSubmatch(list, -1)
	if len(named) < 3 {
		t.Fatalf("only %d reasons were found in %q", len(named), list)
	}
	for _, reason := range named {
		if !strings.Contains(declared.String(), `= "`+reason[1]+`"`) {
			t.Errorf("no kind has the reason %s", reason[1])
		}
	}
	page, err := os.ReadFile("../../docs/gitops.md")
	if err != nil {
		t.Fatal(err)
	}
	waits := regexp.MustCompile(`summary\.Waiting, \w+\.Reason(\w+)`)
	for _, file := range files(t, "../../internal/kinds/*/*.go") {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, reason := range waits.FindAllStringSubmatch(string(content), -1) {
			isSuspended := strings.Contains(list, reason[1]+" = true") && strings.Contains(string(page), "`"+reason[1]+"`")
			if isSuspended == slices.Contains(waitsForOthers, reason[1]) {
				t.Errorf("%s: an object waits for the reason %s; it is suspended in argocd-cm.yaml and in gitops.md: %t", file, reason[1], isSuspended)
			}
		}
	}
}

// ignored returns, by group and kind, a function that removes what the Application ignores, as
// Argo CD does.
func ignored(t *testing.T) map[string]func(object any) any {
	t.Helper()
	var application struct {
		Spec struct {
			IgnoreDifferences []struct {
				Group, Kind       string
				JQPathExpressions []string `json:"jqPathExpressions"`
			}
		}
	}
	read(t, gitops+"argocd-application.yaml", &application)
	all := map[string]func(any) any{}
	for _, entry := range application.Spec.IgnoreDifferences {
		var queries []*gojq.Query
		for _, path := range entry.JQPathExpressions {
			query, err := gojq.Parse("del(" + path + ")")
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			queries = append(queries, query)
		}
		all[entry.Group+"_"+entry.Kind] = func(object any) any {
			for _, query := range queries {
				next, _ := query.Run(object).Next()
				if err, failed := next.(error); failed {
					t.Errorf("%s: %v", query, err)
					return nil
				}
				object = next
			}
			return object
		}
	}
	return all
}

// TestIgnoredInjection: no part of any injected agent is left that could differ from the file, and
// nothing of the owner's is ignored except the loader variables.
func TestIgnoredInjection(t *testing.T) {
	all := ignored(t)
	for _, kind := range []string{"Deployment", "StatefulSet", "DaemonSet"} {
		for _, file := range files(t, injectedGoldens) {
			var template any
			read(t, file, &template)
			left, err := json.Marshal(all["apps_"+kind](map[string]any{"spec": map[string]any{"template": template}}))
			if err != nil {
				t.Fatal(err)
			}
			for _, part := range []string{"mainstay-agent-", "instrumentation.mainstay.dev", "JAVA_TOOL_OPTIONS", "PYTHONPATH", "MAINSTAY_"} {
				if strings.Contains(string(left), part) {
					t.Errorf("%s %s: %s is left in %s", kind, filepath.Base(file), part, left)
				}
			}
			for _, own := range []string{`"name":"app"`, `"name":"other"`, `{"name":"LOG","value":"owner"}`, `"runAsUser":10001`} {
				if !strings.Contains(string(left), own) {
					t.Errorf("%s %s: %s is ignored", kind, filepath.Base(file), own)
				}
			}
		}
	}
}

// TestIgnoredPolicy: a WebApp that a policy changed equals its file.
func TestIgnoredPolicy(t *testing.T) {
	ignore := ignored(t)["apps.mainstay.dev_WebApp"]
	var file, live any
	for text, into := range map[string]*any{
		`{spec: {image: shop:1, securityProfile: Default, sidecars: [{name: proxy}], resources: {limits: {cpu: 1}}}}`: &file,
		`{spec: {image: shop:1, securityProfile: Restricted, securityContext: {runAsUser: 1000},
			sidecars: [{name: proxy, securityContext: {runAsUser: 1000}, resources: {limits: {cpu: 1}}}], resources: {limits: {cpu: 1}}}}`: &live,
	} {
		if err := yaml.Unmarshal([]byte(strings.ReplaceAll(text, "\n\t\t\t", " ")), into); err != nil {
			t.Fatal(err)
		}
	}
	before, err := json.Marshal(ignore(file))
	if err != nil {
		t.Fatal(err)
	}
	after, err := json.Marshal(ignore(live))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"spec":{"image":"shop:1","resources":{"limits":{"cpu":1}},"sidecars":[{"name":"proxy"}]}}`
	if string(before) != want || string(after) != want {
		t.Errorf("compared are\n%s\n%s\nwant %s", before, after, want)
	}
}

// TestFlux: the Kustomization waits for kinds of ours.
func TestFlux(t *testing.T) {
	var kustomization struct {
		Spec struct {
			HealthChecks []struct {
				APIVersion string `json:"apiVersion"`
				Kind       string
			}
		}
	}
	read(t, gitops+"flux-kustomization.yaml", &kustomization)
	waits := map[string]bool{}
	for _, check := range kustomization.Spec.HealthChecks {
		group, _, _ := strings.Cut(check.APIVersion, "/")
		waits[group+"_"+check.Kind] = true
	}
	if len(waits) < 2 {
		t.Errorf("it waits for %v", waits)
	}
	for kind := range waits {
		if !slices.Contains(kinds(t), kind) {
			t.Errorf("%s is no kind of ours", kind)
		}
	}
}
