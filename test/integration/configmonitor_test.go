package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	rolloutv1 "github.com/mainstay-platform/mainstay/api/rollout/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/configmonitor"
	"github.com/mainstay-platform/mainstay/test/testenv"
)

// newMonitor returns a ConfigMonitor that restarts pods with app=web when the ConfigMap flags
// changes.
func newMonitor(namespace string, change ...func(*configv1.ConfigMonitorSpec)) *configv1.ConfigMonitor {
	monitor := &configv1.ConfigMonitor{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "flags"},
		Spec: configv1.ConfigMonitorSpec{
			ConfigMap: "flags", PodSelector: map[string]string{"app": "web"}, Cooldown: &metav1.Duration{},
		},
	}
	for _, apply := range change {
		apply(&monitor.Spec)
	}
	return monitor
}

func newFlags(namespace string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "flags"}, Data: data}
}

// setFlag changes one key of the ConfigMap flags.
func setFlag(t *testing.T, namespace, key, value string) {
	t.Helper()
	change(t, newFlags(namespace, nil), func(c *corev1.ConfigMap) {
		if c.Data == nil {
			c.Data = map[string]string{}
		}
		c.Data[key] = value
	})
}

// newDeployment returns a Deployment whose pods have app=web and use no configuration.
func newDeployment(namespace, name string) *appsv1.Deployment {
	labels := map[string]string{"app": "web", "deployment": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](1),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "mainstay/demo-web:1.0"}}},
			},
		},
	}
}

// rollOut does what the Deployment controller would do once all pods of the current template run.
func rollOut(t *testing.T, deployment *appsv1.Deployment) {
	t.Helper()
	gomega.NewWithT(t).Eventually(func() error {
		if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(deployment), deployment); err != nil {
			return err
		}
		wanted := *deployment.Spec.Replicas
		deployment.Status = appsv1.DeploymentStatus{
			ObservedGeneration: deployment.Generation,
			Replicas:           wanted, UpdatedReplicas: wanted, ReadyReplicas: wanted, AvailableReplicas: wanted,
			Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue,
				Reason: "NewReplicaSetAvailable", LastUpdateTime: metav1.Now()}},
		}
		return cluster.Client.Status().Update(t.Context(), deployment)
	}).Should(gomega.Succeed())
}

// watched are the Deployments that a monitor selects.
type watched []*appsv1.Deployment

// by creates a monitor, waits until the stamps of the Deployments are written, and updates their
// observedGeneration as the Deployment controller would.
func (w watched) by(t *testing.T, monitor *configv1.ConfigMonitor) {
	t.Helper()
	g := gomega.NewWithT(t)
	create(t, monitor)
	for _, deployment := range w {
		g.Eventually(observedOn(deployment)).WithContext(t.Context()).ShouldNot(gomega.BeEmpty())
		rollOut(t, deployment)
	}
	g.Eventually(monitorReady(monitor)).WithContext(t.Context()).Should(gomega.Equal("True UpToDate"))
}

// restartedFor returns the token that a Deployment's pods were last restarted for, empty if
// Mainstay never restarted them.
func restartedFor(deployment *appsv1.Deployment) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		var seen appsv1.Deployment
		err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(deployment), &seen)
		return seen.Spec.Template.Annotations[configv1.AnnotationRestartedFor], err
	}
}

// monitored returns the status of a monitor, if it is of the current generation.
func monitored(monitor *configv1.ConfigMonitor) func(context.Context) (configv1.ConfigMonitorStatus, error) {
	return func(ctx context.Context) (configv1.ConfigMonitorStatus, error) {
		var seen configv1.ConfigMonitor
		err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(monitor), &seen)
		if seen.Status.ObservedGeneration != seen.Generation {
			return configv1.ConfigMonitorStatus{}, err
		}
		return seen.Status, err
	}
}

// monitorReady returns status and reason of the condition Ready.
func monitorReady(monitor *configv1.ConfigMonitor) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		return conditionOf(ctx, monitor, configv1.ConditionReady)
	}
}

// conditionOf returns status and reason of a condition, empty if there is none.
func conditionOf(ctx context.Context, monitor *configv1.ConfigMonitor, kind string) (string, error) {
	status, err := monitored(monitor)(ctx)
	for _, condition := range status.Conditions {
		if condition.Type == kind {
			return string(condition.Status) + " " + condition.Reason, err
		}
	}
	return "", err
}

// nextSecond waits until a new object is younger than the given one: the API server stores whole
// seconds.
func nextSecond(t *testing.T, object client.Object) {
	t.Helper()
	gomega.NewWithT(t).Eventually(func() bool {
		return time.Now().Truncate(time.Second).After(object.GetCreationTimestamp().Time)
	}).Should(gomega.BeTrue())
}

// TestConfigMonitorRefused checks that the API server refuses invalid specs with helpful messages.
func TestConfigMonitorRefused(t *testing.T) {
	namespace := namespace(t)
	for name, test := range map[string]struct{ spec, want string }{
		"neither":            {`{"podSelector":{"app":"web"}}`, "must set exactly one of spec.configMap or spec.secret"},
		"both kinds":         {`{"configMap":"a","secret":"b","podSelector":{"app":"web"}}`, "must set exactly one of spec.configMap or spec.secret"},
		"both spellings":     {`{"configMap":"a","configmap":"a","podSelector":{"app":"web"}}`, "must not set both spec.configMap and spec.configmap: they are two spellings of one field"},
		"no selector":        {`{"configMap":"a"}`, "spec.podSelector: Required value"},
		"an empty selector":  {`{"configMap":"a","podSelector":{}}`, "spec.podSelector"},
		"another strategy":   {`{"configMap":"a","podSelector":{"app":"web"},"strategy":"Kill"}`, `supported values: "Rollout", "Evict"`},
		"no time":            {`{"configMap":"a","podSelector":{"app":"web"},"cooldown":5}`, "spec.cooldown"},
		"none in parallel":   {`{"configMap":"a","podSelector":{"app":"web"},"maxParallel":0}`, "should be greater than or equal to 1"},
		"no time of the day": {`{"configMap":"a","podSelector":{"app":"web"},"window":{"start":"25:00","end":"04:00"}}`, "spec.window.start"},
	} {
		t.Run(name, func(t *testing.T) {
			object := &unstructured.Unstructured{}
			text := fmt.Sprintf(`{"apiVersion":"config.mainstay.dev/v1","kind":"ConfigMonitor","metadata":{"namespace":%q,"name":"flags"},"spec":%s}`, namespace, test.spec)
			if err := object.UnmarshalJSON([]byte(text)); err != nil {
				t.Fatal(err)
			}
			err := cluster.Client.Create(t.Context(), object, client.DryRunAll)
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

// TestConfigMonitorAdmission checks that the webhook refuses what the schema cannot, and warns of
// what is valid but unwise.
func TestConfigMonitorAdmission(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	server := newGoverned(t)
	server.start(t)
	refused := func(change func(*configv1.ConfigMonitorSpec)) error {
		return server.client.Create(t.Context(), newMonitor("elsewhere", change), client.DryRunAll)
	}
	g.Expect(refused(func(s *configv1.ConfigMonitorSpec) { s.PodSelector["app"] = "a b" })).To(gomega.MatchError(gomega.ContainSubstring(`spec.podSelector: Invalid value: "a b"`)))
	g.Expect(refused(func(s *configv1.ConfigMonitorSpec) { s.Keys = []string{"a/b"} })).To(gomega.MatchError(gomega.ContainSubstring(`spec.keys[0]: Invalid value: "a/b"`)))
	g.Expect(refused(func(s *configv1.ConfigMonitorSpec) { s.Debounce = &metav1.Duration{Duration: -time.Second} })).To(gomega.MatchError(gomega.ContainSubstring(`spec.debounce: Invalid value: "-1s": must be 0s or more`)))
	server.warnings()
	g.Expect(refused(evicting)).To(gomega.Succeed())
	g.Expect(server.warnings()).To(gomega.ConsistOf(gomega.ContainSubstring("set spec.maxParallel to limit that")))
}

// TestConfigMonitorSpecThatBypassedAdmission checks that an invalid spec that bypassed admission is
// reported and restarts nothing.
func TestConfigMonitorSpecThatBypassedAdmission(t *testing.T) {
	g, space, _ := managed(t)
	monitor := newMonitor(space, func(s *configv1.ConfigMonitorSpec) { s.Keys = []string{"a/b"} })
	create(t, monitor)
	g.Eventually(monitorReady(monitor)).WithContext(t.Context()).Should(gomega.Equal("False InvalidSpec"))
	g.Expect(conditionOf(t.Context(), monitor, configv1.ConditionStalled)).To(gomega.Equal("True InvalidSpec"))
}

// TestConfigMonitorSample checks that the sample is accepted under strict validation.
func TestConfigMonitorSample(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "config", "samples", "configmonitor.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var sample configv1.ConfigMonitor
	if err := yaml.UnmarshalStrict(text, &sample); err != nil {
		t.Fatal(err)
	}
	sample.Namespace = namespace(t)
	if err := cluster.Client.Create(t.Context(), &sample, client.DryRunAll); err != nil {
		t.Error(err)
	}
	configmonitor.Default(&sample)
	if problems, warnings := configmonitor.Validate(&sample), configmonitor.Warn(&sample); len(problems)+len(warnings) > 0 {
		t.Error(problems, warnings)
	}
}

// TestConfigMonitorFlaps checks that two writers that revert each other trip the breaker. An event
// of type Warning and a condition name the last writer: of each field, the API server records only
// that one.
func TestConfigMonitorFlaps(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	leaping := testenv.NewClock()
	in := namespace(t)
	startManagerWith(t, in, nil, testenv.WithClock(leaping))
	create(t, newFlags(in, map[string]string{"COLOUR": "red"}))
	web := newDeployment(in, "web")
	create(t, web)
	rollOut(t, web)
	monitor := newMonitor(in)
	watched{web}.by(t, monitor)
	for i := range 4 {
		before, err := restartedFor(web)(t.Context())
		g.Expect(err).NotTo(gomega.HaveOccurred())
		patch := fmt.Sprintf(`{"data":{"COLOUR":"%d"}}`, i)
		g.Expect(cluster.Client.Patch(t.Context(), newFlags(in, nil), client.RawPatch(types.MergePatchType, []byte(patch)),
			client.FieldOwner([]string{"tick", "tock"}[i%2]))).To(gomega.Succeed())
		g.Eventually(restartedFor(web)).WithContext(t.Context()).ShouldNot(gomega.Equal(before))
		rollOut(t, web)
	}
	g.Eventually(func(ctx context.Context) (string, error) {
		return conditionOf(ctx, monitor, configv1.ConditionFlapping)
	}).WithContext(t.Context()).Should(gomega.Equal("True Flapping"))
	warnings := func(ctx context.Context) ([]string, error) {
		events, err := eventsOn(monitor)(ctx)
		return slices.DeleteFunc(events, func(event string) bool { return !strings.HasPrefix(event, "Warning ") }), err
	}
	g.Eventually(warnings).WithContext(t.Context()).Should(gomega.ConsistOf(gomega.And(
		gomega.HavePrefix("Warning Flapping: ConfigMap/flags changes again and again"), gomega.ContainSubstring("tock"))))
	leaping.Leap(time.Hour)
	setFlag(t, in, "COLOUR", "at last")
	g.Eventually(func(ctx context.Context) (string, error) {
		return conditionOf(ctx, monitor, configv1.ConditionFlapping)
	}).WithContext(t.Context()).Should(gomega.BeEmpty())
}

// TestConfigMonitorRestartsOnce checks that a change restarts the selected workloads once and no
// others, and that the second pass writes nothing.
func TestConfigMonitorRestartsOnce(t *testing.T) {
	g, in, manager := managed(t)
	create(t, newFlags(in, map[string]string{"COLOUR": "red"}))
	web, other := newDeployment(in, "web"), newDeployment(in, "other")
	other.Spec.Template.Labels["app"] = "other"
	other.Spec.Selector.MatchLabels["app"] = "other"
	for _, deployment := range []*appsv1.Deployment{web, other} {
		create(t, deployment)
		rollOut(t, deployment)
	}
	monitor := newMonitor(in)
	watched{web}.by(t, monitor)
	g.Expect(restartedFor(web)(t.Context())).To(gomega.BeEmpty(), "the first reconcile restarts nothing")

	setFlag(t, in, "COLOUR", "blue")
	g.Eventually(restartedFor(web)).WithContext(t.Context()).Should(gomega.HavePrefix("flags="))
	g.Eventually(monitorReady(monitor)).WithContext(t.Context()).Should(gomega.Equal("False Restarting"))
	rollOut(t, web)
	g.Eventually(monitorReady(monitor)).WithContext(t.Context()).Should(gomega.Equal("True UpToDate"))
	status, err := monitored(monitor)(t.Context())
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(status.Source).To(gomega.Equal("ConfigMap/flags"))
	g.Expect(status.Matched).To(gomega.BeNumerically("==", 1))
	g.Expect(status.UpToDate).To(gomega.BeNumerically("==", 1))
	g.Expect(status.Restarts).To(gomega.BeNumerically("==", 1))
	g.Expect(status.LastRestart).NotTo(gomega.BeNil())
	g.Expect(status.LastChange).NotTo(gomega.BeNil())
	g.Expect(status.Skipped).To(gomega.BeEmpty())
	g.Expect(restartedFor(other)(t.Context())).To(gomega.BeEmpty(), "it is not selected")

	before := manager.Settle(t)
	change(t, web, func(d *appsv1.Deployment) { d.Labels = map[string]string{"example.com/note": "1"} })
	manager.Settle(t)
	g.Expect(manager.Requests.Since(before, in)).To(gomega.BeEmpty(), "nothing that matters has changed")
	manager.Stop()
	restarted := startManager(t, in)
	restarted.Settle(t)
	g.Expect(restarted.Requests.Since(0, "/"+in+"/")).To(gomega.BeEmpty(), "a restarted manager writes and reads nothing")
}

// TestConfigMonitorSources checks the other spelling, keys, and a source that is deleted and
// recreated.
func TestConfigMonitorSources(t *testing.T) {
	g, in, _ := managed(t)
	flags := newFlags(in, map[string]string{"COLOUR": "red", "NOISE": "1"})
	create(t, flags)
	web := newDeployment(in, "web")
	create(t, web)
	rollOut(t, web)
	monitor := newMonitor(in, func(s *configv1.ConfigMonitorSpec) {
		s.ConfigMap, s.LowerConfigMap, s.Keys = "", "flags", []string{"COLOUR"}
	})
	watched{web}.by(t, monitor)

	setFlag(t, in, "NOISE", "2")
	setFlag(t, in, "COLOUR", "blue")
	g.Eventually(restartedFor(web)).WithContext(t.Context()).ShouldNot(gomega.BeEmpty())
	first, err := restartedFor(web)(t.Context())
	g.Expect(err).NotTo(gomega.HaveOccurred())
	rollOut(t, web)
	g.Eventually(monitorReady(monitor)).WithContext(t.Context()).Should(gomega.Equal("True UpToDate"))

	g.Expect(cluster.Client.Delete(t.Context(), flags)).To(gomega.Succeed())
	g.Eventually(monitorReady(monitor)).WithContext(t.Context()).Should(gomega.Equal("False SourceMissing"))
	create(t, newFlags(in, map[string]string{"COLOUR": "blue", "NOISE": "3"}))
	g.Eventually(monitorReady(monitor)).WithContext(t.Context()).Should(gomega.Equal("True UpToDate"))
	g.Expect(restartedFor(web)(t.Context())).To(gomega.Equal(first), "neither another key nor the deletion restarts anything")

	change(t, monitor, func(m *configv1.ConfigMonitor) { m.Spec.PodSelector = map[string]string{"app": "nobody"} })
	g.Eventually(monitorReady(monitor)).WithContext(t.Context()).Should(gomega.Equal("False NothingMatched"))
	change(t, monitor, func(m *configv1.ConfigMonitor) {
		m.Spec.LowerConfigMap, m.Spec.Keys, m.Spec.Secret = "", nil, "database"
	})
	g.Eventually(func(ctx context.Context) (string, error) {
		return conditionOf(ctx, monitor, configv1.ConditionSecretAccessNotGranted)
	}).WithContext(t.Context()).Should(gomega.Equal("True SecretAccessNotGranted"))
	g.Expect(conditionOf(t.Context(), monitor, configv1.ConditionStalled)).To(gomega.Equal("True SecretAccessNotGranted"))
}

// TestConfigMonitorsTogether checks that one change of a ConfigMap with two monitors restarts a
// workload once.
func TestConfigMonitorsTogether(t *testing.T) {
	g, in, _ := managed(t)
	create(t, newFlags(in, map[string]string{"COLOUR": "red"}))
	web := newDeployment(in, "web")
	create(t, web)
	rollOut(t, web)
	one, two := newMonitor(in), newMonitor(in, func(s *configv1.ConfigMonitorSpec) { s.PodSelector = map[string]string{"deployment": "web"} })
	two.Name = "web"
	watched{web}.by(t, one)
	watched{web}.by(t, two)
	before := generationOf(t, web)
	setFlag(t, in, "COLOUR", "blue")
	g.Eventually(restartedFor(web)).WithContext(t.Context()).ShouldNot(gomega.BeEmpty())
	rollOut(t, web)
	for _, monitor := range []*configv1.ConfigMonitor{one, two} {
		g.Eventually(func(ctx context.Context) (int64, error) {
			status, err := monitored(monitor)(ctx)
			return status.Restarts, err
		}).WithContext(t.Context()).Should(gomega.BeNumerically("==", 1))
		g.Eventually(monitorReady(monitor)).WithContext(t.Context()).Should(gomega.Equal("True UpToDate"))
	}
	g.Expect(templateChanges(t, web, before)).To(gomega.BeNumerically("==", 1))
}

// generationOf returns the generation of a Deployment, which its spec and its annotations increase.
func generationOf(t *testing.T, deployment *appsv1.Deployment) int64 {
	t.Helper()
	var seen appsv1.Deployment
	if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(deployment), &seen); err != nil {
		t.Fatal(err)
	}
	return seen.Generation
}

// templateChanges returns how often a Deployment was patched since a generation. Stamp and restart
// are one write.
func templateChanges(t *testing.T, deployment *appsv1.Deployment, since int64) int64 {
	t.Helper()
	return generationOf(t, deployment) - since
}

// TestConfigMonitorDelays checks that the status reports restarts that cooldown, debounce or
// maxParallel delay, with the reason.
func TestConfigMonitorDelays(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*configv1.ConfigMonitorSpec)
		reason string
		// delayed is the number of Deployments, of two, whose restart is delayed at the second change.
		delayed int
	}{
		"cooldown": {func(s *configv1.ConfigMonitorSpec) { s.Cooldown = &metav1.Duration{Duration: time.Hour} }, configv1.SkippedCooldown, 2},
		"debounce": {func(s *configv1.ConfigMonitorSpec) { s.Debounce = &metav1.Duration{Duration: time.Hour} }, configv1.SkippedDebounce, 2},
		"parallel": {func(s *configv1.ConfigMonitorSpec) { s.MaxParallel = ptr.To[int32](1) }, "WaitingForOthers", 1},
	} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			in := namespace(t)
			startManager(t, in)
			create(t, newFlags(in, map[string]string{"COLOUR": "red"}))
			deployments := []*appsv1.Deployment{newDeployment(in, "one"), newDeployment(in, "two")}
			for _, deployment := range deployments {
				create(t, deployment)
				rollOut(t, deployment)
			}
			monitor := newMonitor(in, test.change)
			watched(deployments).by(t, monitor)
			setFlag(t, in, "COLOUR", "blue")
			for _, deployment := range deployments {
				g.Eventually(restartedFor(deployment)).WithContext(t.Context()).ShouldNot(gomega.BeEmpty())
				rollOut(t, deployment)
			}
			g.Eventually(monitorReady(monitor)).WithContext(t.Context()).Should(gomega.Equal("True UpToDate"))
			setFlag(t, in, "COLOUR", "green")
			g.Eventually(func(ctx context.Context) ([]string, error) {
				status, err := monitored(monitor)(ctx)
				var reasons []string
				for _, skipped := range status.Skipped {
					reasons = append(reasons, skipped.Reason)
				}
				return reasons, err
			}).WithContext(t.Context()).Should(gomega.Equal(slices.Repeat([]string{test.reason}, test.delayed)))

			setFlag(t, in, "COLOUR", "blue")
			g.Eventually(func(ctx context.Context) ([]configv1.Skipped, error) {
				// The manager may see that one is rolled out before it sees the change, and restart both again.
				for _, deployment := range deployments {
					rollOut(t, deployment)
				}
				status, err := monitored(monitor)(ctx)
				return status.Skipped, err
			}).WithContext(t.Context()).Should(gomega.BeEmpty(), "a change that is reverted in time restarts nothing")
		})
	}
}

// TestConfigMonitorOutsideItsWindow checks that nothing restarts, not even by the baseline, and
// that the status reports the reason.
func TestConfigMonitorOutsideItsWindow(t *testing.T) {
	g, in, _ := managed(t)
	create(t, newFlags(in, map[string]string{"COLOUR": "red"}))
	web := newDeployment(in, "web")
	create(t, web)
	rollOut(t, web)
	soon := time.Now().UTC().Add(12 * time.Hour)
	monitor := newMonitor(in, func(s *configv1.ConfigMonitorSpec) {
		s.Window = &rolloutv1.Window{Start: soon.Format("15:04"), End: soon.Add(time.Minute).Format("15:04")}
	})
	watched{web}.by(t, monitor)
	setFlag(t, in, "COLOUR", "blue")
	g.Eventually(monitorReady(monitor)).WithContext(t.Context()).Should(gomega.Equal("False Waiting"))
	status, err := monitored(monitor)(t.Context())
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(status.Skipped).To(gomega.ConsistOf(gomega.HaveField("Reason", "OutsideWindow")))
	g.Expect(restartedFor(web)(t.Context())).To(gomega.BeEmpty())
}

// TestConfigMonitorBaseline checks that a workload without a stamp restarts if its pods started
// before the source changed.
func TestConfigMonitorBaseline(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	in := namespace(t)
	flags := newFlags(in, map[string]string{"COLOUR": "red"})
	create(t, flags)
	older, younger := newDeployment(in, "older"), newDeployment(in, "younger")
	for _, deployment := range []*appsv1.Deployment{older, younger} {
		create(t, deployment)
		rollOut(t, deployment)
	}
	pods := replicaSetOf(older)
	create(t, pods)
	nextSecond(t, pods)
	setFlag(t, in, "COLOUR", "blue")
	create(t, replicaSetOf(younger))
	manager := startManager(t, in)
	watched{older, younger}.by(t, newMonitor(in))
	g.Eventually(restartedFor(older)).WithContext(t.Context()).ShouldNot(gomega.BeEmpty())
	manager.Settle(t)
	g.Expect(restartedFor(younger)(t.Context())).To(gomega.BeEmpty())
}

// replicaSetOf returns the ReplicaSet that the Deployment controller would make.
func replicaSetOf(deployment *appsv1.Deployment) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: deployment.Namespace, Name: deployment.Name + "-1", Labels: deployment.Spec.Template.Labels,
			Annotations:     map[string]string{"deployment.kubernetes.io/revision": "1"},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(deployment, appsv1.SchemeGroupVersion.WithKind("Deployment"))},
		},
		Spec: appsv1.ReplicaSetSpec{Selector: deployment.Spec.Selector, Template: deployment.Spec.Template},
	}
}
