package aggregated

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
)

// upgraded is a cluster that answers with one list after the other, and then with the last. A nil
// list is a failure.
type upgraded struct {
	discovery.DiscoveryInterface
	answers []*metav1.APIResourceList
	asked   int
}

func (u *upgraded) ServerResourcesForGroupVersion(string) (*metav1.APIResourceList, error) {
	answer := u.answers[min(u.asked, len(u.answers)-1)]
	u.asked++
	if answer == nil {
		return nil, errors.New("the server is currently unable to handle the request")
	}
	return answer, nil
}

// TestAwaitMutatingPolicies: the server ends once, when the cluster has got
// MutatingAdmissionPolicies, and not before.
func TestAwaitMutatingPolicies(t *testing.T) {
	t.Parallel()
	without := &metav1.APIResourceList{APIResources: []metav1.APIResource{{Name: "validatingadmissionpolicies"}}}
	with := &metav1.APIResourceList{APIResources: []metav1.APIResource{{Name: "validatingadmissionpolicies"},
		{Name: "mutatingadmissionpolicies"}}}
	for name, one := range map[string]struct {
		answers []*metav1.APIResourceList
		ends    int
		// atLeast is how often it asks in a day.
		atLeast int
	}{
		"an upgrade, after a failure": {[]*metav1.APIResourceList{without, nil, without, with}, 1, 4},
		"no upgrade":                  {[]*metav1.APIResourceList{without}, 0, 24 * 4},
		"no answer":                   {[]*metav1.APIResourceList{nil}, 0, 24 * 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithTimeout(t.Context(), 24*time.Hour)
				defer stop()
				cluster, ends := &upgraded{answers: one.answers}, 0
				awaitMutatingPolicies(ctx, cluster, func() { ends++ })
				if ends != one.ends {
					t.Errorf("it ended %d times, expected %d", ends, one.ends)
				}
				if cluster.asked < one.atLeast {
					t.Errorf("it asked %d times, expected at least %d", cluster.asked, one.atLeast)
				}
				if one.ends > 0 && (cluster.asked != len(one.answers) || ctx.Err() != nil) {
					t.Errorf("it ended after %d answers (%v)", cluster.asked, ctx.Err())
				}
			})
		})
	}
}
