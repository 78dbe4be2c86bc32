package database

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// TestEndpointSlice: it gets the family that its Service has, as the cluster has it before there is
// one; and of a database that hibernates it keeps no address, which another pod may get.
func TestEndpointSlice(t *testing.T) {
	none := appsv1.StatefulSetSpec{Replicas: new(int32(0))}
	some := appsv1.StatefulSetSpec{Replicas: new(int32(2))}
	emptied := &discoveryv1.EndpointSlice{AddressType: "IPv4"}
	published := &discoveryv1.EndpointSlice{AddressType: "IPv4", Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}}}
	for name, test := range map[string]struct {
		cluster discoveryv1.AddressType
		service []corev1.IPFamily
		slice   *discoveryv1.EndpointSlice
		asleep  bool
		set     appsv1.StatefulSetSpec
		pods    int
		family  discoveryv1.AddressType
		isOnce  bool
	}{
		"nothing is known":          {family: "IPv4", isOnce: true},
		"as the cluster":            {cluster: "IPv6", family: "IPv6", isOnce: true},
		"as its Service":            {cluster: "IPv6", service: []corev1.IPFamily{"IPv4", "IPv6"}, family: "IPv4", isOnce: true},
		"as it is already":          {cluster: "IPv6", service: []corev1.IPFamily{"IPv6"}, slice: published, family: "IPv4", isOnce: true},
		"the last pod still ends":   {slice: published, asleep: true, set: none, pods: 1, family: "IPv4", isOnce: true},
		"its pods are not gone yet": {slice: published, asleep: true, set: some, family: "IPv4", isOnce: true},
		"it hibernates":             {slice: published, asleep: true, set: none, family: "IPv4"},
		"it is empty already":       {slice: emptied, asleep: true, set: none, family: "IPv4", isOnce: true},
		"it wakes":                  {slice: published, set: none, family: "IPv4", isOnce: true},
	} {
		d := &Database{Name: "db", Hibernated: test.asleep}
		observed := State{Children: plan.Children{}, AddressType: test.cluster, Pods: make([]corev1.Pod, test.pods)}
		found := func(kind, name string, object plan.Object) {
			observed.Children[d.Ref(kind, name)] = plan.Found{Object: object, Ownership: plan.Ours}
		}
		if test.service != nil {
			found("Service", contract.WriteServiceName("db"), &corev1.Service{Spec: corev1.ServiceSpec{IPFamilies: test.service}})
		}
		if test.slice != nil {
			found("EndpointSlice", contract.WriteServiceName("db"), test.slice)
		}
		found("StatefulSet", "db", &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "db"}, Spec: test.set})
		var wanted plan.Plan
		d.AddEndpointSlice(&wanted, observed)
		child := wanted.Children[0]
		slice, _ := child.Object.(*discoveryv1.EndpointSlice)
		if slice.AddressType != test.family || child.CreateOnce != test.isOnce || slice.Endpoints == nil || len(slice.Endpoints) > 0 {
			t.Errorf("%s: %s, made once: %t, with %v", name, slice.AddressType, child.CreateOnce, slice.Endpoints)
		}
	}
}
