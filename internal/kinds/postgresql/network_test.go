package postgresql

import (
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// TestNetworkPolicy: the instances of the database alone reach each other's port, and an additional
// port of the pods is open to no client.
func TestNetworkPolicy(t *testing.T) {
	db := newDatabase(replicas(3))
	wanted := Desired(db, empty(), Decision{Replicas: 3})
	policy, template := child[*networkingv1.NetworkPolicy](t, wanted, "db"), podTemplate(db, empty())
	if !labels.SelectorFromSet(policy.Spec.PodSelector.MatchLabels).Matches(labels.Set(template.Labels)) {
		t.Errorf("it selects %v, and pods have %v", policy.Spec.PodSelector, template.Labels)
	}
	open, closed := map[int32]bool{}, map[int32]bool{}
	for _, rule := range policy.Spec.Ingress {
		port := rule.Ports[0].Port.IntVal
		if len(rule.From) == 0 {
			open[port] = true
			continue
		}
		closed[port] = true
		others := newDatabase()
		others.Name = "other"
		from := labels.SelectorFromSet(rule.From[0].PodSelector.MatchLabels)
		if !from.Matches(labels.Set(template.Labels)) || from.Matches(labels.Set(podTemplate(others, empty()).Labels)) ||
			rule.From[0].NamespaceSelector != nil {
			t.Errorf("port %d is open to %v", port, rule.From)
		}
	}
	if len(open) != 2 || !open[5432] || !open[9187] || len(closed) != 1 || !closed[8443] || len(policy.Spec.PolicyTypes) != 1 {
		t.Errorf("open are %v, for peers %v; of %v", open, closed, policy.Spec.PolicyTypes)
	}
}
