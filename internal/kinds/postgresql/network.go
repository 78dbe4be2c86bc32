package postgresql

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
)

// networkPolicy lets clients connect to the server, Prometheus to the metrics, and the instances to
// each other; no other client reaches a port. The kubelet of a pod's node always may
// (https://kubernetes.io/docs/concepts/services-networking/network-policies/). Egress stays as it
// is: the API server's address is no pod's, and differs from cluster to cluster.
func networkPolicy(db *databasev1.PostgreSQL) *networkingv1.NetworkPolicy {
	instances := metav1.LabelSelector{MatchLabels: part(db).Selector()}
	admit := func(port int32, from ...networkingv1.NetworkPolicyPeer) networkingv1.NetworkPolicyIngressRule {
		return networkingv1.NetworkPolicyIngressRule{
			From: from, Ports: []networkingv1.NetworkPolicyPort{{Protocol: new(corev1.ProtocolTCP), Port: new(intstr.FromInt32(port))}},
		}
	}
	return &networkingv1.NetworkPolicy{
		ObjectMeta: childMeta(db, db.Name),
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: instances, PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
			Ingress: []networkingv1.NetworkPolicyIngressRule{
				admit(serverPort), admit(metricsPort), admit(peerPort, networkingv1.NetworkPolicyPeer{PodSelector: &instances}),
			},
		},
	}
}
