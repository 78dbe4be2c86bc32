package observe

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-platform/mainstay/internal/workload"
)

// TestRefusals: a refusal is part of what is observed until another pass says otherwise, or the
// workload changes.
func TestRefusals(t *testing.T) {
	web, api := deployment("web"), deployment("api")
	web.Generation = 3
	refused := workload.Refusal{Message: "no", At: time.Unix(1000, 0)}
	r := reader(t, web, api)
	r.Refusals = NewRefusals()
	of := func(r Reader) map[string]string {
		found := map[string]string{}
		for _, target := range snapshotOf(t, r).Targets {
			if target.Refusal != (workload.Refusal{}) {
				found[target.Ref.Name] = target.Refusal.Message
			}
		}
		return found
	}
	check := func(what string, r Reader, want map[string]string) {
		t.Helper()
		if diff := cmp.Diff(want, of(r)); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	check("at first", r, map[string]string{})
	targets := snapshotOf(t, r).Targets // api, web
	r.Refusals.Set("shop", targets, map[int]workload.Refusal{1: refused})
	r.Refusals.Set("other", targets, map[int]workload.Refusal{0: refused})
	check("refused", r, map[string]string{"web": "no"})

	changed := deployment("web")
	changed.Generation = 4
	after := reader(t, changed, api)
	after.Refusals = r.Refusals
	check("its owner has changed it", after, map[string]string{})

	r.Refusals.Set("shop", targets, nil)
	r.Refusals.Set("other", targets, nil)
	check("written", r, map[string]string{})
	if kept := len(r.Refusals.known); kept != 0 {
		t.Errorf("%d namespaces are remembered", kept)
	}
	var none *Refusals
	none.Set("shop", targets, map[int]workload.Refusal{1: refused})
	r.Refusals = none
	check("nothing is to be remembered", r, map[string]string{})
}
