package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/api"
	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/setup"
	"github.com/mainstay-platform/mainstay/test/testenv"
)

// webPart returns a WebApp as a component.
func webPart(name string, on ...string) platformv1.Component {
	spec := `{"image":"r.io/web:1","replicas":1,"resources":{"limits":{"cpu":"1","memory":"64Mi"}}}`
	return platformv1.Component{Name: name, Type: "webApp", Spec: runtime.RawExtension{Raw: []byte(spec)}, DependsOn: on}
}

func newStack(namespace string, components ...platformv1.Component) *platformv1.AppStack {
	return &platformv1.AppStack{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shop"}, Spec: platformv1.AppStackSpec{Components: components},
	}
}

// stacked is a stack and what its test looks at.
type stacked struct {
	*testing.T
	*gomega.WithT
	stack *platformv1.AppStack
}

// stacking creates a stack.
func stacking(t *testing.T, stack *platformv1.AppStack) stacked {
	t.Helper()
	create(t, stack)
	return stacked{t, gomega.NewWithT(t), stack}
}

// exist returns the names of the components' WebApps that exist, without the stack's.
func (s stacked) exist(ctx context.Context) ([]string, error) {
	var apps msappsv1.WebAppList
	err := cluster.Client.List(ctx, &apps, client.InNamespace(s.stack.Namespace))
	var names []string
	for _, app := range apps.Items {
		names = append(names, strings.TrimPrefix(app.Name, "shop-"))
	}
	slices.Sort(names)
	return names, err
}

// awaits waits until exactly these WebApps exist.
func (s stacked) awaits(names ...string) {
	s.Helper()
	s.Eventually(s.exist).WithContext(s.Context()).Should(gomega.Equal(names))
}

// ready does for a WebApp what the Deployment controller would do, and waits until it is Ready.
func (s stacked) ready(name string) {
	s.Helper()
	at := metav1.ObjectMeta{Namespace: s.stack.Namespace, Name: "shop-" + name}
	s.Eventually(func(g gomega.Gomega) {
		deployment, app := &appsv1.Deployment{ObjectMeta: at}, &msappsv1.WebApp{ObjectMeta: at}
		g.Expect(cluster.Client.Get(s.Context(), client.ObjectKeyFromObject(deployment), deployment)).To(gomega.Succeed())
		rollOut(s.T, deployment)
		g.Expect(cluster.Client.Get(s.Context(), client.ObjectKeyFromObject(app), app)).To(gomega.Succeed())
		found := meta.FindStatusCondition(app.Status.Conditions, "Ready")
		g.Expect(found).NotTo(gomega.BeNil())
		g.Expect(found.ObservedGeneration).To(gomega.Equal(app.Generation))
		g.Expect(found.Status).To(gomega.Equal(metav1.ConditionTrue), found.Message)
	}).Should(gomega.Succeed())
}

// edit changes the stack.
func (s stacked) edit(change2 func(*platformv1.AppStackSpec)) {
	s.Helper()
	change(s.T, s.stack, func(stack *platformv1.AppStack) { change2(&stack.Spec) })
}

// reports waits until the stack's status is as wanted.
func (s stacked) reports(wanted func(platformv1.AppStackStatus) bool) {
	s.Helper()
	s.Eventually(func() (string, error) {
		var stack platformv1.AppStack
		err := cluster.Client.Get(s.Context(), client.ObjectKeyFromObject(s.stack), &stack)
		if err == nil && stack.Status.ObservedGeneration == stack.Generation && wanted(stack.Status) {
			return "", nil
		}
		text, _ := json.Marshal(stack.Status)
		return string(text), err
	}).Should(gomega.BeEmpty())
}

// of returns the status of a component.
func of(status platformv1.AppStackStatus, name string) platformv1.ComponentStatus {
	for _, c := range status.Components {
		if c.Name == name {
			return c
		}
	}
	return platformv1.ComponentStatus{}
}

// TestStackOrder: components are created in order, become Ready, and are deleted in reverse order.
// The second reconcile writes nothing.
func TestStackOrder(t *testing.T) {
	_, space, manager := managed(t)
	stack := newStack(space, webPart("front", "back"), webPart("back", "db", "cache"), webPart("cache"), webPart("db"))
	stack.Labels, stack.Spec.Labels = map[string]string{"cost": "1"}, msappsv1.Labels{"team": "a"}
	s := stacking(t, stack)
	s.awaits("cache", "db")
	s.reports(func(status platformv1.AppStackStatus) bool {
		return status.Phase == platformv1.PhaseDeploying && status.Waiting == "front: back" && status.ComponentSummary == "0/4" &&
			slices.Equal(of(status, "back").WaitsFor, []string{"db", "cache"}) && of(status, "back").Since != nil &&
			meta.IsStatusConditionTrue(status.Conditions, "Waiting")
	})
	s.ready("db")
	s.reports(func(status platformv1.AppStackStatus) bool {
		return slices.Equal(of(status, "back").WaitsFor, []string{"cache"}) && status.ComponentSummary == "1/4"
	})
	s.awaits("cache", "db")
	s.ready("cache")
	s.awaits("back", "cache", "db")
	s.ready("back")
	s.awaits("back", "cache", "db", "front")
	s.ready("front")
	s.reports(func(status platformv1.AppStackStatus) bool {
		return status.Phase == platformv1.PhaseRunning && status.ComponentSummary == "4/4" && status.Waiting == "" &&
			meta.IsStatusConditionTrue(status.Conditions, "Ready") && status.FirstReadyTime != nil
	})
	var app msappsv1.WebApp
	s.Expect(cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: space, Name: "shop-back"}, &app)).To(gomega.Succeed())
	s.Expect(app.Labels).To(gomega.HaveKeyWithValue("app.kubernetes.io/part-of", "shop"))
	s.Expect(app.Labels).To(gomega.HaveKeyWithValue("cost", "1"))
	s.Expect(app.Spec.Labels).To(gomega.HaveKeyWithValue("team", msappsv1.LabelValue("a")))
	var deployment appsv1.Deployment
	s.Expect(cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: space, Name: "shop-back"}, &deployment)).To(gomega.Succeed())
	s.Expect(deployment.Labels).To(gomega.HaveKeyWithValue("app.kubernetes.io/part-of", "shop"))

	before := manager.Settle(t)
	manager.Stop()
	again := startManager(t, space)
	again.Settle(t)
	s.Expect(testenv.In(space, again.Requests.Since(0, "PATCH ", "DELETE "))).To(gomega.BeEmpty(),
		"a restart writes nothing; before: %d requests", before)

	s.Expect(cluster.Client.Delete(t.Context(), stack)).To(gomega.Succeed())
	for _, left := range [][]string{{"back", "cache", "db", "front"}, {"back", "cache", "db"}, {"cache", "db"}} {
		name := map[int]string{4: "front", 3: "back"}[len(left)]
		if name == "" {
			break
		}
		s.releases(name, left)
	}
	s.releases("cache", []string{"cache", "db"})
	s.releases("db", []string{"db"})
	s.Eventually(func(ctx context.Context) error {
		return cluster.Client.Get(ctx, client.ObjectKeyFromObject(stack), &platformv1.AppStack{})
	}).WithContext(t.Context()).Should(gomega.Satisfy(apierrors.IsNotFound))
}

// releases waits until a component is being deleted, and no other one but those that nothing
// depends on, and removes it as the garbage collector would once its own children are gone.
func (s stacked) releases(name string, left []string) {
	s.Helper()
	app := &msappsv1.WebApp{}
	key := client.ObjectKey{Namespace: s.stack.Namespace, Name: "shop-" + name}
	s.Eventually(func(g gomega.Gomega) {
		g.Expect(cluster.Client.Get(s.Context(), key, app)).To(gomega.Succeed())
		g.Expect(app.DeletionTimestamp).NotTo(gomega.BeNil(), name)
	}).Should(gomega.Succeed())
	s.reports(func(status platformv1.AppStackStatus) bool {
		waiting := meta.FindStatusCondition(status.Conditions, "Waiting")
		return status.Phase == platformv1.PhaseDeleting && waiting != nil &&
			strings.Contains(waiting.Message, "WebApp shop-"+name+" is kept by foregroundDeletion")
	})
	names, err := s.exist(s.Context())
	s.Expect(err).NotTo(gomega.HaveOccurred())
	s.Expect(names).To(gomega.Equal(left))
	s.Eventually(func() error {
		if err := cluster.Client.Get(s.Context(), key, app); err != nil {
			return client.IgnoreNotFound(err)
		}
		app.Finalizers = nil
		return cluster.Client.Update(s.Context(), app)
	}).Should(gomega.Succeed())
}

// TestStackHeals: what is edited or deleted by hand is put back, a foreign object stays, and the
// other components go on.
func TestStackHeals(t *testing.T) {
	t.Parallel()
	space := namespace(t)
	foreign := newApp(space)
	foreign.Name = "shop-taken"
	create(t, foreign)
	startManager(t, space)
	s := stacking(t, newStack(space, webPart("db"), webPart("taken"), webPart("user", "taken")))
	s.awaits("db", "taken")
	s.ready("db")
	s.reports(func(status platformv1.AppStackStatus) bool {
		return of(status, "taken").Reason == "Conflict" && of(status, "db").Phase == platformv1.ComponentReady &&
			of(status, "user").Phase == platformv1.ComponentWaiting && status.Phase == platformv1.PhaseDegraded &&
			meta.IsStatusConditionTrue(status.Conditions, "Stalled")
	})
	db := &msappsv1.WebApp{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "shop-db"}}
	change(t, db, func(app *msappsv1.WebApp) { app.Spec.Image = "r.io/web:2" })
	s.Eventually(func(g gomega.Gomega) {
		g.Expect(cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(db), db)).To(gomega.Succeed())
		g.Expect(db.Spec.Image).To(gomega.Equal("r.io/web:1"))
	}).Should(gomega.Succeed())
	former := db.UID
	s.Expect(cluster.Client.Delete(t.Context(), db)).To(gomega.Succeed())
	s.Eventually(func(g gomega.Gomega) {
		g.Expect(cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(db), db)).To(gomega.Succeed())
		g.Expect(db.UID).NotTo(gomega.Equal(former))
	}).Should(gomega.Succeed())
	change(t, foreign, func(app *msappsv1.WebApp) {
		metav1.SetMetaDataAnnotation(&app.ObjectMeta, "mainstay.dev/adopt", "AppStack/shop")
	})
	s.Eventually(func(g gomega.Gomega) {
		g.Expect(cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(foreign), foreign)).To(gomega.Succeed())
		g.Expect(metav1.GetControllerOf(foreign)).NotTo(gomega.BeNil())
	}).Should(gomega.Succeed())
}

// TestStackEdits: what leaves the spec is deleted after what depends on it, a quick return of it is
// kept, ordered updates wait, and nothing happens while the stack is paused, which says what would.
func TestStackEdits(t *testing.T) {
	t.Parallel()
	space := namespace(t)
	startManager(t, space)
	s := stacking(t, newStack(space, webPart("db"), webPart("back", "db")))
	s.awaits("db")
	s.ready("db")
	s.awaits("back", "db")
	s.ready("back")
	s.reports(func(status platformv1.AppStackStatus) bool { return status.Phase == platformv1.PhaseRunning })

	s.edit(func(spec *platformv1.AppStackSpec) {
		spec.Paused, spec.Components = true, []platformv1.Component{webPart("back"), webPart("new")}
		spec.Components[0].Spec.Raw = []byte(`{"image":"r.io/web:2","replicas":1,"resources":{"limits":{"cpu":"1","memory":"64Mi"}}}`)
	})
	s.reports(func(status platformv1.AppStackStatus) bool {
		return status.Phase == platformv1.PhasePaused && of(status, "new").Plan == "create" && of(status, "db").Plan == "delete, after back" &&
			strings.HasPrefix(of(status, "back").Plan, "change: spec.image")
	})
	s.awaits("back", "db")

	former := &msappsv1.WebApp{}
	s.Expect(cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: space, Name: "shop-db"}, former)).To(gomega.Succeed())
	s.edit(func(spec *platformv1.AppStackSpec) {
		spec.Paused, spec.Updates = false, platformv1.UpdatesOrdered
		spec.Components = []platformv1.Component{webPart("db"), webPart("back", "db")}
		spec.Components[0].Spec.Raw = []byte(`{"image":"r.io/web:2","replicas":1,"resources":{"limits":{"cpu":"1","memory":"64Mi"}}}`)
		spec.Components[1].Spec.Raw = []byte(`{"image":"r.io/web:3","replicas":1,"resources":{"limits":{"cpu":"1","memory":"64Mi"}}}`)
	})
	s.reports(func(status platformv1.AppStackStatus) bool {
		return slices.Equal(of(status, "back").WaitsFor, []string{"db"}) && of(status, "back").Plan == "change: spec.image"
	})
	images := func(name string) func() (string, error) {
		return func() (string, error) {
			var app msappsv1.WebApp
			err := cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: space, Name: "shop-" + name}, &app)
			return app.Spec.Image, err
		}
	}
	s.Expect(images("back")()).To(gomega.Equal("r.io/web:1"))
	s.Eventually(images("db")).Should(gomega.Equal("r.io/web:2"))
	s.ready("db")
	s.Eventually(images("back")).Should(gomega.Equal("r.io/web:3"))

}

// TestStackQuickEdits: a quick return to a former spec leaves exactly what the last one has.
func TestStackQuickEdits(t *testing.T) {
	t.Parallel()
	space := namespace(t)
	startManager(t, space)
	s := stacking(t, newStack(space, webPart("db")))
	s.awaits("db")
	for round := range 5 { // A, B, A
		s.edit(func(spec *platformv1.AppStackSpec) {
			spec.Components = []platformv1.Component{webPart(fmt.Sprintf("x%d", round))}
		})
		s.edit(func(spec *platformv1.AppStackSpec) {
			spec.Components = []platformv1.Component{webPart("db"), webPart("x4")}
		})
	}
	s.Eventually(func(ctx context.Context) ([]string, error) {
		var apps msappsv1.WebAppList
		err := cluster.Client.List(ctx, &apps, client.InNamespace(space))
		var names []string
		for i := range apps.Items {
			app := &apps.Items[i]
			if app.DeletionTimestamp != nil { // there is no garbage collector
				app.Finalizers = nil
				_ = cluster.Client.Update(ctx, app)
			}
			names = append(names, app.Name)
		}
		return names, err
	}).WithContext(t.Context()).Should(gomega.ConsistOf("shop-db", "shop-x4"))
}

// TestStackFailure: a component that fails is named; it holds back what was never made, and nothing
// else.
func TestStackFailure(t *testing.T) {
	t.Parallel()
	space := namespace(t)
	startManager(t, space)
	config := platformv1.Component{Name: "settings", Type: "appConfig", Spec: runtime.RawExtension{
		Raw: []byte(`{"application":"shop","config":{"a":"{{ .nothing.there }}"}}`)}}
	s := stacking(t, newStack(space, config, webPart("web", "settings"), webPart("other")))
	s.awaits("other")
	s.ready("other")
	s.reports(func(status platformv1.AppStackStatus) bool {
		degraded := meta.FindStatusCondition(status.Conditions, "Degraded")
		return of(status, "settings").Phase == platformv1.ComponentFailed && of(status, "web").Phase == platformv1.ComponentWaiting &&
			of(status, "other").Phase == platformv1.ComponentReady && status.Phase == platformv1.PhaseDegraded &&
			degraded != nil && degraded.Reason == platformv1.ReasonComponentFailed && strings.Contains(degraded.Message, "settings (AppConfig shop-settings)")
	})
	s.edit(func(spec *platformv1.AppStackSpec) {
		spec.Components[0].Spec.Raw = []byte(`{"application":"shop","config":{"a":"b"}}`)
	})
	s.awaits("other", "web")
	var made configv1.AppConfig
	s.Expect(cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: space, Name: "shop-settings"}, &made)).To(gomega.Succeed())
}

// TestStackRefusedChange: a change that the API server refuses takes nothing from others. What they
// have set on the component's object is there once the change is undone.
func TestStackRefusedChange(t *testing.T) {
	t.Parallel()
	space := namespace(t)
	startManager(t, space)
	settings := func(application, value string) platformv1.Component {
		return platformv1.Component{Name: "settings", Type: "appConfig", Spec: runtime.RawExtension{
			Raw: fmt.Appendf(nil, `{"application":%q,"config":{"a":%q}}`, application, value)}}
	}
	s := stacking(t, newStack(space, settings("shop", "1")))
	made := &configv1.AppConfig{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "shop-settings"}}
	value := func(ctx context.Context) (string, error) {
		err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(made), made)
		return made.Spec.Config["a"], err
	}
	s.Eventually(value).WithContext(t.Context()).Should(gomega.Equal("1"))
	change(t, made, func(config *configv1.AppConfig) { config.Annotations["example.com/note"] = "kept" })
	s.edit(func(spec *platformv1.AppStackSpec) { spec.Components[0] = settings("other", "1") })
	s.reports(func(status platformv1.AppStackStatus) bool {
		one := of(status, "settings")
		return one.Phase == platformv1.ComponentFailed && strings.Contains(one.Message, "spec.application is immutable")
	})
	s.edit(func(spec *platformv1.AppStackSpec) { spec.Components[0] = settings("shop", "2") })
	s.Eventually(value).WithContext(t.Context()).Should(gomega.Equal("2"))
	s.Expect(made.Annotations).To(gomega.HaveKeyWithValue("example.com/note", "kept"))
}

// TestStackAdmission: what the kinds and the policies of the namespace would refuse is refused for
// the stack, with its path, before anything is made; a dry run answers with a plan.
func TestStackAdmission(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	s := newGoverned(t)
	s.start(t)
	raw := func(name, spec string, on ...string) platformv1.Component {
		return platformv1.Component{Name: name, Type: "webApp", Spec: runtime.RawExtension{Raw: []byte(spec)}, DependsOn: on}
	}
	for want, components := range map[string][]platformv1.Component{
		`spec.components[1].spec.replcas: Forbidden: unknown field`:                       {webPart("a"), raw("b", `{"image":"a","replcas":1}`)},
		`spec.components[0].spec.replicas: Invalid value: 11: must be at most 10 (policy`: {raw("a", `{"image":"a","replicas":11}`)},
		`must not depend on itself through others: a -> b -> a`:                           {webPart("a", "b"), webPart("b", "a")},
		`spec.components[0].dependsOn[0]: Not found: "db"`:                                {webPart("a", "db")},
		`spec.components[0].type: Unsupported value: "mysql": supported values: "appConfig", "cache", "configMonitor", "postgresql", "webApp"`: {
			{Name: "a", Type: "mysql", Spec: runtime.RawExtension{Raw: []byte(`{}`)}}},
	} {
		err := s.client.Create(t.Context(), newStack("elsewhere", components...))
		g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring(want)))
	}
	twice := newStack("elsewhere", webPart("a"), webPart("a"))
	g.Expect(s.client.Create(t.Context(), twice)).To(gomega.MatchError(gomega.ContainSubstring("Duplicate value")))

	s.warnings()
	stack := newStack("elsewhere", webPart("db"), webPart("back", "db"))
	g.Expect(s.client.Create(t.Context(), stack.DeepCopy(), client.DryRunAll)).To(gomega.Succeed())
	g.Expect(s.warnings()).To(gomega.Equal([]string{"2 components: 2 created", "component db: WebApp shop-db is created",
		"component back: WebApp shop-back is created once these are ready: db"}))
	s.create(t, stack)
	g.Expect(s.warnings()).To(gomega.BeEmpty())
	key := client.ObjectKeyFromObject(stack)
	g.Eventually(func() error {
		return s.client.Get(t.Context(), client.ObjectKey{Namespace: "elsewhere", Name: "shop-db"}, &msappsv1.WebApp{})
	}).Should(gomega.Succeed())
	g.Eventually(func() ([]string, error) {
		if err := s.client.Get(t.Context(), key, stack); err != nil {
			return nil, err
		}
		s.warnings()
		stack.Spec.Components = []platformv1.Component{raw("back", `{"image":"r.io/web:1","replicas":2}`), webPart("new", "back")}
		err := s.client.Update(t.Context(), stack, client.DryRunAll)
		return s.warnings(), err
	}).Should(gomega.Equal([]string{
		"2 components: 2 created, 1 deleted", "component back: WebApp shop-back is created",
		"component new: WebApp shop-new is created once these are ready: back", "component db: WebApp shop-db is deleted"}))
}

// TestStackSchema: what the schema of a component's kind refuses is refused for the stack, with its
// path; what a stack was stored with does not keep users from other changes.
func TestStackSchema(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	s := newGoverned(t)
	app := func(name, rest string) platformv1.Component {
		spec := `{"image":"r.io/web:1","replicas":1,"resources":{"limits":{"cpu":"1","memory":"64Mi"}}` + rest + `}`
		return platformv1.Component{Name: name, Type: "webApp", Spec: runtime.RawExtension{Raw: []byte(spec)}}
	}
	stack := newStack("elsewhere", app("ok", ""), app("old", `,"imagePullPolicy":"Sometimes"`))
	s.create(t, stack) // there is no webhook yet
	s.start(t)
	key := client.ObjectKeyFromObject(stack)
	update := func(components ...platformv1.Component) error {
		for { // its status may be written meanwhile
			g.Expect(s.client.Get(t.Context(), key, stack)).To(gomega.Succeed())
			stack.Spec.Components = components
			if err := s.client.Update(t.Context(), stack, client.DryRunAll); !apierrors.IsConflict(err) {
				return err
			}
		}
	}
	g.Expect(update(app("ok", `,"port":8081`), app("old", `,"imagePullPolicy":"Sometimes"`))).To(gomega.Succeed())
	g.Expect(update(app("ok", ""), app("old", `,"imagePullPolicy":"Sometimes","port":8081`))).To(gomega.Succeed())
	g.Expect(update(app("ok", ""), app("old", `,"imagePullPolicy":"Never"`))).To(gomega.Succeed())
	g.Expect(update(app("ok", ""), app("old", `,"imagePullPolicy":"Often"`))).To(gomega.MatchError(gomega.ContainSubstring(
		`spec.components[1].spec.imagePullPolicy: Unsupported value: "Often": supported values: "Always", "IfNotPresent", "Never"`)))
	g.Expect(update(app("new", `,"imagePullPolicy":"Sometimes"`))).To(gomega.MatchError(gomega.ContainSubstring(
		`spec.components[0].spec.imagePullPolicy: Unsupported value: "Sometimes"`)))
}

// TestStackConnects: a WebApp gets the connection of the database that it depends on, and lets
// clients in once both are ready.
func TestStackConnects(t *testing.T) {
	t.Parallel()
	space := namespace(t)
	startManagerWith(t, space, nil, withImages)
	web := webPart("web", "db")
	web.Spec.Raw = []byte(`{"image":"r.io/web:1","replicas":1,"ingress":{"host":"a.example.com"}}`)
	s := stacking(t, newStack(space, web, platformv1.Component{Name: "db", Type: "postgresql",
		Spec: runtime.RawExtension{Raw: []byte(`{"version":"17","storage":"1Gi","replicas":1}`)}}))
	db := newDatabase(space)
	db.Name = "shop-db"
	observedRevision(t, db, "db-1")
	s.awaits()
	runs(t, db, 0, contract.Report{Role: contract.Primary, State: "Leading", Term: 2, Timeline: 3, Provided: true})
	s.awaits("web")
	var app msappsv1.WebApp
	key := client.ObjectKey{Namespace: space, Name: "shop-web"}
	s.Expect(cluster.Client.Get(t.Context(), key, &app)).To(gomega.Succeed())
	s.Expect(app.Spec.Bindings).To(gomega.Equal([]msappsv1.Binding{{Kind: "PostgreSQL", Name: "shop-db"}}))
	s.Expect(app.Spec.Env).To(gomega.BeEmpty())
	s.Expect(app.Spec.Ingress).To(gomega.BeNil(), "clients are let in before it is ready")
	s.ready("web")
	s.Eventually(func() (*msappsv1.Ingress, error) {
		err := cluster.Client.Get(t.Context(), key, &app)
		return app.Spec.Ingress, err
	}).Should(gomega.HaveField("Host", "a.example.com"))
	s.Expect(app.Spec.Bindings).To(gomega.HaveLen(1))
}

// TestStackAdoptsADatabase: a database that a stack takes over keeps what the stack does not set:
// its users and databases are data.
func TestStackAdoptsADatabase(t *testing.T) {
	_, space, _ := managed(t)
	db := newDatabase(space)
	db.Name, db.Annotations = "shop-db", map[string]string{api.AnnotationAdopt: "AppStack/shop"}
	db.Spec.Users = []databasev1.User{{Name: "orders"}}
	create(t, db)
	s := stacking(t, newStack(space, platformv1.Component{Name: "db", Type: "postgresql",
		Spec: runtime.RawExtension{Raw: []byte(`{"version":"17","storage":"2Gi"}`)}}))
	s.Eventually(func() (*databasev1.PostgreSQL, error) {
		err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(db), db)
		return db, err
	}).Should(gomega.HaveField("OwnerReferences", gomega.HaveLen(1)))
	s.Expect(db.Spec.Storage.String()).To(gomega.Equal("2Gi"))
	s.Expect(db.Spec.Users).To(gomega.HaveLen(1))
}

// TestStackKindOff: what is of a kind that is off stays, and is not known.
func TestStackKindOff(t *testing.T) {
	_, space, manager := managed(t)
	monitor := platformv1.Component{Name: "watch", Type: "configMonitor", Spec: runtime.RawExtension{
		Raw: []byte(`{"configMap":"flags","podSelector":{"app":"web"}}`)}}
	s := stacking(t, newStack(space, webPart("web"), monitor))
	s.awaits("web")
	made := &configv1.ConfigMonitor{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "shop-watch"}}
	s.Eventually(func() error {
		return cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(made), made)
	}).Should(gomega.Succeed())
	manager.Stop()
	startManagerWith(t, space, nil, func(settings *setup.Settings) { settings.Kinds = []string{"webapp", "appstack"} })
	s.edit(func(spec *platformv1.AppStackSpec) { spec.Components[0].Name = "renamed" })
	s.reports(func(status platformv1.AppStackStatus) bool {
		ready := meta.FindStatusCondition(status.Conditions, "Ready")
		return status.Phase == platformv1.PhaseFailed && ready.Reason == "InvalidSpec" &&
			strings.Contains(ready.Message, `spec.components[1].type: Unsupported value: "configMonitor": supported values: "webApp"`)
	})
	s.awaits("web")
	s.edit(func(spec *platformv1.AppStackSpec) { spec.Components = spec.Components[:1] })
	app := &msappsv1.WebApp{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "shop-web"}}
	s.Eventually(func() (*metav1.Time, error) {
		err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(app), app)
		return app.DeletionTimestamp, err
	}).ShouldNot(gomega.BeNil())
	s.awaits("renamed", "web")
	s.Expect(cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(made), made)).To(gomega.Succeed())
	s.Expect(made.DeletionTimestamp).To(gomega.BeNil())
}
