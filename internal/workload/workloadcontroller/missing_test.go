package workloadcontroller

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// TestRecordMissing: a source that a workload names and that does not exist is an event, once, and
// not before a new workload's sources had time to be created.
func TestRecordMissing(t *testing.T) {
	start := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	clock, recorder := clocktesting.NewFakePassiveClock(start), events.NewFakeRecorder(10)
	r := &reconciler{clock: clock, recorder: recorder, missing: newMissing()}
	annotated := func(text string) *workload.Snapshot {
		return &workload.Snapshot{
			Targets: []workload.Target{{Ref: workload.TargetRef{Kind: "Deployment", Name: "web"}, UID: "1", Created: start,
				Annotations: map[string]string{configv1.AnnotationReload: text}}},
			Sources: map[workload.SourceRef]workload.Source{{Kind: workload.ConfigMap, Name: "flags"}: {State: workload.Present},
				{Kind: workload.Secret, Name: "hidden"}: {State: workload.NotGranted}},
		}
	}
	const end = ": use auto, false, or names of ConfigMaps and Secrets"
	event := func(what string) string {
		return "Warning SourceMissing metadata.annotations[config.mainstay.dev/reload]: " + what + end
	}
	long := strings.Repeat("a", 253)
	for _, step := range []struct {
		text  string
		after time.Duration
		want  []string
		again time.Duration
	}{
		{"flag", 0, nil, 10 * time.Second},
		{"flag", 9 * time.Second, nil, time.Second},
		{"flag", time.Second, []string{event("ConfigMap/flag does not exist")}, 0},
		{"flag", time.Hour, nil, 0},
		{"flags, secret/hidden", 0, nil, 0},
		{"flag", 0, []string{event("ConfigMap/flag does not exist")}, 0},
		{"yes, secret/" + long, 0, []string{event("ConfigMap/yes, Secret/" + long[:53] + "... do not exist")}, 0},
		{"true", 0, nil, 0},
	} {
		clock.SetTime(clock.Now().Add(step.after))
		if again := r.recordMissing("shop", annotated(step.text)); again != step.again {
			t.Errorf("%s: again after %s, want %s", step.text, again, step.again)
		}
		var got []string
		for len(recorder.Events) > 0 {
			got = append(got, <-recorder.Events)
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("%s: %s", step.text, diff)
		}
	}
}

// TestRecordNotGranted: a Secret that a workload's annotation asks for and that may not be read is
// an event, once, and at once.
func TestRecordNotGranted(t *testing.T) {
	start := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	recorder := events.NewFakeRecorder(10)
	r := &reconciler{clock: clocktesting.NewFakePassiveClock(start), recorder: recorder, notGranted: newMissing()}
	hidden := workload.SourceRef{Kind: workload.Secret, Name: "hidden"}
	annotated := func(text string) *workload.Snapshot {
		target := workload.Target{Ref: workload.TargetRef{Kind: "Deployment", Name: "web"}, UID: "1", Created: start,
			Annotations: map[string]string{configv1.AnnotationReload: text}, Uses: map[workload.SourceRef]workload.Use{hidden: {}}}
		demands, err := workload.OfWorkload(&target)
		if err != nil {
			t.Fatal(err)
		}
		return &workload.Snapshot{Targets: []workload.Target{target}, Demands: demands,
			Sources: map[workload.SourceRef]workload.Source{hidden: {State: workload.NotGranted}}}
	}
	const event = "Warning SecretAccessNotGranted Secret/hidden: changes restart nothing, because Mainstay may not read the Secrets of " +
		"namespace shop: add it to secrets.namespaces"
	for _, step := range []struct {
		text string
		want []string
	}{
		{"flags", nil},
		{"flags, secret/hidden", []string{event}},
		{"flags, secret/hidden", nil},
		{"auto", nil},
		{"false", nil},
		{"auto", []string{event}},
	} {
		r.recordNotGranted("shop", annotated(step.text))
		var got []string
		for len(recorder.Events) > 0 {
			got = append(got, <-recorder.Events)
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("%s: %s", step.text, diff)
		}
	}
}
