package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/setup"
	"github.com/mainstay-platform/mainstay/internal/workload"
	"github.com/mainstay-platform/mainstay/test/testenv"
)

// setData sets the data of a ConfigMap, and creates it if necessary.
func setData(t *testing.T, namespace, name string, pairs ...string) *corev1.ConfigMap {
	t.Helper()
	data := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		data[pairs[i]] = pairs[i+1]
	}
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(configMap), configMap)
	configMap.Data = data
	if apierrors.IsNotFound(err) {
		err = cluster.Client.Create(t.Context(), configMap)
	} else if err == nil {
		err = cluster.Client.Update(t.Context(), configMap)
	}
	if err != nil {
		t.Fatal(err)
	}
	return configMap
}

// user returns a Deployment whose pods take all keys of a ConfigMap as variables.
func user(namespace, name, configMap string, annotations map[string]string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: annotations},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: podUsing(configMap)},
		},
	}
}

func podUsing(configMap string) corev1.PodSpec {
	return corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web", EnvFrom: []corev1.EnvFromSource{
		{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: configMap}}},
	}}}}
}

// auto returns the annotation that requests a restart whenever a source of the pods changes.
func auto() map[string]string { return map[string]string{configv1.AnnotationReload: "auto"} }

// startedFor returns what the pods of a workload were started for: "not seen" before the first
// reconcile, "first", or the token.
func startedFor(object client.Object) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return "", err
		}
		var template corev1.PodTemplateSpec
		switch object := object.(type) {
		case *appsv1.Deployment:
			template = object.Spec.Template
		case *appsv1.StatefulSet:
			template = object.Spec.Template
		case *appsv1.DaemonSet:
			template = object.Spec.Template
		}
		token, _, _ := strings.Cut(template.Annotations[configv1.AnnotationRestartedFor], "#")
		switch {
		case token != "":
			return token, nil
		case object.GetAnnotations()[configv1.AnnotationObserved] == "":
			return "not seen", nil
		default:
			return "first", nil
		}
	}
}

// content returns the token of pods that were started for a ConfigMap with these pairs.
func content(name string, pairs ...string) string {
	keys := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		keys[pairs[i]] = workload.HashKey([]byte(pairs[i+1]))
	}
	return name + "=" + workload.HashAll(keys)
}

// patchesOf returns the writes to workloads of a namespace since call n.
func patchesOf(manager *testenv.Manager, n int, namespace string) []string {
	var made []string
	for _, call := range manager.Requests.Done(n, "/namespaces/"+namespace+"/") {
		if strings.HasPrefix(call, "PATCH /apis/apps/") {
			made = append(made, call)
		}
	}
	return made
}

// stampOf returns a function that reads what a Deployment's pods are recorded to have started with.
func stampOf(t *testing.T, deployment *appsv1.Deployment) func() (string, error) {
	return func() (string, error) {
		err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(deployment), deployment)
		return deployment.Annotations[configv1.AnnotationObserved], err
	}
}

func TestReload(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	leaping := testenv.NewClock()
	ns := namespace(t)
	manager := startManagerWith(t, ns, nil, testenv.WithClock(leaping))
	setData(t, ns, "flags", "a", "1")
	web := user(ns, "web", "flags", auto())
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "store",
		Annotations: map[string]string{configv1.AnnotationReload: "flags, secret/none"}}}
	set.Spec.Selector, set.Spec.Template = web.Spec.Selector, *user(ns, "web", "other", nil).Spec.Template.DeepCopy()
	daemon := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "agent"}}
	daemon.Spec.Selector, daemon.Spec.Template = web.Spec.Selector, *web.Spec.Template.DeepCopy()
	daemon.Spec.Template.Annotations = auto()
	bystander := user(ns, "bystander", "flags", nil)
	watched := []client.Object{web, set, daemon}
	for _, object := range append(watched, bystander) {
		create(t, object)
	}
	for _, object := range watched {
		g.Eventually(startedFor(object)).WithContext(t.Context()).Should(gomega.Equal("first"), object.GetName())
	}
	before := manager.Settle(t)
	setData(t, ns, "flags", "a", "2")
	for _, object := range watched {
		g.Eventually(startedFor(object)).WithContext(t.Context()).Should(gomega.Equal(content("flags", "a", "2")), object.GetName())
	}
	manager.Settle(t)
	g.Expect(patchesOf(manager, before, ns)).To(gomega.HaveLen(3), "one patch each")
	g.Expect(startedFor(bystander)(t.Context())).To(gomega.Equal("not seen"))
	for _, call := range manager.Requests.Since(before, "/namespaces/"+ns+"/") {
		g.Expect(call).NotTo(gomega.HavePrefix("GET"), "there is no list or read")
	}

	// A source that is deleted and recreated with the same data restarts nothing.
	leaping.Leap(time.Hour)
	before = manager.Settle(t)
	g.Expect(cluster.Client.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns,
		Name: "flags"}})).To(gomega.Succeed())
	setData(t, ns, "flags", "a", "2")
	manager.Settle(t)
	g.Expect(patchesOf(manager, before, ns)).To(gomega.BeEmpty())

	// A new manager writes nothing without a change, and restarts each workload once after a change.
	manager.Stop()
	manager = startManagerWith(t, ns, nil, testenv.WithClock(leaping))
	manager.Settle(t)
	g.Expect(patchesOf(manager, 0, ns)).To(gomega.BeEmpty())
	manager.Stop()
	setData(t, ns, "flags", "a", "3")
	setData(t, ns, "flags", "a", "4")
	leaping.Leap(time.Hour)
	manager = startManagerWith(t, ns, nil, testenv.WithClock(leaping))
	for _, object := range watched {
		g.Eventually(startedFor(object)).WithContext(t.Context()).Should(gomega.Equal(content("flags", "a", "4")), object.GetName())
	}
	manager.Settle(t)
	g.Expect(patchesOf(manager, 0, ns)).To(gomega.HaveLen(3))

	// A workload that no longer asks keeps no trace of us, except in running pods.
	change(t, web, func(d *appsv1.Deployment) { delete(d.Annotations, configv1.AnnotationReload) })
	g.Eventually(stampOf(t, web)).Should(gomega.BeEmpty())
	g.Expect(startedFor(web)(t.Context())).To(gomega.Equal(content("flags", "a", "4")), "and that restarts nothing")
}

// TestCooldown checks that there is at most one restart per cooldown, and that the last change
// arrives.
func TestCooldown(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	// No cooldown ends by itself, however long it all takes.
	stopped := clocktesting.NewFakePassiveClock(time.Now())
	ns := namespace(t)
	manager := startManagerWith(t, ns, nil, testenv.WithClock(stopped))
	setData(t, ns, "flags", "a", "1")
	web := user(ns, "web", "flags", auto())
	create(t, web)
	g.Eventually(startedFor(web)).WithContext(t.Context()).Should(gomega.Equal("first"))
	setData(t, ns, "flags", "a", "2")
	g.Eventually(startedFor(web)).WithContext(t.Context()).Should(gomega.Equal(content("flags", "a", "2")))
	before := manager.Settle(t)
	for i := range 5 {
		setData(t, ns, "flags", "a", fmt.Sprint(i+3))
	}
	manager.Settle(t)
	g.Expect(patchesOf(manager, before, ns)).To(gomega.BeEmpty())
	manager.Stop()
	stopped.SetTime(stopped.Now().Add(workload.DefaultCooldown))
	manager = startManagerWith(t, ns, nil, testenv.WithClock(stopped))
	g.Eventually(startedFor(web)).WithContext(t.Context()).Should(gomega.Equal(content("flags", "a", "7")))
	manager.Settle(t)
	g.Expect(patchesOf(manager, 0, ns)).To(gomega.HaveLen(1))
}

// TestBaseline checks that a workload without a stamp is restarted only if its pod template is
// older than the source's last change.
func TestBaseline(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		// changed means that the ConfigMap is edited after the ReplicaSet was made.
		changed, hasPods bool
		want             string
	}{
		"the source is older":          {false, true, "first"},
		"the source is newer":          {true, true, content("flags", "a", "2")},
		"the source is newer, no pods": {true, false, "first"},
	} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			ns := namespace(t)
			setData(t, ns, "flags", "a", "1")
			web := user(ns, "web", "flags", auto())
			create(t, web)
			web.Status.ObservedGeneration = web.Generation
			g.Expect(cluster.Client.Status().Update(t.Context(), web)).To(gomega.Succeed())
			youngest := client.Object(web)
			if test.hasPods {
				youngest = replicaSetOf(web)
				create(t, youngest)
			}
			nextSecond(t, youngest)
			if test.changed {
				setData(t, ns, "flags", "a", "2")
			}
			startManager(t, ns)
			g.Eventually(startedFor(web)).WithContext(t.Context()).Should(gomega.Equal(test.want))
		})
	}
}

// TestPodSelectorAnnotation checks that a ConfigMap restarts the workloads that its own annotation
// selects, whether or not they use it.
func TestPodSelectorAnnotation(t *testing.T) {
	g, ns, _ := managed(t)
	annotated := setData(t, ns, "flags", "a", "1")
	change(t, annotated, func(c *corev1.ConfigMap) {
		c.Annotations = map[string]string{configv1.AnnotationPodSelector: "app=frontend"}
	})
	frontend, backend := user(ns, "frontend", "none", nil), user(ns, "backend", "none", nil)
	create(t, frontend, backend)
	g.Eventually(startedFor(frontend)).WithContext(t.Context()).Should(gomega.Equal("first"))
	change(t, annotated, func(c *corev1.ConfigMap) { c.Data = map[string]string{"a": "2"} })
	g.Eventually(startedFor(frontend)).WithContext(t.Context()).Should(gomega.Equal(content("flags", "a", "2")))
	g.Expect(startedFor(backend)(t.Context())).To(gomega.Equal("not seen"))

	change(t, annotated, func(c *corev1.ConfigMap) { c.Annotations[configv1.AnnotationPodSelector] = "app=(" })
	g.Eventually(eventsOn(annotated)).WithContext(t.Context()).Should(gomega.ContainElement(gomega.ContainSubstring(`Invalid value: "app=("`)))
}

// eventsOn returns the events about an object, for example "Warning Refused: exceeded quota".
func eventsOn(object client.Object) func(context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) {
		var all eventsv1.EventList
		err := cluster.Client.List(ctx, &all, client.InNamespace(object.GetNamespace()))
		var found []string
		for _, event := range all.Items {
			if event.Regarding.Name == object.GetName() {
				found = append(found, fmt.Sprintf("%s %s: %s", event.Type, event.Reason, event.Note))
			}
		}
		return found, err
	}
}

// TestStakaterAnnotations checks that these annotations count only if that is enabled.
func TestStakaterAnnotations(t *testing.T) {
	t.Parallel()
	for name, isOn := range map[string]bool{"off": false, "on": true} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			ns := namespace(t)
			startManagerWith(t, ns, nil, func(settings *setup.Settings) { settings.StakaterAnnotations = isOn })
			setData(t, ns, "flags", "a", "1")
			web, ours := user(ns, "web", "flags", map[string]string{"reloader.stakater.com/auto": "true"}), user(ns, "ours", "flags", auto())
			create(t, web, ours)
			g.Eventually(startedFor(ours)).WithContext(t.Context()).Should(gomega.Equal("first"))
			setData(t, ns, "flags", "a", "2")
			g.Eventually(startedFor(ours)).WithContext(t.Context()).Should(gomega.Equal(content("flags", "a", "2")))
			if isOn {
				g.Eventually(startedFor(web)).WithContext(t.Context()).Should(gomega.Equal(content("flags", "a", "2")))
			} else {
				g.Expect(startedFor(web)(t.Context())).To(gomega.Equal("not seen"))
			}
		})
	}
}

// TestRestartRefused checks that a refused restart is reported on the workload, and does not block
// the restarts of others.
func TestRestartRefused(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	ns := namespace(t)
	setData(t, ns, "flags", "a", "1")
	web, other := user(ns, "web", "flags", auto()), user(ns, "other", "flags", auto())
	web.Spec.Template.Spec.Containers[0].Image = "web:denied"
	create(t, web, other)
	denyDeployments(t, ns)
	startManager(t, ns)
	g.Eventually(startedFor(other)).WithContext(t.Context()).Should(gomega.Equal("first"))
	g.Eventually(eventsOn(web)).WithContext(t.Context()).Should(gomega.ContainElement(gomega.ContainSubstring("the tag denied is denied")))
	g.Expect(startedFor(web)(t.Context())).To(gomega.Equal("not seen"))
	setData(t, ns, "flags", "a", "2")
	g.Eventually(startedFor(other)).WithContext(t.Context()).Should(gomega.Equal(content("flags", "a", "2")))
}

// TestRefusedRestartTakesNoPlace checks that a workload that may not restart takes no place of
// maxParallel, although it is the first by name, and that the monitor says so.
func TestRefusedRestartTakesNoPlace(t *testing.T) {
	g, ns, _ := managed(t)
	create(t, newFlags(ns, map[string]string{"COLOUR": "red"}))
	denied, other := newDeployment(ns, "a"), newDeployment(ns, "b")
	denied.Spec.Template.Spec.Containers[0].Image = "web:denied"
	create(t, denied, other)
	monitor := newMonitor(ns, func(s *configv1.ConfigMonitorSpec) { s.MaxParallel = new(int32(1)) })
	watched{denied, other}.by(t, monitor)
	denyDeployments(t, ns)
	setFlag(t, ns, "COLOUR", "blue")
	g.Eventually(restartedFor(other)).WithContext(t.Context()).Should(gomega.HavePrefix("flags="))
	g.Expect(restartedFor(denied)(t.Context())).To(gomega.BeEmpty())
	rollOut(t, other)
	g.Eventually(monitorReady(monitor)).WithContext(t.Context()).Should(gomega.Equal("False RestartRefused"))
	status, err := monitored(monitor)(t.Context())
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(status.Skipped).To(gomega.ConsistOf(gomega.And(gomega.HaveField("Name", "Deployment/a"),
		gomega.HaveField("Message", gomega.ContainSubstring("the tag denied is denied")))))
}

// TestSucceedingAppConfig checks that nothing restarts when an AppConfig is deleted in the
// foreground, so that its ConfigMap goes first, and another one for the application has the same
// content.
func TestSucceedingAppConfig(t *testing.T) {
	g, ns, manager := managed(t)
	first, web := shop(t, ns)
	set := replicaSetOf(web)
	create(t, set)
	second := newConfig(ns)
	second.Name = "zweite"
	create(t, second)
	g.Eventually(statusOf(second)).WithContext(t.Context()).Should(gomega.HavePrefix("False Conflict"))
	change(t, first, func(config *configv1.AppConfig) { config.Finalizers = []string{"example.com/a"} })
	nextSecond(t, set)

	// Do the work of the garbage collector, which does not run here.
	g.Expect(cluster.Client.Delete(t.Context(), first)).To(gomega.Succeed())
	g.Expect(cluster.Client.DeleteAllOf(t.Context(), &corev1.ConfigMap{}, client.InNamespace(ns),
		client.MatchingLabels{configv1.LabelAppConfig: first.Name})).To(gomega.Succeed())
	manager.Settle(t)
	g.Expect(stampOf(t, web)()).NotTo(gomega.BeEmpty(), "what its pods were started with is still known")
	change(t, first, func(config *configv1.AppConfig) { config.Finalizers = nil })
	g.Eventually(statusOf(second)).WithContext(t.Context()).Should(gomega.Equal("True UpToDate, revision 1, 1/1"))
	g.Expect(startedFor(web)(t.Context())).To(gomega.Equal("first"))
}

// TestRestartThatFails checks that a restart without an answer is retried.
func TestRestartThatFails(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	ns := namespace(t)
	setData(t, ns, "flags", "a", "1")
	web, other := user(ns, "web", "flags", auto()), user(ns, "other", "flags", auto())
	create(t, web, other)
	recorded := &testenv.Requests{}
	recorded.Break("/deployments/web")
	startManagerWith(t, ns, recorded, nil)
	g.Eventually(startedFor(other)).WithContext(t.Context()).Should(gomega.Equal("first"))
	g.Expect(startedFor(web)(t.Context())).To(gomega.Equal("not seen"))
	recorded.Break("")
	g.Eventually(startedFor(web)).WithContext(t.Context()).Should(gomega.Equal("first"))
}
