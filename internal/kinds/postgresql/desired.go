package postgresql

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/mainstay-platform/mainstay/api"
	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/kit/component"
	"github.com/mainstay-platform/mainstay/internal/kit/naming"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// Desired returns what should exist for a defaulted, valid PostgreSQL. What pods need comes before
// them: the Lease before the volumes, because it says whether new data may be made.
func Desired(db *databasev1.PostgreSQL, observed Observed, decided Decision) plan.Plan {
	wanted := plan.Plan{Withhold: db.Spec.Paused}
	add := func(child plan.Child) { wanted.Children = append(wanted.Children, child) }
	add(plan.Child{Object: certificates(db, observed), Uncached: true})
	add(plan.Child{Object: authority(db, observed)})
	add(plan.Child{Object: application(db, observed), Uncached: true, CreateOnce: true})
	add(plan.Child{Object: metricsSecret(db, observed), Uncached: true, CreateOnce: true})
	add(plan.Child{Object: settings(db, decided)})
	account, role, binding := access(db)
	add(plan.Child{Object: account})
	add(plan.Child{Object: role})
	add(plan.Child{Object: binding})
	add(plan.Child{Object: lease(db, observed), Uncached: true, CreateOnce: true})
	for _, service := range desiredServices(db) {
		add(plan.Child{Object: service})
	}
	add(plan.Child{Object: endpointSlice(db), Uncached: true, CreateOnce: true})
	add(plan.Child{Object: networkPolicy(db)})
	if observed.HasMonitorAPI {
		add(plan.Child{Object: podMonitor(db, observed)})
	}
	if image(db, observed) == "" {
		addVolumes(&wanted, db, observed, 0)
		// There is nothing to run; what runs goes on.
		wanted.Keep = append(wanted.Keep, Ref(db, "StatefulSet", db.Name), Ref(db, "PodDisruptionBudget", db.Name))
		return wanted
	}
	addVolumes(&wanted, db, observed, int(decided.Replicas))
	add(plan.Child{Object: statefulSet(db, observed, decided), DryRunFirst: true, Needs: neededByPods(db, decided)})
	if decided.Replicas > 1 {
		add(plan.Child{Object: budget(db)})
	}
	return wanted
}

// neededByPods are the children without which no pod may start: with another's volume, it would
// find data of another database; with another's Lease, Secret or account, it would write, serve or
// use what is not its own.
func neededByPods(db *databasev1.PostgreSQL, decided Decision) []plan.Ref {
	account := AccountName(db.Name)
	refs := []plan.Ref{
		Ref(db, "Secret", CertificatesName(db.Name)), Ref(db, "Secret", ApplicationName(db.Name)), Ref(db, "Secret", MetricsName(db.Name)),
		Ref(db, "ConfigMap", contract.SettingsName(db.Name)), Ref(db, "ServiceAccount", account), Ref(db, "Role", account),
		Ref(db, "RoleBinding", account), Ref(db, "Lease", db.Name), Ref(db, "EndpointSlice", contract.WriteServiceName(db.Name)),
		Ref(db, "Service", contract.PeerServiceName(db.Name)),
	}
	for _, claim := range claims(db, decided) {
		refs = append(refs, Ref(db, "PersistentVolumeClaim", claim.Name))
	}
	return refs
}

func certificates(db *databasev1.PostgreSQL, observed Observed) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: childMeta(db, CertificatesName(db.Name)), Type: corev1.SecretTypeOpaque, Data: observed.Certificates,
	}
}

// authority is what a client needs to know that it talks to this database: public, for those that
// may not read Secrets. It is no part of the application's Secret, which is made once: authorities
// change.
func authority(db *databasev1.PostgreSQL, observed Observed) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: childMeta(db, AuthorityName(db.Name)), Data: map[string]string{AuthorityKey: string(observed.Certificates[AuthorityKey])},
	}
}

// The application's role and database, by their names in the server.
const (
	applicationRole     = "app"
	applicationDatabase = "app"
)

// Outputs returns what a database offers to the components of a stack that depend on it: the keys
// of the Secret with which an application connects.
func Outputs(database string) []component.Output {
	var outputs []component.Output
	for _, key := range []string{"uri", "host", "port", corev1.BasicAuthUsernameKey, corev1.BasicAuthPasswordKey, "dbname"} {
		outputs = append(outputs, component.Output{Name: strings.ToUpper(key), Secret: ApplicationName(database), Key: key})
	}
	return outputs
}

// application is what a client needs to connect. It is made once: what users change in it counts.
func application(db *databasev1.PostgreSQL, observed Observed) *corev1.Secret {
	host := contract.WriteServiceName(db.Name) + "." + db.Namespace + ".svc"
	address := host + ":" + strconv.Itoa(serverPort)
	uri := url.URL{
		Scheme: "postgresql", User: url.UserPassword(applicationRole, observed.Password), Host: address, Path: "/" + applicationDatabase,
		RawQuery: "sslmode=require",
	}
	data := map[string]string{
		corev1.BasicAuthUsernameKey: applicationRole, corev1.BasicAuthPasswordKey: observed.Password, "dbname": applicationDatabase,
		"host": host, "port": strconv.Itoa(serverPort), "uri": uri.String(),
	}
	secret := &corev1.Secret{
		ObjectMeta: childMeta(db, ApplicationName(db.Name)), Type: corev1.SecretTypeBasicAuth, Data: map[string][]byte{},
	}
	for key, value := range data {
		secret.Data[key] = []byte(value)
	}
	return secret
}

// settings is what the instances follow while they run.
func settings(db *databasev1.PostgreSQL, decided Decision) *corev1.ConfigMap {
	told := contract.Settings{
		Version:    db.Spec.Version,
		Durability: string(db.Spec.Durability), FailoverAfter: db.Spec.Failover.After,
		AcceptLoss: uint64(db.Spec.Failover.AcceptLoss), //nolint:gosec // Validate has refused negative terms
		SwitchFrom: decided.SwitchFrom, SwitchTo: decided.SwitchTo, SwitchOnly: decided.SwitchOnly, Parameters: parameters(db),
	}
	if told.Pods = decided.Pods; len(told.Pods) == 0 {
		told.Pods = podNames(db.Name, db.Spec.Replicas)
	}
	text, _ := json.Marshal(told) // It consists of strings and numbers.
	return &corev1.ConfigMap{
		ObjectMeta: childMeta(db, contract.SettingsName(db.Name)), Data: map[string]string{contract.SettingsKey: string(text)},
	}
}

// lease is the record of the leader, which the instances write from then on. New data may be made
// only if no instance has a volume yet: then there is nothing that they could replace.
func lease(db *databasev1.PostgreSQL, observed Observed) *coordinationv1.Lease {
	record := election.Record{}
	if !observed.hasVolumes(db) {
		record.Initialise = PodName(db.Name, 0)
	}
	made := &coordinationv1.Lease{ObjectMeta: childMeta(db, db.Name)}
	text, _ := record.Encode() // It is a few bytes long.
	made.Annotations = naming.Merged(made.Annotations, map[string]string{api.AnnotationRecord: text})
	return made
}

// desiredServices are those by which instances and clients connect. The one for writes selects
// nothing: the primary puts itself into its EndpointSlice.
func desiredServices(db *databasev1.PostgreSQL) []*corev1.Service {
	server := []corev1.ServicePort{{
		Name: contract.PortName, Port: serverPort, TargetPort: intstr.FromInt32(serverPort), Protocol: corev1.ProtocolTCP,
	}}
	peers := &corev1.Service{
		ObjectMeta: childMeta(db, contract.PeerServiceName(db.Name)),
		Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone, Selector: part(db).Selector(), PublishNotReadyAddresses: true,
			Ports: append([]corev1.ServicePort{{
				Name: "peers", Port: peerPort, TargetPort: intstr.FromInt32(peerPort), Protocol: corev1.ProtocolTCP,
			}}, server...),
		},
	}
	writes := &corev1.Service{ObjectMeta: childMeta(db, contract.WriteServiceName(db.Name)), Spec: corev1.ServiceSpec{Ports: server}}
	all := []*corev1.Service{peers, writes}
	for _, kind := range []struct{ name, role string }{{db.Name + "-ro", string(contract.Replica)}, {db.Name + "-r", ""}} {
		selector := part(db).Selector()
		if kind.role != "" {
			selector[api.LabelRole] = kind.role
		}
		all = append(all, &corev1.Service{ObjectMeta: childMeta(db, kind.name), Spec: corev1.ServiceSpec{Selector: selector, Ports: server}})
	}
	return all
}

// budget lets a drain evict one instance at a time.
func budget(db *databasev1.PostgreSQL) *policyv1.PodDisruptionBudget {
	most, always := intstr.FromInt32(1), policyv1.AlwaysAllow
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: childMeta(db, db.Name),
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: &most, Selector: &metav1.LabelSelector{MatchLabels: part(db).Selector()}, UnhealthyPodEvictionPolicy: &always,
		},
	}
}

// statefulSet keeps as many pods as decided. Their claims exist before them: the template of claims
// names them, and never changes, because a StatefulSet's can't. If a user deletes a claim, the
// StatefulSet's controller may be the first to make another, which consents to be taken over.
func statefulSet(db *databasev1.PostgreSQL, observed Observed, decided Decision) *appsv1.StatefulSet {
	live, template := observed.statefulSet(db), podTemplate(db, observed)
	meta := childMeta(db, db.Name)
	meta.Annotations = naming.Merged(meta.Annotations, map[string]string{api.AnnotationTemplate: keepProgram(&template, live)})
	return &appsv1.StatefulSet{
		ObjectMeta: meta,
		Spec: appsv1.StatefulSetSpec{
			Replicas: &decided.Replicas, ServiceName: contract.PeerServiceName(db.Name),
			Selector: &metav1.LabelSelector{MatchLabels: part(db).Selector()}, Template: template, VolumeClaimTemplates: claimTemplates(db, live),
			// All start at once, and elect a leader. Only Decide replaces one.
			PodManagementPolicy: appsv1.ParallelPodManagement,
			UpdateStrategy:      appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType},
			PersistentVolumeClaimRetentionPolicy: &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
				WhenDeleted: appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
				WhenScaled:  appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
			},
		},
	}
}

// endpointSlice is where the primary writes its address for the write Service. It is made empty,
// and goes with the database.
func endpointSlice(db *databasev1.PostgreSQL) *discoveryv1.EndpointSlice {
	made := &discoveryv1.EndpointSlice{
		ObjectMeta:  childMeta(db, contract.WriteServiceName(db.Name)),
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{},
	}
	made.Labels[discoveryv1.LabelServiceName] = contract.WriteServiceName(db.Name)
	made.Labels[discoveryv1.LabelManagedBy] = contract.EndpointManager
	return made
}

// keepProgram lets the pods of a StatefulSet that exists keep the image that brings their program,
// as long as nothing else of their template changes: an upgrade of Mainstay replaces no pod. It
// returns the hash of everything else. A template that changes brings the program that fits it.
func keepProgram(template *corev1.PodTemplateSpec, live *appsv1.StatefulSet) string {
	programs := &template.Spec.InitContainers[0]
	image := programs.Image
	programs.Image = ""
	text, _ := json.Marshal(template) // It has nothing that can't be encoded.
	programs.Image = image
	hash := workload.HashKey(text)
	if live == nil || live.Annotations[api.AnnotationTemplate] != hash {
		return hash
	}
	for _, container := range live.Spec.Template.Spec.InitContainers {
		if container.Name == installName && container.Image != "" {
			programs.Image = container.Image
		}
	}
	return hash
}

// arguments of the program in the pod.
func arguments(db *databasev1.PostgreSQL) []string {
	all := []string{
		"run", "--database=" + db.Name, "--namespace=" + db.Namespace, "--pod=$(POD_NAME)", "--pod-uid=$(POD_UID)", "--advertise=$(POD_IP)",
		"--volume=" + dataPath, "--run=" + runPath, "--certificates=" + certificatesPath + "/$(POD_NAME)",
		fmt.Sprintf("--port=%d", serverPort), fmt.Sprintf("--peer-port=%d", peerPort), fmt.Sprintf("--probes=:%d", probePort),
		fmt.Sprintf("--metrics=:%d", metricsPort), "--metrics-credentials=" + metricsPath,
	}
	if db.Spec.WALStorage != nil {
		all = append(all, "--wal-volume="+walPath)
	}
	return all
}
