package database

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/mainstay-platform/mainstay/api"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/kit/monitoring"
	"github.com/mainstay-platform/mainstay/internal/kit/naming"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// NeededByPods are the children without which no pod may start: with another's volume, it would
// find data of another database; with another's Lease, Secret or account, it would write, serve or
// use what is not its own. There are to be so many pods. What the plan waits for is among them.
func (d *Database) NeededByPods(wanted *plan.Plan, pods int32) []plan.Ref {
	account := AccountName(d.Name)
	refs := append(waitedFor(wanted),
		d.Ref("Secret", CertificatesName(d.Name)), d.Ref("Secret", ApplicationName(d.Name)), d.Ref("Secret", MetricsName(d.Name)),
		d.Ref("ConfigMap", contract.SettingsName(d.Name)), d.Ref("ServiceAccount", account), d.Ref("Role", account),
		d.Ref("RoleBinding", account), d.Ref("Lease", d.Name), d.Ref("EndpointSlice", contract.WriteServiceName(d.Name)),
		d.Ref("Service", contract.PeerServiceName(d.Name)),
	)
	for _, claim := range d.claims(pods) {
		refs = append(refs, d.Ref("PersistentVolumeClaim", claim.Name))
	}
	return refs
}

// Certificates is the Secret with the certificates of all instances.
func (d *Database) Certificates(observed State) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: d.Meta(CertificatesName(d.Name)), Type: corev1.SecretTypeOpaque, Data: observed.Certificates,
	}
}

// CertificatesRef names that Secret, which each child with an authority needs: while it can't be
// stored, clients would get an authority that is not used.
func (d *Database) CertificatesRef() []plan.Ref {
	return []plan.Ref{d.Ref("Secret", CertificatesName(d.Name))}
}

// Authority is what a client needs to know that it talks to this database: public, for those that
// may not read Secrets. Authorities change.
func (d *Database) Authority(observed State) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: d.Meta(AuthorityName(d.Name)), Data: map[string]string{AuthorityKey: string(observed.Certificates[AuthorityKey])},
	}
}

// Settings is the ConfigMap that the instances follow while they run. What was decided is added to
// the settings of the kind.
func (d *Database) Settings(told contract.Settings, decided Decision) *corev1.ConfigMap {
	told.SwitchFrom, told.SwitchTo, told.SwitchOnly = decided.SwitchFrom, decided.SwitchTo, decided.SwitchOnly
	if told.Pods = decided.Pods; len(told.Pods) == 0 {
		told.Pods = PodNames(d.Name, d.Replicas)
	}
	return &corev1.ConfigMap{
		ObjectMeta: d.Meta(contract.SettingsName(d.Name)), Data: map[string]string{contract.SettingsKey: told.Encode()},
	}
}

// Lease is the record of the leader, which the instances write from then on. New data may be made
// only if no instance has a volume yet: then there is nothing that they could replace.
func (d *Database) Lease(hasVolumes bool) *coordinationv1.Lease {
	record := election.Record{}
	if !hasVolumes {
		record.Initialise = PodName(d.Name, 0)
	}
	made := &coordinationv1.Lease{ObjectMeta: d.Meta(d.Name)}
	text, _ := record.Encode() // It is a few bytes long.
	made.Annotations = naming.Merged(made.Annotations, map[string]string{api.AnnotationRecord: text})
	return made
}

// AddLease adds the Lease. A new one waits until the pods of an earlier database of the name are
// gone, whose primary would write its own record into it, and the volumes that are deleted with it.
// The new volumes and pods wait for the same, because the Lease says whether new data may be made.
func (d *Database) AddLease(to *plan.Plan, observed State, lease *coordinationv1.Lease) {
	if !observed.hasLease(d) {
		to.Waits = d.leaving(observed)
	}
	to.Children = append(to.Children, plan.Child{Object: lease, Uncached: true, CreateOnce: true, Needs: waitedFor(to)})
}

// waitedFor are the objects that a plan waits for.
func waitedFor(wanted *plan.Plan) []plan.Ref {
	var refs []plan.Ref
	for _, wait := range wanted.Waits {
		refs = append(refs, wait.For)
	}
	return refs
}

// Services are those by which instances and clients connect. The one for writes selects nothing:
// the primary puts itself into its EndpointSlice.
func (d *Database) Services() []*corev1.Service {
	port := func(name string, number int32) corev1.ServicePort {
		return corev1.ServicePort{Name: name, Port: number, TargetPort: intstr.FromInt32(number), Protocol: corev1.ProtocolTCP}
	}
	all, forClients := []corev1.ServicePort{port("peers", PeerPort)}, []corev1.ServicePort(nil)
	for _, one := range d.Ports {
		all = append(all, port(one.Name, one.Number))
		if !one.Closed {
			forClients = append(forClients, port(one.Name, one.Number))
		}
	}
	service := func(name string, ports []corev1.ServicePort, selector map[string]string) *corev1.Service {
		return &corev1.Service{ObjectMeta: d.Meta(name), Spec: corev1.ServiceSpec{Selector: selector, Ports: ports}}
	}
	peers := service(contract.PeerServiceName(d.Name), all, d.Part.Selector())
	peers.Spec.ClusterIP, peers.Spec.PublishNotReadyAddresses = corev1.ClusterIPNone, true
	replicas := d.Part.Selector()
	replicas[api.LabelRole] = string(contract.Replica)
	return []*corev1.Service{
		peers, service(contract.WriteServiceName(d.Name), forClients, nil), service(ReplicasName(d.Name), forClients, replicas),
		service(AllName(d.Name), forClients, d.Part.Selector()),
	}
}

// Budget lets a drain evict one instance at a time.
func (d *Database) Budget() *policyv1.PodDisruptionBudget {
	most, always := intstr.FromInt32(1), policyv1.AlwaysAllow
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: d.Meta(d.Name),
		Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &most, Selector: d.selector(), UnhealthyPodEvictionPolicy: &always},
	}
}

// NetworkPolicy lets clients connect to the server, Prometheus to the metrics, and the instances to
// each other; no other client reaches a port. The kubelet of a pod's node always may
// (https://kubernetes.io/docs/concepts/services-networking/network-policies/). Egress stays as it
// is: the API server's address is no pod's, and differs from cluster to cluster.
func (d *Database) NetworkPolicy() *networkingv1.NetworkPolicy {
	instances := networkingv1.NetworkPolicyPeer{PodSelector: d.selector()}
	var ingress []networkingv1.NetworkPolicyIngressRule
	admit := func(port int32, from ...networkingv1.NetworkPolicyPeer) {
		ingress = append(ingress, networkingv1.NetworkPolicyIngressRule{
			From: from, Ports: []networkingv1.NetworkPolicyPort{{Protocol: new(corev1.ProtocolTCP), Port: new(intstr.FromInt32(port))}},
		})
	}
	for _, port := range d.Ports {
		if !port.Closed {
			admit(port.Number)
		}
	}
	admit(d.MetricsPort)
	admit(PeerPort, instances)
	return &networkingv1.NetworkPolicy{
		ObjectMeta: d.Meta(d.Name),
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: *d.selector(), PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}, Ingress: ingress,
		},
	}
}

const metricsUser = "metrics"

// MetricsSecret is what Prometheus needs to read the metrics. It is made once: what users change in
// it counts, in the instances within a minute or two. It also has what revisions are hashed with.
func (d *Database) MetricsSecret(observed State) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: d.Meta(MetricsName(d.Name)), Type: corev1.SecretTypeBasicAuth,
		Data: map[string][]byte{
			corev1.BasicAuthUsernameKey: []byte(metricsUser), corev1.BasicAuthPasswordKey: []byte(observed.MetricsPassword),
			revisionKey: newRevisionKey(observed),
		},
	}
}

// PodMonitor has the Prometheus Operator scrape all instances. Each has a certificate for the name
// of the Service of all; of the Secret with the certificates, Prometheus gets the CA certificate
// alone.
func (d *Database) PodMonitor(observed State) *monitoring.PodMonitor {
	key := func(secret, key string) corev1.SecretKeySelector {
		return corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: secret}, Key: key}
	}
	meta := d.Meta(d.Name)
	meta.Labels = naming.Merged(observed.MonitorLabels, meta.Labels)
	return &monitoring.PodMonitor{
		ObjectMeta: meta,
		Spec: monitoring.PodMonitorSpec{
			Selector: metav1.LabelSelector{MatchLabels: d.Part.Selector()},
			PodMetricsEndpoints: []monitoring.PodMetricsEndpoint{{
				Port: MetricsPortName, Path: "/metrics", Scheme: "https",
				BasicAuth: &monitoring.BasicAuth{
					Username: key(MetricsName(d.Name), corev1.BasicAuthUsernameKey), Password: key(MetricsName(d.Name), corev1.BasicAuthPasswordKey),
				},
				TLSConfig: &monitoring.TLSConfig{
					CA:         monitoring.SecretOrConfigMap{Secret: new(key(CertificatesName(d.Name), AuthorityKey))},
					ServerName: AllName(d.Name) + "." + d.Namespace + ".svc",
				},
			}},
		},
	}
}
