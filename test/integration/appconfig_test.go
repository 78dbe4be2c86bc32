package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/mainstay-platform/mainstay/api"
	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	rolloutv1 "github.com/mainstay-platform/mainstay/api/rollout/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/appconfig"
	"github.com/mainstay-platform/mainstay/internal/setup"
	"github.com/mainstay-platform/mainstay/test/testenv"
)

// newConfig returns an AppConfig of the application shop. Its ConfigMap has one key, MESSAGE.
func newConfig(namespace string, change ...func(*configv1.AppConfigSpec)) *configv1.AppConfig {
	config := &configv1.AppConfig{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shop"},
		Spec:       configv1.AppConfigSpec{Application: "shop", Config: map[string]string{"MESSAGE": "hello"}},
	}
	for _, apply := range change {
		apply(&config.Spec)
	}
	return config
}

// withMessage returns a change that sets the message.
func withMessage(text string) func(*configv1.AppConfig) {
	return func(config *configv1.AppConfig) { config.Spec.Config = map[string]string{"MESSAGE": text} }
}

// statusOf returns the status of an AppConfig as text: Ready with its reason, the revision, the
// pods, and what is pending.
func statusOf(config *configv1.AppConfig) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		var seen configv1.AppConfig
		if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(config), &seen); err != nil {
			return "", err
		}
		if seen.Status.ObservedGeneration != seen.Generation {
			return "stale", nil
		}
		text := ""
		for _, condition := range seen.Status.Conditions {
			if condition.Type == configv1.ConditionReady {
				text = fmt.Sprintf("%s %s, revision %d, %s", condition.Status, condition.Reason, seen.Status.Revision, seen.Status.PodSummary)
			}
		}
		if seen.Status.Pending != nil {
			text += ", pending " + seen.Status.Pending.Reason
		}
		return text, nil
	}
}

// data returns the content of a ConfigMap, nil if it does not exist.
func data(namespace, name string) func(context.Context) (map[string]string, error) {
	return func(ctx context.Context) (map[string]string, error) {
		var configMap corev1.ConfigMap
		err := cluster.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &configMap)
		return configMap.Data, client.IgnoreNotFound(err)
	}
}

// hello returns the content with one message.
func hello(text string) map[string]string { return map[string]string{"MESSAGE": text} }

// reportRollout does what the Deployment controller would: it reports the only pod of the current
// template as available, or its rollout as failed.
func reportRollout(t *testing.T, deployment *appsv1.Deployment, available bool) {
	t.Helper()
	gomega.NewWithT(t).Eventually(func() error {
		if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(deployment), deployment); err != nil {
			return err
		}
		status := appsv1.DeploymentStatus{ObservedGeneration: deployment.Generation, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1,
			AvailableReplicas: 1}
		progressing := appsv1.DeploymentCondition{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue,
			Reason: "NewReplicaSetAvailable", LastUpdateTime: metav1.Now()}
		if !available {
			status.Replicas, status.UnavailableReplicas = 2, 1
			progressing.Status, progressing.Reason, progressing.Message = corev1.ConditionFalse, "ProgressDeadlineExceeded",
				"it has timed out progressing"
		}
		status.Conditions = []appsv1.DeploymentCondition{progressing}
		deployment.Status = status
		return cluster.Client.Status().Update(t.Context(), deployment)
	}).Should(gomega.Succeed())
}

// shop returns an AppConfig, rolled out, and the Deployment that uses its ConfigMap.
func shop(t *testing.T, space string, change ...func(*configv1.AppConfigSpec)) (*configv1.AppConfig, *appsv1.Deployment) {
	t.Helper()
	g := gomega.NewWithT(t)
	config, deployment := newConfig(space, change...), user(space, "web", "shop-config", nil)
	create(t, config)
	g.Eventually(statusOf(config)).WithContext(t.Context()).Should(gomega.Equal("True NoUsers, revision 1, 0/0"))
	create(t, deployment)
	g.Eventually(startedFor(deployment)).WithContext(t.Context()).Should(gomega.Equal("first"))
	reportRollout(t, deployment, true)
	g.Eventually(statusOf(config)).WithContext(t.Context()).Should(gomega.Equal("True UpToDate, revision 1, 1/1"))
	return config, deployment
}

// TestAppConfigSample checks that the API server accepts the sample under strict validation, and
// that the manager accepts it, in each environment.
func TestAppConfigSample(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "config", "samples", "appconfig.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	sample := &configv1.AppConfig{}
	if err := yaml.UnmarshalStrict(text, sample); err != nil {
		t.Fatal(err)
	}
	sample.Namespace = namespace(t)
	if err := cluster.Client.Create(t.Context(), sample, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict)); err != nil {
		t.Fatal(err)
	}
	for _, environment := range []map[string]string{nil, {api.LabelEnvironment: "development"}, {api.LabelEnvironment: "staging"},
		{api.LabelEnvironment: "production"}} {
		place := appconfig.Place{Labels: environment}
		problems := append(appconfig.Validate(sample, place.Environments), appconfig.ValidateIn(sample, place, nil)...)
		if len(problems) > 0 {
			t.Error(problems.ToAggregate())
		}
	}
}

func TestAppConfigRolls(t *testing.T) {
	g, space, manager := managed(t)
	config, deployment := shop(t, space)
	manager.Settle(t)
	before := manager.Requests.Count()
	change(t, config, withMessage("bye"))
	g.Eventually(startedFor(deployment)).WithContext(t.Context()).Should(gomega.Equal(content("shop-config", "MESSAGE", "bye")))
	g.Eventually(statusOf(config)).WithContext(t.Context()).Should(gomega.Equal("False RollingOut, revision 2, 0/1"))
	g.Expect(data(space, "shop-config")(t.Context())).To(gomega.Equal(hello("bye")))
	g.Expect(data(space, "shop-config-1")(t.Context())).To(gomega.Equal(hello("hello")))
	g.Expect(data(space, "shop-config-2")(t.Context())).To(gomega.Equal(hello("bye")))
	reportRollout(t, deployment, true)
	g.Eventually(statusOf(config)).WithContext(t.Context()).Should(gomega.Equal("True UpToDate, revision 2, 1/1"))
	seen := read(t, config, &configv1.AppConfig{})
	g.Expect(seen.Status.Phase).To(gomega.Equal(api.PhaseActive))
	manager.Settle(t)
	main := "PATCH /api/v1/namespaces/" + space + "/configmaps/shop-config"
	var writes []string
	for _, call := range manager.Requests.Done(before, main) {
		if call == main {
			writes = append(writes, call)
		}
	}
	// One for the content, and one that records that all pods have run it.
	g.Expect(writes).To(gomega.HaveLen(2))
	g.Expect(manager.Requests.Done(before, "PATCH /apis/apps/v1/namespaces/"+space)).To(gomega.HaveLen(1))
	g.Expect(manager.Requests.Since(before)).NotTo(gomega.ContainElement("GET /api/v1/namespaces/"+space+"/configmaps"), "no list")

	settled := manager.Settle(t)
	change(t, config, func(config *configv1.AppConfig) { config.Labels = map[string]string{"touched": "yes"} })
	manager.Settle(t)
	g.Expect(manager.Requests.Since(settled, space)).To(gomega.BeEmpty(), "the second pass writes and reads nothing")

	var kept corev1.ConfigMap
	g.Expect(cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: space, Name: "shop-config-1"}, &kept)).To(gomega.Succeed())
	g.Expect(*kept.Immutable).To(gomega.BeTrue())
	g.Expect(metav1.IsControlledBy(&kept, config)).To(gomega.BeTrue(), "it is deleted with its owner")
	kept.Data["MESSAGE"] = "other"
	g.Expect(apierrors.IsInvalid(cluster.Client.Update(t.Context(), &kept))).To(gomega.BeTrue(), "a revision can't be edited")
}

func TestAppConfigHealsHandEdits(t *testing.T) {
	g, space, _ := managed(t)
	config, deployment := shop(t, space)
	change(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "shop-config"}}, func(edited *corev1.ConfigMap) {
		edited.Annotations["example.com/note"] = "theirs"
		edited.Data = map[string]string{"MESSAGE": "oops", "MORE": "x"}
		edited.BinaryData = map[string][]byte{"LOGO": {0xff}}
	})
	g.Eventually(data(space, "shop-config")).WithContext(t.Context()).Should(gomega.Equal(hello("hello")))
	g.Eventually(statusOf(config)).WithContext(t.Context()).Should(gomega.Equal("True UpToDate, revision 1, 1/1"))
	var healed corev1.ConfigMap
	g.Expect(cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: space, Name: "shop-config"}, &healed)).To(gomega.Succeed())
	g.Expect(healed.Annotations).To(gomega.HaveKeyWithValue("example.com/note", "theirs"), "annotations of others are kept")
	g.Expect(cluster.Client.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: space,
		Name: "shop-config-1"}})).To(gomega.Succeed())
	g.Eventually(data(space, "shop-config-1")).WithContext(t.Context()).Should(gomega.Equal(hello("hello")))
	g.Expect(cluster.Client.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: space,
		Name: "shop-config"}})).To(gomega.Succeed())
	g.Eventually(data(space, "shop-config")).WithContext(t.Context()).Should(gomega.Equal(hello("hello")))
	g.Expect(startedFor(deployment)(t.Context())).To(gomega.Equal("first"), "healing restarts nothing")
}

func TestAppConfigThatDoesNotRenderKeepsItsConfigMap(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	startManager(t, ns)
	space, g := ns, gomega.NewWithT(t)
	config, _ := shop(t, space)
	change(t, config, withMessage("a\n{{ .Values.NO }}"))
	g.Eventually(statusOf(config)).WithContext(t.Context()).Should(gomega.Equal("False InvalidSpec, revision 1, 1/1"))
	g.Expect(cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(config), config)).To(gomega.Succeed())
	g.Expect(config.Status.Conditions).To(gomega.ContainElement(gomega.HaveField("Message",
		"spec.config.MESSAGE: Invalid value: line 2: there is no key NO in config: it has MESSAGE")))
	g.Expect(data(space, "shop-config")(t.Context())).To(gomega.Equal(hello("hello")))
	change(t, config, withMessage("back"))
	g.Eventually(data(space, "shop-config")).WithContext(t.Context()).Should(gomega.Equal(hello("back")))
}

func TestAppConfigEnvironment(t *testing.T) {
	g, space, _ := managed(t)
	config := newConfig(space, func(spec *configv1.AppConfigSpec) {
		spec.Config["MESSAGE"] = "{{ .Environment }} {{ .Values.HOST }}"
		spec.Config["HOST"] = "db"
		spec.Environments = map[string]configv1.ConfigOverride{"prod": {Config: map[string]string{"HOST": "db.prod"}}}
	})
	create(t, config)
	g.Eventually(data(space, "shop-config")).WithContext(t.Context()).Should(gomega.Equal(map[string]string{"HOST": "db", "MESSAGE": " db"}))
	label(t, space, "production")
	g.Eventually(data(space, "shop-config")).WithContext(t.Context()).Should(gomega.Equal(map[string]string{"HOST": "db.prod",
		"MESSAGE": "production db.prod"}))
	change(t, config, func(config *configv1.AppConfig) { config.Spec.Environment = "dev" })
	g.Eventually(statusOf(config)).WithContext(t.Context()).Should(gomega.HavePrefix("False InvalidSpec"))
}

func TestAppConfigConflict(t *testing.T) {
	g, space, _ := managed(t)
	first, second := newConfig(space), newConfig(space)
	second.Name, second.Spec.Config = "zweite", hello("second")
	create(t, first, second)
	g.Eventually(statusOf(first)).WithContext(t.Context()).Should(gomega.Equal("True NoUsers, revision 1, 0/0"))
	g.Eventually(statusOf(second)).WithContext(t.Context()).Should(gomega.HavePrefix("False Conflict"))
	g.Expect(cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(second), second)).To(gomega.Succeed())
	g.Expect(second.Status.Conditions).To(gomega.ContainElement(gomega.HaveField("Message",
		gomega.ContainSubstring("AppConfig shop is for application shop too"))))
	g.Expect(data(space, "shop-config")(t.Context())).To(gomega.Equal(hello("hello")))

	// Do the work of the garbage collector, which does not run here.
	g.Expect(cluster.Client.Delete(t.Context(), first)).To(gomega.Succeed())
	g.Expect(cluster.Client.DeleteAllOf(t.Context(), &corev1.ConfigMap{}, client.InNamespace(space),
		client.MatchingLabels{configv1.LabelAppConfig: "shop"})).To(gomega.Succeed())
	g.Eventually(data(space, "shop-config")).WithContext(t.Context()).Should(gomega.Equal(hello("second")))
}

// TestAppConfigOfOneSecond checks that the AppConfig that created the ConfigMap keeps it, although
// another of the same second has the smaller name.
func TestAppConfigOfOneSecond(t *testing.T) {
	g, space, _ := managed(t)
	first, second := newConfig(space), newConfig(space)
	first.Name, second.Name, second.Spec.Config = "b", "a", hello("second")
	create(t, first)
	g.Eventually(statusOf(first)).WithContext(t.Context()).Should(gomega.Equal("True NoUsers, revision 1, 0/0"))
	create(t, second)
	g.Eventually(statusOf(second)).WithContext(t.Context()).Should(gomega.HavePrefix("False Conflict"))
	g.Expect(cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(second), second)).To(gomega.Succeed())
	g.Expect(second.Status.Conditions).To(gomega.ContainElement(gomega.HaveField("Message",
		gomega.HavePrefix("AppConfig b is for application shop too and takes precedence"))))
	change(t, first, withMessage("bye"))
	g.Eventually(statusOf(first)).WithContext(t.Context()).Should(gomega.Equal("True NoUsers, revision 2, 0/0"))
	g.Expect(data(space, "shop-config")(t.Context())).To(gomega.Equal(hello("bye")))
}

func TestAppConfigPin(t *testing.T) {
	g, space, _ := managed(t)
	config, deployment := shop(t, space)
	change(t, config, withMessage("bye"))
	g.Eventually(statusOf(config)).WithContext(t.Context()).Should(gomega.Equal("False RollingOut, revision 2, 0/1"))
	g.Eventually(startedFor(deployment)).WithContext(t.Context()).Should(gomega.Equal(content("shop-config", "MESSAGE", "bye")))
	reportRollout(t, deployment, true)
	g.Eventually(statusOf(config)).WithContext(t.Context()).Should(gomega.Equal("True UpToDate, revision 2, 1/1"))
	change(t, config, func(config *configv1.AppConfig) { config.Spec.Revision = new(int64(1)) })
	g.Eventually(startedFor(deployment)).WithContext(t.Context()).Should(gomega.Equal(content("shop-config", "MESSAGE", "hello")))
	g.Expect(data(space, "shop-config")(t.Context())).To(gomega.Equal(hello("hello")))
	reportRollout(t, deployment, true)
	g.Eventually(statusOf(config)).WithContext(t.Context()).Should(gomega.Equal("True Pinned, revision 1, 1/1, pending Pinned"))
	change(t, config, func(config *configv1.AppConfig) { config.Spec.Revision = new(int64(9)) })
	g.Eventually(statusOf(config)).WithContext(t.Context()).Should(gomega.Equal("False RevisionNotFound, revision 1, 1/1, pending Pinned"))
	g.Expect(data(space, "shop-config")(t.Context())).To(gomega.Equal(hello("hello")))
}

// TestAppConfigPinDuringARollout checks that a revision that is chosen while the canary has a new
// content reaches the canary, and that no other workload gets the new content meanwhile. What keeps
// them is a race here: TestDemandsOfARevision is about it alone.
func TestAppConfigPinDuringARollout(t *testing.T) {
	g, space, _ := managed(t)
	config, web := shop(t, space, func(spec *configv1.AppConfigSpec) { spec.Rollout.Canary = &rolloutv1.Canary{Count: 1} })
	worker := user(space, "worker", "shop-config", nil)
	create(t, worker)
	g.Eventually(startedFor(worker)).WithContext(t.Context()).Should(gomega.Equal("first"))
	reportRollout(t, worker, true)
	change(t, config, withMessage("bad"))
	g.Eventually(startedFor(web)).WithContext(t.Context()).Should(gomega.Equal(content("shop-config", "MESSAGE", "bad")))
	change(t, config, func(config *configv1.AppConfig) { config.Spec.Revision = new(int64(1)) })
	g.Eventually(startedFor(web)).WithContext(t.Context()).Should(gomega.Equal(content("shop-config", "MESSAGE", "hello")))
	reportRollout(t, web, true)
	g.Eventually(statusOf(config)).WithContext(t.Context()).Should(gomega.Equal("True Pinned, revision 1, 2/2, pending Pinned"))
	g.Expect(startedFor(worker)(t.Context())).To(gomega.Equal("first"))
}

func TestAppConfigManual(t *testing.T) {
	g, space, _ := managed(t)
	config, _ := shop(t, space, func(spec *configv1.AppConfigSpec) { spec.Rollout.Mode = configv1.RolloutManual })
	change(t, config, withMessage("bye"))
	g.Eventually(statusOf(config)).WithContext(t.Context()).Should(
		gomega.Equal("False AwaitingApproval, revision 1, 1/1, pending AwaitingApproval"))
	g.Expect(data(space, "shop-config")(t.Context())).To(gomega.Equal(hello("hello")))
	setData(t, space, "shop-config", "MESSAGE", "oops")
	g.Eventually(data(space, "shop-config")).WithContext(t.Context()).Should(gomega.Equal(hello("hello")),
		"a pending revision does not block healing")
	change(t, config, func(config *configv1.AppConfig) { config.Spec.Rollout.Approved = config.Status.Pending.Hash })
	g.Eventually(data(space, "shop-config")).WithContext(t.Context()).Should(gomega.Equal(hello("bye")))
	g.Eventually(statusOf(config)).WithContext(t.Context()).Should(gomega.Equal("False RollingOut, revision 2, 0/1"))
}

func TestAppConfigWindow(t *testing.T) {
	t.Parallel()
	late := testenv.NewClock()
	ns := namespace(t)
	startManagerWith(t, ns, nil, testenv.WithClock(late))
	space, g := ns, gomega.NewWithT(t)
	// The window opens in three hours and closes in five.
	now := time.Now().UTC()
	window := &rolloutv1.Window{Start: now.Add(3 * time.Hour).Format("15:04"), End: now.Add(5 * time.Hour).Format("15:04")}
	config := newConfig(space, func(spec *configv1.AppConfigSpec) { spec.Rollout.Window = window })
	create(t, config)
	g.Eventually(statusOf(config)).WithContext(t.Context()).Should(gomega.Equal("True NoUsers, revision 1, 0/0"),
		"the first revision does not wait")
	change(t, config, withMessage("bye"))
	g.Eventually(statusOf(config)).WithContext(t.Context()).Should(gomega.Equal("False OutsideWindow, revision 1, 0/0, pending OutsideWindow"))
	g.Expect(data(space, "shop-config")(t.Context())).To(gomega.Equal(hello("hello")))
	late.Leap(4 * time.Hour)
	change(t, config, func(config *configv1.AppConfig) { config.Labels = map[string]string{"touched": "yes"} })
	g.Eventually(data(space, "shop-config")).WithContext(t.Context()).Should(gomega.Equal(hello("bye")))
}

func TestAppConfigRollsBack(t *testing.T) {
	g, space, _ := managed(t)
	config, deployment := shop(t, space, func(spec *configv1.AppConfigSpec) { spec.Rollout.OnFailure = configv1.FailureRollback })
	change(t, config, withMessage("bad"))
	g.Eventually(startedFor(deployment)).WithContext(t.Context()).Should(gomega.Equal(content("shop-config", "MESSAGE", "bad")))
	reportRollout(t, deployment, false)
	g.Eventually(startedFor(deployment)).WithContext(t.Context()).Should(gomega.Equal(content("shop-config", "MESSAGE", "hello")))
	g.Expect(data(space, "shop-config")(t.Context())).To(gomega.Equal(hello("hello")))
	reportRollout(t, deployment, true)
	g.Eventually(statusOf(config)).WithContext(t.Context()).Should(gomega.Equal("False RolledBack, revision 1, 1/1, pending RolledBack"))
	change(t, config, withMessage("good"))
	g.Eventually(startedFor(deployment)).WithContext(t.Context()).Should(gomega.Equal(content("shop-config", "MESSAGE", "good")))
	reportRollout(t, deployment, true)
	g.Eventually(statusOf(config)).WithContext(t.Context()).Should(gomega.Equal("True UpToDate, revision 3, 1/1"))
}

// TestAppConfigRollsBackOutsideItsWindow checks that a rollback does not wait for the window: pods
// must not keep a failed content until it opens.
func TestAppConfigRollsBackOutsideItsWindow(t *testing.T) {
	t.Parallel()
	late := testenv.NewClock()
	ns := namespace(t)
	startManagerWith(t, ns, nil, testenv.WithClock(late))
	space, g := ns, gomega.NewWithT(t)
	// The window is open and closes in an hour.
	now := time.Now().UTC()
	window := &rolloutv1.Window{Start: now.Add(-time.Hour).Format("15:04"), End: now.Add(time.Hour).Format("15:04")}
	config, deployment := shop(t, space, func(spec *configv1.AppConfigSpec) {
		spec.Rollout.OnFailure, spec.Rollout.Window = configv1.FailureRollback, window
	})
	change(t, config, withMessage("bad"))
	g.Eventually(startedFor(deployment)).WithContext(t.Context()).Should(gomega.Equal(content("shop-config", "MESSAGE", "bad")))
	late.Leap(3 * time.Hour)
	reportRollout(t, deployment, false)
	g.Eventually(startedFor(deployment)).WithContext(t.Context()).Should(gomega.Equal(content("shop-config", "MESSAGE", "hello")))
	reportRollout(t, deployment, true)
	g.Eventually(statusOf(config)).WithContext(t.Context()).Should(gomega.Equal("False RolledBack, revision 1, 1/1, pending RolledBack"))
}

func TestAppConfigStopsWhereItFails(t *testing.T) {
	g, space, _ := managed(t)
	config, deployment := shop(t, space, func(spec *configv1.AppConfigSpec) { spec.Rollout.MaxParallel = new(int32(1)) })
	other := user(space, "worker", "shop-config", nil)
	create(t, other)
	g.Eventually(startedFor(other)).WithContext(t.Context()).Should(gomega.Equal("first"))
	reportRollout(t, other, true)
	change(t, config, withMessage("bad"))
	g.Eventually(startedFor(deployment)).WithContext(t.Context()).Should(gomega.Equal(content("shop-config", "MESSAGE", "bad")))
	reportRollout(t, deployment, false)
	g.Eventually(statusOf(config)).WithContext(t.Context()).Should(gomega.Equal("False RolloutFailed, revision 2, 1/3"))
	g.Expect(data(space, "shop-config")(t.Context())).To(gomega.Equal(hello("bad")))
	g.Expect(startedFor(other)(t.Context())).To(gomega.Equal("first"), "no other workload starts")
}

func TestAppConfigPrunesRevisions(t *testing.T) {
	g, space, _ := managed(t)
	config := newConfig(space, func(spec *configv1.AppConfigSpec) { spec.RevisionHistoryLimit = new(int32(1)) })
	create(t, config)
	for revision := 1; revision <= 4; revision++ {
		g.Eventually(statusOf(config)).WithContext(t.Context()).Should(gomega.Equal(fmt.Sprintf("True NoUsers, revision %d, 0/0", revision)))
		change(t, config, withMessage(strings.Repeat("x", revision)))
	}
	g.Eventually(func(ctx context.Context) ([]string, error) {
		var all corev1.ConfigMapList
		err := cluster.Client.List(ctx, &all, client.InNamespace(space), client.MatchingLabels{configv1.LabelAppConfig: "shop"})
		var names []string
		for i := range all.Items {
			names = append(names, all.Items[i].Name)
		}
		return names, err
	}).WithContext(t.Context()).Should(gomega.ConsistOf("shop-config", "shop-config-4", "shop-config-5"))
}

// testAppConfig checks that content that does not render is refused, and that the earlier content
// remains.
func (s *governed) testAppConfig(t *testing.T) {
	g := gomega.NewWithT(t)
	refused := func(change func(*configv1.AppConfigSpec), why ...string) {
		t.Helper()
		err := s.client.Create(t.Context(), newConfig("shop-prod", change))
		g.Expect(apierrors.IsInvalid(err)).To(gomega.BeTrue(), "%v", err)
		for _, part := range why {
			g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring(part)))
		}
	}
	refused(func(spec *configv1.AppConfigSpec) { spec.Config["URL"] = "a\n{{ .Values.NO }}" }, "spec.config.URL: ",
		"line 2: there is no key NO in config: it has MESSAGE, URL")
	refused(func(spec *configv1.AppConfigSpec) {
		spec.Config = map[string]string{"A": "{{ .Values.B }}", "B": "{{ .Values.A }}"}
	}, "refers to itself: A -> B -> A")
	refused(func(spec *configv1.AppConfigSpec) {
		spec.Files = map[string]string{"big": `{{ range 3 }}{{ repeat 500000 "x" }}{{ end }}`}
	}, "spec.files.big: ", "more than 1048576 bytes")
	refused(func(spec *configv1.AppConfigSpec) { spec.Environment = "dev" }, "spec.environment: ", "namespace shop-prod is for production")
	refused(func(spec *configv1.AppConfigSpec) {
		spec.Environments = map[string]configv1.ConfigOverride{"prod": {}, "production": {}}
	}, "is the same environment as prod")
	config := newConfig("shop-prod", func(spec *configv1.AppConfigSpec) {
		// This would be refused in its environment, which is not the one of this namespace.
		spec.Environments = map[string]configv1.ConfigOverride{"dev": {Config: map[string]string{"MESSAGE": "{{ .Values.NO }}"}}}
	})
	s.create(t, config)
	before := config.DeepCopy()
	config.Spec.Config = hello("{{ env \"HOME\" }}")
	err := s.client.Patch(t.Context(), config, client.MergeFrom(before)) // its status is written meanwhile
	g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("spec.config.MESSAGE: Invalid value: line 1: there is no function env")))
}

// TestAppConfigWithASecret checks that the status reports a Secret that may not be read, and that
// the AppConfig is ready nevertheless.
func TestAppConfigWithASecret(t *testing.T) {
	_, ns, manager := managed(t)
	space, g := ns, gomega.NewWithT(t)
	config := newConfig(space, func(spec *configv1.AppConfigSpec) {
		spec.SecretRefs = []configv1.SecretRef{{Name: "PASSWORD", Secret: "database", Key: "password"}}
	})
	create(t, config)
	g.Eventually(statusOf(config)).WithContext(t.Context()).Should(gomega.Equal("True NoUsers, revision 1, 0/0"))
	g.Expect(cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(config), config)).To(gomega.Succeed())
	g.Expect(config.Status.Conditions).To(gomega.ContainElement(gomega.And(
		gomega.HaveField("Type", configv1.ConditionSecretAccessNotGranted), gomega.HaveField("Status", metav1.ConditionTrue),
		gomega.HaveField("Message", gomega.ContainSubstring("add "+space+" to secrets.namespaces in the chart's values")))))
	g.Expect(data(space, "shop-config")(t.Context())).To(gomega.Equal(hello("hello")))
	g.Expect(asked(manager, "secrets")).To(gomega.BeFalse())
	change(t, config, func(config *configv1.AppConfig) { config.Spec.SecretRefs = nil })
	g.Eventually(reading(config, func() []metav1.Condition { return config.Status.Conditions })).WithContext(t.Context()).ShouldNot(
		gomega.ContainElement(gomega.HaveField("Type", configv1.ConditionSecretAccessNotGranted)))
}

// TestAppConfigInOrder checks that a workload waits for those before it in the order, and that the
// status says so.
func TestAppConfigInOrder(t *testing.T) {
	g, space, _ := managed(t)
	config, web := shop(t, space, func(spec *configv1.AppConfigSpec) { spec.Rollout.Order = []string{"worker"} })
	worker := user(space, "worker", "shop-config", nil)
	create(t, worker)
	g.Eventually(startedFor(worker)).WithContext(t.Context()).Should(gomega.Equal("first"))
	reportRollout(t, worker, true)
	change(t, config, withMessage("bye"))
	bye := content("shop-config", "MESSAGE", "bye")
	g.Eventually(startedFor(worker)).WithContext(t.Context()).Should(gomega.Equal(bye))
	g.Eventually(reading(config, func() []configv1.WorkloadStatus { return config.Status.Workloads })).WithContext(
		t.Context()).Should(gomega.HaveExactElements(
		configv1.WorkloadStatus{Kind: "Deployment", Name: "web", State: "Waiting", Revision: 1, Pods: 1,
			Message: "waiting for the workloads before it in the order: Deployment/worker"},
		gomega.HaveField("State", "Rolling")))
	g.Expect(startedFor(web)(t.Context())).To(gomega.Equal("first"))
	reportRollout(t, worker, true)
	g.Eventually(startedFor(web)).WithContext(t.Context()).Should(gomega.Equal(bye))
	reportRollout(t, web, true)
	g.Eventually(statusOf(config)).WithContext(t.Context()).Should(gomega.Equal("True UpToDate, revision 2, 2/2"))
}

// TestAppConfigCanary checks that a percentage of the workloads goes first. A count may be given
// instead, but not both.
func TestAppConfigCanary(t *testing.T) {
	space, g := namespace(t), gomega.NewWithT(t)
	startManager(t, space)
	canary := rolloutv1.Canary{Percent: new(int32(1))}
	config, web := shop(t, space, func(spec *configv1.AppConfigSpec) { spec.Rollout.Canary = &canary })
	worker := user(space, "worker", "shop-config", nil)
	create(t, worker)
	g.Eventually(startedFor(worker)).WithContext(t.Context()).Should(gomega.Equal("first"))
	reportRollout(t, worker, true)
	change(t, config, withMessage("bye"))
	bye := content("shop-config", "MESSAGE", "bye")
	g.Eventually(startedFor(web)).WithContext(t.Context()).Should(gomega.Equal(bye))
	g.Expect(startedFor(worker)(t.Context())).To(gomega.Equal("first"))
	reportRollout(t, web, true)
	g.Eventually(startedFor(worker)).WithContext(t.Context()).Should(gomega.Equal(bye))
	reportRollout(t, worker, true)
	g.Eventually(statusOf(config)).WithContext(t.Context()).Should(gomega.Equal("True UpToDate, revision 2, 2/2"))
	canary.Count = 1
	err := cluster.Client.Create(t.Context(), newConfig(namespace(t), func(spec *configv1.AppConfigSpec) { spec.Rollout.Canary = &canary }))
	g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("must not set both count and percent")))
}

// TestAppConfigDeletedByHand checks that a deletion of the ConfigMap neither approves a revision
// nor retries a failed one.
func TestAppConfigDeletedByHand(t *testing.T) {
	g, space, _ := managed(t)
	config, deployment := shop(t, space, func(spec *configv1.AppConfigSpec) { spec.Rollout.OnFailure = configv1.FailureRollback })
	change(t, config, withMessage("bad"))
	g.Eventually(startedFor(deployment)).WithContext(t.Context()).Should(gomega.Equal(content("shop-config", "MESSAGE", "bad")))
	reportRollout(t, deployment, false)
	g.Eventually(startedFor(deployment)).WithContext(t.Context()).Should(gomega.Equal(content("shop-config", "MESSAGE", "hello")))
	reportRollout(t, deployment, true)
	g.Eventually(statusOf(config)).WithContext(t.Context()).Should(gomega.Equal("False RolledBack, revision 1, 1/1, pending RolledBack"))
	g.Expect(cluster.Client.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: space,
		Name: "shop-config"}})).To(gomega.Succeed())
	g.Eventually(func(ctx context.Context) (map[string]string, error) {
		var configMap corev1.ConfigMap
		err := cluster.Client.Get(ctx, client.ObjectKey{Namespace: space, Name: "shop-config"}, &configMap)
		return configMap.Annotations, client.IgnoreNotFound(err)
	}).WithContext(t.Context()).Should(gomega.And(
		gomega.HaveKeyWithValue(configv1.AnnotationRevision, "1"), gomega.HaveKeyWithValue(configv1.AnnotationLastGood,
			"1"), gomega.HaveKeyWithValue(configv1.AnnotationFailed, "2"),
	))
	g.Expect(data(space, "shop-config")(t.Context())).To(gomega.Equal(hello("hello")))
	g.Eventually(statusOf(config)).WithContext(t.Context()).Should(gomega.Equal("False RolledBack, revision 1, 1/1, pending RolledBack"))
}

// TestAppConfigMissingSecret checks that the status reports a missing Secret until it
// has the key.
func TestAppConfigMissingSecret(t *testing.T) {
	g, own, space := gomega.NewWithT(t), namespace(t), namespace(t)
	startManagerWith(t, space, nil, func(settings *setup.Settings) { settings.Namespace, settings.SecretNamespaces = own, []string{space} })
	config := newConfig(space, func(spec *configv1.AppConfigSpec) {
		spec.SecretRefs = []configv1.SecretRef{{Name: "PASSWORD", Secret: "database", Key: "password"}}
	})
	create(t, config)
	degraded := func(ctx context.Context) (string, error) {
		err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(config), config)
		condition := meta.FindStatusCondition(config.Status.Conditions, configv1.ConditionDegraded)
		if err != nil || condition == nil {
			return "", err
		}
		return condition.Reason + " " + condition.Message, nil
	}
	g.Eventually(degraded).WithContext(t.Context()).Should(gomega.HavePrefix("SecretMissing spec.secretRefs refers to Secrets or keys that do not exist in this namespace: Secret database."))
	g.Eventually(statusOf(config)).WithContext(t.Context()).Should(gomega.Equal("True NoUsers, revision 1, 0/0"))
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "database"}, StringData: map[string]string{"user": "shop"}}
	create(t, secret)
	g.Eventually(degraded).WithContext(t.Context()).Should(gomega.HavePrefix("SecretMissing spec.secretRefs refers to Secrets or keys that do not exist in this namespace: key password of Secret database."))
	change(t, secret, func(secret *corev1.Secret) { secret.StringData = map[string]string{"password": "hunter2"} })
	g.Eventually(degraded).WithContext(t.Context()).Should(gomega.HavePrefix("Healthy"))
	g.Expect(cluster.Client.Delete(t.Context(), secret)).To(gomega.Succeed())
	g.Eventually(degraded).WithContext(t.Context()).Should(gomega.HavePrefix("SecretMissing"))
}
