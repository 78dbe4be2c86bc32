package appconfigcontroller

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/appconfig"
	"github.com/mainstay-platform/mainstay/internal/workload"
	"github.com/mainstay-platform/mainstay/internal/workload/observe"
)

// TestCompleteReadsReplacedTemplates: a workload whose template is not that of the last restart any
// more is up to date if the template is younger than the content, whatever its stamp says.
func TestCompleteReadsReplacedTemplates(t *testing.T) {
	changed := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	config := &configv1.AppConfig{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "shop"}}
	source := workload.Source{Ref: workload.SourceRef{Kind: workload.ConfigMap, Name: "shop-config"}, State: workload.Present,
		Keys: map[string]string{"a": workload.HashText("1")}, Changed: changed}
	for name, test := range map[string]struct {
		made  time.Time
		older string
		want  workload.State
		again bool
	}{
		"a younger template":             {made: changed.Add(time.Minute), want: workload.UpToDate, again: true},
		"an older template":              {made: changed.Add(-time.Minute), want: workload.Waiting, again: true},
		"another AppConfig is in effect": {made: changed.Add(time.Minute), older: "first", want: workload.Waiting},
	} {
		t.Run(name, func(t *testing.T) {
			labels := map[string]string{"app": "web"}
			web := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "uid-of-web"},
				Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}}}
			set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", Labels: labels,
				CreationTimestamp: metav1.Time{Time: test.made}, OwnerReferences: []metav1.OwnerReference{
					{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: web.UID, Controller: new(true)}}}}
			server := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(web, set).Build()
			target := workload.TargetRef{Kind: "Deployment", Name: "web"}
			observed := appconfig.Observed{Older: test.older, Now: changed.Add(time.Hour), Snapshot: workload.Snapshot{
				Targets: []workload.Target{{Ref: target, UID: web.UID, Rolled: workload.Rolled{Complete: true},
					Stamp: workload.Stamp{RestartedAt: &changed, For: workload.HashText("shop-config=1#1"), Sources: map[string]workload.SeenSource{
						source.Ref.String(): {All: source.All(), At: &changed}}}}},
				Demands: []workload.Demand{{Origin: appconfig.Origin("shop"), Source: source.Ref, Scope: workload.Scope{Target: &target}}},
				Sources: map[workload.SourceRef]workload.Source{source.Ref: source},
			}}
			observed.Plan = workload.Decide(observed.Snapshot, observed.Now)
			again, err := kind{workloads: observe.Reader{Cached: server, Live: server}}.Complete(t.Context(), config, &observed, appconfig.Choice{})
			if got := observed.Plan.Statuses[0].State; err != nil || again != test.again || got != test.want {
				t.Errorf("%s, again: %t, %v; want %s, %t", got, again, err, test.want, test.again)
			}
		})
	}
}
