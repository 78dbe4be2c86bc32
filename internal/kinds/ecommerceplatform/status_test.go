package ecommerceplatform

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// reporting returns the AppStack of a platform with a status.
func reporting(platform *platformv1.EcommercePlatform, phase platformv1.AppStackPhase, conditions []metav1.Condition,
	components ...platformv1.ComponentStatus) *platformv1.AppStack {
	stack := made(platform, nil)
	stack.Status = platformv1.AppStackStatus{ObservedGeneration: stack.Generation, Phase: phase, Conditions: conditions,
		Components: components}
	return stack
}

func said(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

func part(name string, phase platformv1.ComponentPhase, reason, message string) platformv1.ComponentStatus {
	return platformv1.ComponentStatus{Name: name, Kind: "K", Object: "shop-" + name, Phase: phase, Reason: reason, Message: message}
}

// situation is a row of the tables of the summary and the phase.
type situation struct {
	platform *platformv1.EcommercePlatform
	observed Observed
	result   plan.Result
	phase    string
	// ready is "Status Reason: message", of which the message may be the beginning.
	ready string
	// stalled reports whether Stalled is True.
	stalled bool
}

func statuses() map[string]situation {
	platform := admitted(in("production"))
	going := admitted()
	going.DeletionTimestamp = &metav1.Time{}
	working := []metav1.Condition{said("Ready", "True", "Available", "4 of 4 components are ready")}
	failed := []metav1.Condition{said("Ready", "False", "ComponentFailed", "component db"), said("Degraded", "True", "ComponentFailed", "")}
	refused := append(failed[:0:0], said("Ready", "False", "InvalidSpec", "spec.components[2].spec.image: no"), said("Stalled", "True", "InvalidSpec", ""))
	under := []metav1.Condition{said("Ready", "False", "Deploying", "under way: db; waiting: backend")}
	stale := reporting(platform, "Running", working)
	stale.Generation++
	mysql := admitted(withFields(`database: {type: mysql}`))
	contradicted := with(platform, nil, plan.Absent)
	contradicted.Namespace = map[string]string{"mainstay.dev/environment": "staging"}
	observes := func(stack *platformv1.AppStack) Observed { return with(platform, stack, plan.Ours) }
	return map[string]situation{
		"new": {platform, with(platform, nil, plan.Absent), plan.Result{}, "Pending",
			"False StackNotReported: waiting for the AppStack", false},
		"stale":   {platform, observes(stale), plan.Result{}, "Deploying", "False StackNotReported", false},
		"changed": {platform, observes(reporting(platform, "Running", working)), plan.Result{Changes: []plan.Change{{Ref: Ref(platform)}}}, "Deploying", "False StackNotReported", false},
		"running": {platform, observes(reporting(platform, "Running", working)), plan.Result{}, "Running", "True Available: 4 of 4", false},
		"under way": {platform, observes(reporting(platform, "Deploying", under)), plan.Result{}, "Deploying",
			"False Deploying: under way: db; waiting: backend", false},
		"paused": {platform, observes(reporting(platform, "Paused", []metav1.Condition{said("Ready", "False", "PausedByUser", "paused")})),
			plan.Result{}, "Paused", "False PausedByUser", false},
		"a part failed": {platform, observes(reporting(platform, "Degraded", failed, part("db", "Failed", "Unschedulable", "0/3 nodes"),
			part("cache", "Failed", "CrashLoop", ""), part("backend", "Waiting", "Waiting", "waits"))), plan.Result{}, "Degraded",
			"False ComponentFailed: Database deployment failed: 0/3 nodes; Cache deployment failed: CrashLoop", false},
		"the stack is refused": {platform, observes(reporting(platform, "Failed", refused)), plan.Result{}, "Failed",
			"False InvalidSpec: spec.backend.image: no", true},
		"a write is refused": {platform, with(platform, nil, plan.Absent), plan.Result{Failure: &plan.Failure{Reason: "Refused",
			Message: "spec.components[3].spec.image: no"}}, "Failed", "False Refused: spec.frontend.image: no", false},
		"an invalid spec": {mysql, with(mysql, reporting(platform, "Running", working), plan.Ours),
			plan.Result{Failure: &plan.Failure{Reason: "InvalidSpec", Message: "spec.database.type: no", Stalled: true}}, "Degraded",
			"False InvalidSpec: spec.database.type: no", true},
		"the namespace contradicts it": {platform, contradicted, plan.Result{}, "Failed",
			`False InvalidSpec: spec.environment: Invalid value: "production": must be staging`, true},
		"a foreign stack": {platform, with(platform, made(platform, nil), plan.Foreign), plan.Result{Conflicts: []plan.Ref{Ref(platform)}}, "Failed",
			"False Conflict: AppStack web/shop exists", true},
		"a foreign rule": {platform, observes(reporting(platform, "Running", working)), plan.Result{Conflicts: []plan.Ref{ruleRef(platform)}},
			"Running", "True Available: 4 of 4", false},
		"a contested rule": {platform, observes(reporting(platform, "Running", working)), plan.Result{
			SlowedChildren: []plan.Contest{{Ref: ruleRef(platform)}}, Failure: &plan.Failure{Reason: "Contested"}},
			"Running", "True Available", false},
		"deleting": {going, with(going, reporting(going, "Deleting", under, part("db", "Deleting", "Deleting", "")), plan.Ours), plan.Result{},
			"Deleting", "False Deleting: the parts are being deleted, in reverse order: db", false},
	}
}

func TestStatus(t *testing.T) {
	for name, test := range statuses() {
		decided := Decide(test.platform, test.observed)
		status := Status(test.platform, test.observed, decided, test.result)
		if string(status.Phase) != test.phase {
			t.Errorf("%s: phase %s, want %s", name, status.Phase, test.phase)
		}
		ready := status.Conditions[0]
		if got := string(ready.Status) + " " + ready.Reason + ": " + ready.Message; !strings.HasPrefix(got, test.ready) {
			t.Errorf("%s: got  %s\nwant %s", name, got, test.ready)
		}
		stalled := slices.ContainsFunc(status.Conditions, func(one metav1.Condition) bool { return one.Type == "Stalled" })
		if stalled != test.stalled || status.ObservedGeneration != 3 {
			t.Errorf("%s: stalled is %t, observedGeneration %d", name, stalled, status.ObservedGeneration)
		}
	}
}

// TestComponents: each part has the issue's own message, and those that are not reported are there.
func TestComponents(t *testing.T) {
	platform := admitted(in("production"))
	const root = "container has runAsNonRoot and image will run as root"
	stack := reporting(platform, "Degraded", nil, part("db", "Ready", "Available", ""), part("backend", "Failed", "ImagePullFailed", "not found"),
		part("frontend", "Failed", "ContainerConfigError", root), part("Cache/cache", "Deleting", "Deleting", "is being deleted"))
	observed := with(platform, stack, plan.Ours)
	var got []string
	status := Status(platform, observed, Decide(platform, observed), plan.Result{})
	for _, one := range status.Components {
		got = append(got, one.Name+" "+string(one.Phase)+" "+one.Message)
	}
	want := []string{
		"db Ready ", "backend Failed Backend deployment failed: not found",
		"frontend Failed Frontend deployment failed: " + root +
			" (environment production allows no container to run as root: build the image with USER set to the number of another user)",
		"Cache/cache Deleting is being deleted", "cache Waiting ",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if status.ComponentSummary != "1/4" || status.Environment != "production" {
		t.Errorf("got %s of %s", status.ComponentSummary, status.Environment)
	}
	added := reporting(platform, "Degraded", nil, part("worker", "Ready", "Available", ""), part("db", "Ready", "Available", ""))
	observed = with(platform, added, plan.Ours)
	status = Status(platform, observed, Decide(platform, observed), plan.Result{})
	if status.ComponentSummary != "1/4" || status.Components[0].Name != "db" {
		t.Errorf("with an added component: %s, %+v", status.ComponentSummary, status.Components)
	}
	route := reporting(platform, "Deploying", nil, part("frontend", "Progressing", "RouteNotAccepted", "no Gateway"))
	observed = with(platform, route, plan.Ours)
	if got := Status(platform, observed, Decide(platform, observed), plan.Result{}).Components[0].Message; got != "Ingress setup failed: no Gateway" {
		t.Errorf("of a route: %s", got)
	}
}

// TestBackupHealthy: it says that nothing is backed up where the environment has backups, and Ready
// does not depend on it.
func TestBackupHealthy(t *testing.T) {
	working := said("Ready", "True", "Available", "4 of 4 components are ready")
	for environment, want := range map[string]string{
		"production": "BackupUnavailable: the environment production has daily backups, but", "staging": "BackupUnavailable", "development": "",
	} {
		platform := admitted(in(environment))
		observed := with(platform, reporting(platform, "Running", []metav1.Condition{working}), plan.Ours)
		status := Status(platform, observed, Decide(platform, observed), plan.Result{})
		if ready := status.Conditions[0]; ready.Status != metav1.ConditionTrue {
			t.Errorf("%s: Ready is %s: %s", environment, ready.Status, ready.Message)
		}
		got := ""
		if one := meta.FindStatusCondition(status.Conditions, "BackupHealthy"); one != nil && one.Status == metav1.ConditionFalse {
			got = one.Reason + ": " + one.Message
		}
		if !strings.HasPrefix(got, want) || (got == "") != (want == "") {
			t.Errorf("%s: got %q, want %q", environment, got, want)
		}
	}
}

// TestDesired walks the table of Decide.
func TestDesired(t *testing.T) {
	platform, going, orphaning := admitted(), admitted(), admitted()
	going.DeletionTimestamp, orphaning.DeletionTimestamp = &metav1.Time{}, &metav1.Time{}
	orphaning.Finalizers = []string{metav1.FinalizerOrphanDependents}
	invalid := admitted(in("live"))
	stack := made(platform, nil)
	contradicted := with(platform, stack, plan.Ours)
	contradicted.Namespace = map[string]string{"mainstay.dev/environment": "staging"}
	for name, test := range map[string]struct {
		platform                *platformv1.EcommercePlatform
		observed                Observed
		applies, keeps, release bool
	}{
		"new":                 {platform, with(platform, nil, plan.Absent), true, false, true},
		"running":             {platform, with(platform, stack, plan.Ours), true, false, false},
		"invalid":             {invalid, with(invalid, stack, plan.Ours), false, true, false},
		"contradicted":        {platform, contradicted, false, true, false},
		"going":               {going, with(going, stack, plan.Ours), false, false, false},
		"gone":                {going, with(going, nil, plan.Absent), false, false, true},
		"orphaning":           {orphaning, with(orphaning, stack, plan.Ours), false, true, true},
		"a foreign one stays": {going, with(going, stack, plan.Foreign), false, false, true},
	} {
		decided := Decide(test.platform, test.observed)
		wanted := Desired(test.platform, decided)
		if len(wanted.Children) > 0 != test.applies || len(wanted.Keep) > 0 != test.keeps {
			t.Errorf("%s: %d children, keeps %v", name, len(wanted.Children), wanted.Keep)
		}
		if got := Released(test.platform, test.observed); got != test.release {
			t.Errorf("%s: released is %t", name, got)
		}
	}
}

// TestWarnOfChange: what follows from another environment is named, with both values.
func TestWarnOfChange(t *testing.T) {
	before, existing := admitted(in("staging")), made(admitted(in("staging")), nil)
	if got := WarnOfChange(admitted(in("staging")), before, existing, installation); len(got) > 0 {
		t.Errorf("of the same environment: %v", got)
	}
	up := strings.Join(WarnOfChange(admitted(in("prod")), before, existing, installation), "\n")
	down := strings.Join(WarnOfChange(admitted(in("dev")), before, existing, installation), "\n")
	for _, want := range []string{
		"spec.environment: production instead of staging changes all parts", "component db: durability Required instead of Preferred",
		"replicas 3 instead of 2", "storage 100Gi instead of 50Gi", "component frontend: ", "securityProfile Restricted instead of Default",
	} {
		if !strings.Contains(up, want) {
			t.Errorf("%s\nlacks %s", up, want)
		}
	}
	const stays = "component db: its volumes stay at 50Gi, more than the 10Gi of development: volumes never shrink"
	const kept = "the volumes of the instances that are removed are kept"
	if !strings.Contains(down, "backup none instead of") || !strings.Contains(down, kept) || !strings.Contains(down, stays) ||
		strings.Contains(down, "storage ") || strings.Contains(up, "never shrink") {
		t.Errorf("down: %s", down)
	}
}

// TestWarnOfCache: a cache has nothing on volumes, so that a change may lose all that it has.
func TestWarnOfCache(t *testing.T) {
	larger := func(s *platformv1.EcommercePlatformSpec) { s.Cache.Memory = new(resource.MustParse("1Gi")) }
	const replaced = "component cache: its instances are replaced, and what it has in memory may be lost: it stores nothing on volumes"
	const deleted = "spec.cache.enabled: Cache shop-cache is deleted once the backend runs without it, and what it has in memory is lost"
	labelled := func(s *platformv1.EcommercePlatformSpec) { s.Labels = msappsv1.Labels{"team": "shop"} }
	image := func(s *platformv1.EcommercePlatformSpec) { s.Backend.Image = "r.io/back:2" }
	stack, bare := made(admitted(), nil), made(admitted(withoutCache), nil)
	for name, test := range map[string]struct {
		before, after change
		existing      *platformv1.AppStack
		want          string
	}{
		"another image":         {image, in("development"), stack, ""},
		"more memory":           {in("development"), larger, stack, replaced},
		"other labels":          {in("development"), labelled, stack, replaced},
		"off":                   {in("development"), withoutCache, stack, deleted},
		"off, and stays off":    {withoutCache, func(s *platformv1.EcommercePlatformSpec) { withoutCache(s); image(s) }, stack, ""},
		"on":                    {withoutCache, in("development"), bare, ""},
		"off before it is made": {in("development"), withoutCache, nil, ""},
	} {
		got := WarnOfChange(admitted(test.after), admitted(test.before), test.existing, installation)
		if strings.Join(got, "; ") != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
	if got := WarnOfChange(admitted(in("staging")), admitted(), stack, installation); !slices.Contains(got, replaced) {
		t.Errorf("another environment: %q", got)
	}
}
