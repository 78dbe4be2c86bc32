package postgresqlcontroller

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/kinds/postgresql"
	"github.com/mainstay-platform/mainstay/internal/kit/monitoring"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// Observe reads everything that decisions about db depend on: from the cache, but the Secrets, the
// Lease and the EndpointSlice, which no cache holds, from the API server.
//
// +kubebuilder:rbac:groups=database.mainstay.dev,resources=postgresqls,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=services;serviceaccounts;configmaps;persistentvolumeclaims,verbs=get;list;watch
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch
// +kubebuilder:rbac:groups=monitoring.coreos.com,resources=podmonitors,verbs=get;list;watch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get
// +kubebuilder:rbac:groups=discovery.k8s.io,resources=endpointslices,verbs=get
func (k kind) Observe(ctx context.Context, db *databasev1.PostgreSQL) (postgresql.Observed, error) {
	observed := postgresql.Observed{
		Catalogue: k.catalogue, InstanceImage: k.instanceImage, Password: password(), MetricsPassword: password(),
		HasMonitorAPI: k.monitors.Available(), MonitorLabels: k.monitorLabels, Now: k.clock.Now(),
	}
	possible := cachedChildren(db.Name)
	if observed.HasMonitorAPI {
		possible = append(possible, &monitoring.PodMonitor{ObjectMeta: metav1.ObjectMeta{Name: db.Name}})
	}
	found, err := k.children.Find(ctx, db, possible...)
	if err != nil {
		return observed, err
	}
	observed.Children = found
	for _, object := range liveChildren(db.Name) {
		if err := k.children.FindLive(ctx, db, object, found); err != nil {
			return observed, err
		}
	}
	if err := k.observeVolumesLive(ctx, db, found); err != nil {
		return observed, err
	}
	if observed.Pods, err = k.observePods(ctx, db); err != nil {
		return observed, err
	}
	var stored map[string][]byte
	if object, there := found.Get(postgresql.Ref(db, "Secret", postgresql.CertificatesName(db.Name))); there {
		if secret, isSecret := object.(*corev1.Secret); isSecret {
			stored = secret.Data
		}
	}
	observed.Certificates, observed.CertificatesChange, err = certificates(db, stored, observed.Now)
	return observed, err
}

// observeVolumesLive reads the claims from the API server while there is no Lease: the one that is
// made then allows new data only if there are none. The cache lacks claims without our labels, such
// as those that a user restored.
func (k kind) observeVolumesLive(ctx context.Context, db *databasev1.PostgreSQL, found plan.Children) error {
	if found[postgresql.Ref(db, "Lease", db.Name)].Ownership != plan.Absent {
		return nil
	}
	for ordinal := range postgresql.MaxReplicas {
		for _, name := range []string{postgresql.VolumeName(db.Name, ordinal), postgresql.WALVolumeName(db.Name, ordinal)} {
			claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}}
			if err := k.children.FindLive(ctx, db, claim, found); err != nil {
				return err
			}
		}
	}
	return nil
}

// cachedChildren are all objects in the cache that a PostgreSQL of this name can own.
func cachedChildren(name string) []plan.Object {
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
	possible := []plan.Object{
		&corev1.ConfigMap{ObjectMeta: named(contract.SettingsName(name))},
		&corev1.ConfigMap{ObjectMeta: named(postgresql.AuthorityName(name))},
		&corev1.ServiceAccount{ObjectMeta: named(postgresql.AccountName(name))},
		&rbacv1.Role{ObjectMeta: named(postgresql.AccountName(name))},
		&rbacv1.RoleBinding{ObjectMeta: named(postgresql.AccountName(name))},
		&corev1.Service{ObjectMeta: named(contract.PeerServiceName(name))},
		&corev1.Service{ObjectMeta: named(contract.WriteServiceName(name))},
		&corev1.Service{ObjectMeta: named(name + "-ro")},
		&corev1.Service{ObjectMeta: named(name + "-r")},
		&networkingv1.NetworkPolicy{ObjectMeta: named(name)},
		&appsv1.StatefulSet{ObjectMeta: named(name)},
		&policyv1.PodDisruptionBudget{ObjectMeta: named(name)},
	}
	for ordinal := range postgresql.MaxReplicas {
		possible = append(possible, &corev1.PersistentVolumeClaim{ObjectMeta: named(postgresql.VolumeName(name, ordinal))},
			&corev1.PersistentVolumeClaim{ObjectMeta: named(postgresql.WALVolumeName(name, ordinal))})
	}
	return possible
}

// liveChildren are those that no cache holds.
func liveChildren(name string) []plan.Object {
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
	return []plan.Object{
		&corev1.Secret{ObjectMeta: named(postgresql.CertificatesName(name))},
		&corev1.Secret{ObjectMeta: named(postgresql.ApplicationName(name))},
		&corev1.Secret{ObjectMeta: named(postgresql.MetricsName(name))},
		&coordinationv1.Lease{ObjectMeta: named(name)},
		&discoveryv1.EndpointSlice{ObjectMeta: named(contract.WriteServiceName(name))},
	}
}

// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch
func (k kind) observePods(ctx context.Context, db *databasev1.PostgreSQL) ([]corev1.Pod, error) {
	var pods corev1.PodList
	err := k.client.List(ctx, &pods, client.InNamespace(db.Namespace), client.MatchingFields{podOwnerIndex: db.Name},
		client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing the pods of %s/%s: %w", db.Namespace, db.Name, err)
	}
	return pods.Items, nil
}

// password returns a new password of 256 random bits, which needs no escaping in a URL.
func password() string {
	const length = 32
	random := make([]byte, length)
	_, _ = rand.Read(random) // It never fails: crypto/rand ends the program instead.
	return base64.RawURLEncoding.EncodeToString(random)
}
