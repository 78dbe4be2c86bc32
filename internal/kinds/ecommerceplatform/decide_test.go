package ecommerceplatform

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// TestAdopted: what can't be taken back is kept of the platform's AppStack, and of one that
// consents to be adopted, but of no other. Nothing waits for one that is not adopted yet.
func TestAdopted(t *testing.T) {
	platform, wrong := admitted(), admitted(withFields(`database: {version: '17'}`))
	going := admitted()
	going.DeletionTimestamp = &metav1.Time{}
	stack := made(admitted(withFields("environment: staging\ndatabase: {version: '16'}\ncache: {version: '8'}")), nil)
	for ownership, isKept := range map[plan.Ownership]bool{
		plan.Ours: true, plan.Consenting: true, plan.Foreign: false, plan.Former: false,
	} {
		decided := Decide(platform, with(platform, stack, ownership))
		db, cache := specOf(decided.Stack, "db"), specOf(decided.Stack, "cache")
		got := strings.Contains(db, `"version":"16"`) && strings.Contains(db, `"storage":"50Gi"`) && strings.Contains(cache, `"version":"8"`)
		if got != isKept {
			t.Errorf("ownership %d: kept is %t: %s, %s", ownership, got, db, cache)
		}
		if problems := Decide(wrong, with(wrong, stack, ownership)).Problems; len(problems) > 0 != isKept {
			t.Errorf("ownership %d: another version: %v", ownership, problems)
		}
		child := Desired(platform, decided).Children[0]
		if !child.Decisive {
			t.Errorf("ownership %d: an AppStack that the cache does not show yet would be overwritten", ownership)
		}
		if !child.KeepOthers {
			t.Errorf("ownership %d: components that others have added would be removed, with their data", ownership)
		}
		if got, want := Released(going, with(going, stack, ownership)), ownership != plan.Ours; got != want {
			t.Errorf("ownership %d: released is %t", ownership, got)
		}
	}
}
