package policyreader

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
)

func TestChanged(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*mspolicyv1.PlatformPolicy)
		want   bool
	}{
		"nothing":               {func(*mspolicyv1.PlatformPolicy) {}, false},
		"the spec":              {func(p *mspolicyv1.PlatformPolicy) { p.Generation = 3 }, true},
		"an exemption ended":    {func(p *mspolicyv1.PlatformPolicy) { p.Status.Exemptions[0].State = "Expired" }, true},
		"another part of it":    {func(p *mspolicyv1.PlatformPolicy) { p.Status.Violations = 7 }, false},
		"it is another policy":  {func(p *mspolicyv1.PlatformPolicy) { p.UID = "2" }, true},
		"a label means nothing": {func(p *mspolicyv1.PlatformPolicy) { p.Labels = map[string]string{"team": "a"} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			before := &mspolicyv1.PlatformPolicy{ObjectMeta: metav1.ObjectMeta{Name: "default", UID: "1", Generation: 2}}
			before.Status.Exemptions = []mspolicyv1.ExemptionStatus{{Name: "shop", State: "Active"}}
			after := before.DeepCopy()
			test.change(after)
			if got := Changed().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != test.want {
				t.Errorf("passed %t, want %t", got, test.want)
			}
		})
	}
}
