package workload

import (
	"testing"
	"time"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
)

// TestDeclines: a workload that opts out is ignored by the annotation of a source, but not by a
// demand of a kind.
func TestDeclines(t *testing.T) {
	source := SourceRef{ConfigMap, "flags"}
	byAnnotation, asked, err := OfSource(source, map[string]string{configv1.AnnotationPodSelector: "app=web"})
	if err != nil || !asked {
		t.Fatal(asked, err)
	}
	for name, test := range map[string]struct {
		reload string
		demand Demand
		want   bool
	}{
		"the source's annotation":               {"", byAnnotation, true},
		"the source's annotation, opted out":    {"false", byAnnotation, false},
		"the source's annotation, another word": {"auto", byAnnotation, true},
		"a kind's demand, opted out":            {"false", watching(), true},
	} {
		t.Run(name, func(t *testing.T) {
			target := Target{Labels: map[string]string{"app": "web"}, Annotations: map[string]string{configv1.AnnotationReload: test.reload}}
			if got := NewIndex([]Target{target}).Concerned(&test.demand); (len(got) > 0) != test.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

// TestUndoneDeployment: kubectl rollout undo of a Deployment brings back its annotations, too. With
// the record from before the restart, the same restart is due again, without a cooldown.
func TestUndoneDeployment(t *testing.T) {
	snapshot := Snapshot{Targets: []Target{web("web", before)}, Demands: []Demand{watching()}, Sources: map[SourceRef]Source{after.Ref: after}}
	first := Decide(snapshot, noon)
	carryOut(snapshot, first)
	snapshot.Targets[0] = web("web", before)
	again := Decide(snapshot, noon.Add(time.Second))
	if len(again.Patches) != 1 || again.Patches[0].RestartedFor != first.Patches[0].RestartedFor {
		t.Errorf("after %+v: %+v", first.Patches, again.Patches)
	}
}
