package workload

import (
	"testing"
	"time"

	rolloutv1 "github.com/mainstay-platform/mainstay/api/rollout/v1"
)

// TestReplacedTemplate: that another client has replaced the template is forgotten as soon as pods
// run no earlier content, whatever becomes of sources that they were not restarted for. Otherwise
// each later write of a source's labels would make them suspect again.
func TestReplacedTemplate(t *testing.T) {
	other := func(text string, change ...func(*Source)) Source {
		source := flags("a", text)
		source.Ref.Name = "other"
		for _, c := range change {
			c(&source)
		}
		return source
	}
	notGranted := func(source *Source) { source.State = NotGranted }
	edited := func(source *Source) { source.Declared = "another" }
	for name, test := range map[string]struct {
		// first is the other source when the restart is made, and then is that afterwards.
		first, then Source
		// template is how long after the restart the present one was created.
		template time.Duration
		want     bool
	}{
		"both are equal":                      {other("2"), other("2"), time.Minute, true},
		"the other was never readable":        {other("2", notGranted), other("2", notGranted), time.Minute, true},
		"it was changed, and waits":           {other("2"), other("3"), time.Minute, true},
		"it was changed, and waited before":   {other("1"), other("3"), -30 * time.Second, true},
		"it was changed, after a restart":     {other("2"), other("3"), -30 * time.Second, false},
		"it is edited by hand":                {other("2"), other("3", edited), time.Minute, true},
		"it is edited, after a restart":       {other("2"), other("3", edited), -30 * time.Second, false},
		"the template is older than a source": {other("2"), other("2"), -time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			snapshot := Snapshot{Targets: []Target{web("web", before, other("1"))},
				Demands: []Demand{watching(), watching(func(d *Demand) { d.Source = test.first.Ref })},
				Sources: map[SourceRef]Source{after.Ref: after, test.first.Ref: test.first}}
			carryOut(snapshot, Decide(snapshot, noon))
			target := &snapshot.Targets[0]
			target.RestartedFor, target.Template = "", new(noon.Add(test.template))
			snapshot.Sources[test.then.Ref] = test.then
			snapshot.Demands[1].Rollout.Window = &rolloutv1.Window{Start: "14:00", End: "15:00"}
			plan := Decide(snapshot, noon.Add(time.Hour))
			if got := outlineOf(snapshot, plan); len(got.Restarts) > 0 {
				t.Errorf("it is restarted: %+v", got)
			}
			carryOut(snapshot, plan)
			if got := target.Stamp.For == HashText(""); got != test.want {
				t.Errorf("forgotten: %t, want %t", got, test.want)
			}
		})
	}
}
