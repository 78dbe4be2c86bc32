package appconfig

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// newConfig returns an AppConfig as a user writes it, with changes, after admission.
func newConfig(changes ...func(*configv1.AppConfigSpec)) *configv1.AppConfig {
	config := &configv1.AppConfig{
		ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "shop", UID: "uid-1", Generation: 3},
		Spec:       configv1.AppConfigSpec{Application: "shop", Config: map[string]string{"MESSAGE": "hello"}},
	}
	for _, change := range changes {
		change(&config.Spec)
	}
	Default(config)
	return config
}

// says returns a change to a spec that renders another content.
func says(text string) func(*configv1.AppConfigSpec) {
	return func(spec *configv1.AppConfigSpec) { spec.Config = map[string]string{"MESSAGE": text} }
}

// content returns what says renders, and hash its hash.
func content(text string) map[string]string { return map[string]string{"MESSAGE": text} }
func hash(text string) string               { return HashOf(content(text)) }

// world is what is observed, with changes by tests.
type world struct{ Observed }

func newWorld() *world {
	return &world{Observed{Children: plan.Children{}, IsOpen: true, Snapshot: workload.Snapshot{
		Demands: []workload.Demand{{Origin: Origin("shop"), Source: workload.SourceRef{Kind: workload.ConfigMap, Name: "shop-config"},
			Scope: workload.Scope{Users: true}}},
		Sources: map[workload.SourceRef]workload.Source{},
	}}}
}

// keeps adds immutable ConfigMaps for contents, numbered from 1.
func (w *world) keeps(texts ...string) *world {
	for i, text := range texts {
		w.keep(int64(i+1), text)
	}
	return w
}

func (w *world) keep(number int64, text string) {
	name := "shop-config-" + revisionText(number)
	w.Children[plan.Ref{Kind: "ConfigMap", Namespace: "web", Name: name}] = plan.Found{Ownership: plan.Ours, Object: &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "web", Name: name, Labels: map[string]string{configv1.LabelRevision: revisionText(number)},
			Annotations: map[string]string{configv1.AnnotationHash: hash(text)},
		},
		Data: content(text),
	}}
}

// has adds the ConfigMap that pods use, with a revision and further annotations in pairs.
func (w *world) has(number int64, text string, marks ...string) *world {
	configMap := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "web", Name: "shop-config",
			Annotations: map[string]string{configv1.AnnotationRevision: revisionText(number), configv1.AnnotationHash: hash(text)},
		},
		Data: content(text),
	}
	for i := 0; i < len(marks); i += 2 {
		configMap.Annotations[marks[i]] = marks[i+1]
	}
	w.Children[plan.Ref{Kind: "ConfigMap", Namespace: "web", Name: "shop-config"}] = plan.Found{Ownership: plan.Ours, Object: configMap}
	return w
}

// edited gives the ConfigMap another content, as an edit by hand does.
func (w *world) edited(text string) *world {
	found := w.Children[plan.Ref{Kind: "ConfigMap", Namespace: "web", Name: "shop-config"}]
	found.Object.(*corev1.ConfigMap).Data = content(text)
	return w
}

// runs adds a workload with three pods that was restarted for a content; updated of the pods are
// new, and ready.
func (w *world) runs(name, text, was string, state workload.State, updated int32) *world {
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	seen := workload.SeenSource{All: hash(text)}
	if was != "" {
		seen.Was, seen.At = hash(was), &at
	}
	w.Snapshot.Targets = append(w.Snapshot.Targets, workload.Target{
		Ref:    workload.TargetRef{Kind: "Deployment", Name: name},
		Stamp:  workload.Stamp{Sources: map[string]workload.SeenSource{"ConfigMap/shop-config": seen}},
		Rolled: workload.Rolled{Pods: 3, Updated: updated, Ready: updated},
	})
	status := workload.TargetStatus{Target: len(w.Snapshot.Targets) - 1, State: state}
	if state != workload.UpToDate {
		status.Message = "it is " + string(state)
	}
	w.Plan.Statuses = append(w.Plan.Statuses, status)
	return w
}

// blocked makes the workload that was added last wait for a user.
func (w *world) blocked() *world {
	w.Plan.Statuses[len(w.Plan.Statuses)-1].Reason = workload.ReasonBlocked
	return w
}

// denied makes the API server refuse the restart of the workload that was added last.
func (w *world) denied() *world {
	w.Plan.Statuses[len(w.Plan.Statuses)-1].Reason = workload.ReasonRefused
	return w
}

// reverted changes the pod template of the workload that was added last back.
func (w *world) reverted() *world {
	w.Plan.Statuses[len(w.Plan.Statuses)-1].Reason = workload.ReasonReverted
	return w
}

// rolled changes the rollout state of the workload that was added last.
func (w *world) rolled(change func(*workload.Rolled)) *world {
	change(&w.Snapshot.Targets[len(w.Snapshot.Targets)-1].Rolled)
	return w
}

// desired returns what follows from the choice in this world.
func (w *world) desired(config *configv1.AppConfig) plan.Plan {
	return Desired(config, w.Observed, Choose(config, w.Observed))
}

// status returns the status after the choice in this world.
func (w *world) status(config *configv1.AppConfig, result plan.Result) configv1.AppConfigStatus {
	status, _ := Status(config, w.Observed, Choose(config, w.Observed), result)
	return status
}

func equal[T any](t *testing.T, want, got T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
