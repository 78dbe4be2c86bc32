package postgresql

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/mainstay-platform/mainstay/api"
	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// TestLabelsOfAllChildren: every child has the user's labels and annotations beside our own, and
// the template of claims, which can't be changed, has none of them.
func TestLabelsOfAllChildren(t *testing.T) {
	db := newDatabase(everything, replicas(2))
	observed := empty()
	observed.HasMonitorAPI = true
	wanted := Desired(db, observed, Decide(db, observed))
	for _, child := range wanted.Children {
		labels, annotations := child.Object.GetLabels(), child.Object.GetAnnotations()
		if labels["team"] != "shop" || labels[api.LabelApp] != "db" || annotations["example.com/owner"] != "the shop" {
			t.Errorf("%T %s has the labels %v and annotations %v", child.Object, child.Object.GetName(), labels, annotations)
		}
	}
	set := child[*appsv1.StatefulSet](t, wanted, "db")
	if claim := set.Spec.VolumeClaimTemplates[0]; claim.Labels["team"] != "" || claim.Annotations["example.com/owner"] != "" {
		t.Errorf("the template of claims has the labels %v and annotations %v", claim.Labels, claim.Annotations)
	}
}

// TestLabelsOfPods: a changed label changes the pods' template, which replaces them, and neither
// the selector nor the template of claims, which can't be changed.
func TestLabelsOfPods(t *testing.T) {
	db := newDatabase()
	first := child[*appsv1.StatefulSet](t, Desired(db, empty(), Decision{Replicas: 1}), "db")
	observed := running(db, 1)
	observed.Children[Ref(db, "StatefulSet", db.Name)] = plan.Found{Ownership: plan.Ours, Object: first}
	db.Spec.Labels = databasev1.Labels{"team": "shop"}
	db.Spec.Annotations = databasev1.Annotations{"kubectl.kubernetes.io/default-container": "install"}
	later := child[*appsv1.StatefulSet](t, Desired(db, observed, Decision{Replicas: 1}), "db")
	if later.Spec.Template.Labels["team"] != "shop" || later.Spec.Selector.MatchLabels["team"] != "" ||
		len(later.Spec.VolumeClaimTemplates[0].Labels) > 0 {
		t.Errorf("got %v, %v", later.Spec.Template.Labels, later.Spec.VolumeClaimTemplates[0].Labels)
	}
	if got := later.Spec.Template.Annotations["kubectl.kubernetes.io/default-container"]; got != "install" {
		t.Errorf("kubectl takes %s, which is not the user's word", got)
	}
}
