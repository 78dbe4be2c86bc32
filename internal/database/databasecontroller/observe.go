// Package databasecontroller has the reads and writes that the controllers of all kinds of
// databases share; package database decides. The rights that they need are those of each kind, and
// their markers are in its folder.
package databasecontroller

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
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/kit/children"
	"github.com/mainstay-platform/mainstay/internal/kit/monitoring"
	"github.com/mainstay-platform/mainstay/internal/kit/optionalapi"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// Reader reads what decisions about databases of one kind depend on.
type Reader struct {
	Client   client.Client
	Children children.Reader
	// PodIndex is the name of the index that finds the pods of a database by its name.
	PodIndex string
	// Claims return the names of an instance's volume claims.
	Claims []func(database string, ordinal int) string
	// Further returns what a database of this kind can own beside, of kinds that the cache holds;
	// may be nil.
	Further func(database string) []plan.Object
	// Catalogue has the server's image of each major version.
	Catalogue map[string]string
	// InstanceImage is the image with the program of the instances.
	InstanceImage string
	// Monitors is the API of PodMonitors; MonitorLabels are the labels of those that are made.
	Monitors      *optionalapi.API
	MonitorLabels map[string]string
	// AddressType is the family of the cluster's addresses.
	AddressType discoveryv1.AddressType
	Clock       clock.PassiveClock
	// Issued are the certificates that databases had last; nil remembers none.
	Issued *Issued
}

// Observe reads everything that decisions about a database depend on: from the cache, but the
// Secrets, the Lease and the EndpointSlice, which no cache holds, from the API server. described is
// the object with the names of its children; object is that of the API.
func (r Reader) Observe(ctx context.Context, object plan.Object, described *database.Database) (database.State, error) {
	observed := database.State{
		Catalogue: r.Catalogue, InstanceImage: r.InstanceImage, Password: Password(), MetricsPassword: Password(),
		HasMonitorAPI: r.Monitors.Available(), MonitorLabels: r.MonitorLabels, AddressType: r.AddressType, Now: r.Clock.Now(),
	}
	possible := r.cachedChildren(described.Name)
	if observed.HasMonitorAPI {
		possible = append(possible, monitorOf(described.Name))
	}
	found, err := r.Children.Find(ctx, object, possible...)
	if err != nil {
		return observed, err
	}
	observed.Children = found
	for _, child := range liveChildren(described.Name) {
		if err := r.Children.FindLive(ctx, object, child, found); err != nil {
			return observed, err
		}
	}
	if err := r.observeVolumesLive(ctx, object, described, observed); err != nil {
		return observed, err
	}
	if observed.Pods, err = r.observePods(ctx, described); err != nil {
		return observed, err
	}
	observed.PodsRefused = r.observeRefusal(ctx, observed, described)
	name := database.CertificatesName(described.Name)
	isThere := observed.Children[described.Ref("Secret", name)].Ownership != plan.Absent
	stored := storedSecret{SecretOf(observed, described, name), isThere}
	observed.Certificates, observed.CertificatesChange, err = r.Issued.certificates(object.GetUID(), described, stored, observed.Now)
	return observed, err
}

// SecretOf returns the content of a child that is a Secret; nil if there is none, or no data.
func SecretOf(observed database.State, described *database.Database, name string) map[string][]byte {
	if object, there := observed.Children.Get(described.Ref("Secret", name)); there {
		if secret, isSecret := object.(*corev1.Secret); isSecret {
			return secret.Data
		}
	}
	return nil
}

// observeVolumesLive reads the claims from the API server while all of them count. The cache lacks
// those without our labels, such as those that a user restored.
func (r Reader) observeVolumesLive(ctx context.Context, object plan.Object, described *database.Database, observed database.State) error {
	if !observed.Begins(described) {
		return nil
	}
	for ordinal := range database.MaxReplicas {
		for _, name := range r.Claims {
			claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name(described.Name, ordinal)}}
			if err := r.Children.FindLive(ctx, object, claim, observed.Children); err != nil {
				return err
			}
		}
	}
	return nil
}

// cachedChildren are all objects in the cache that a database of this name can own.
func (r Reader) cachedChildren(name string) []plan.Object {
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
	possible := []plan.Object{
		&corev1.ConfigMap{ObjectMeta: named(contract.SettingsName(name))},
		&corev1.ConfigMap{ObjectMeta: named(database.AuthorityName(name))},
		&corev1.ServiceAccount{ObjectMeta: named(database.AccountName(name))},
		&rbacv1.Role{ObjectMeta: named(database.AccountName(name))},
		&rbacv1.RoleBinding{ObjectMeta: named(database.AccountName(name))},
		&corev1.Service{ObjectMeta: named(contract.PeerServiceName(name))},
		&corev1.Service{ObjectMeta: named(contract.WriteServiceName(name))},
		&corev1.Service{ObjectMeta: named(database.ReplicasName(name))},
		&corev1.Service{ObjectMeta: named(database.AllName(name))},
		&networkingv1.NetworkPolicy{ObjectMeta: named(name)},
		&appsv1.StatefulSet{ObjectMeta: named(name)},
		&policyv1.PodDisruptionBudget{ObjectMeta: named(name)},
	}
	for ordinal := range database.MaxReplicas {
		for _, claim := range r.Claims {
			possible = append(possible, &corev1.PersistentVolumeClaim{ObjectMeta: named(claim(name, ordinal))})
		}
	}
	if r.Further != nil {
		possible = append(possible, r.Further(name)...)
	}
	return possible
}

// PossibleChildren returns a function for component.Traits: what a database can own that has these
// claims, and these children beside those of all kinds (Claims and Further of a Reader).
func PossibleChildren(claims []func(string, int) string, further func(string) []plan.Object) func(plan.Object) []plan.Object {
	reader := Reader{Claims: claims, Further: further}
	return func(object plan.Object) []plan.Object {
		name := object.GetName()
		return append(append(reader.cachedChildren(name), liveChildren(name)...), monitorOf(name))
	}
}

// monitorOf is the PodMonitor of a database.
func monitorOf(name string) plan.Object {
	return &monitoring.PodMonitor{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// liveChildren are those that no cache holds.
func liveChildren(name string) []plan.Object {
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
	return []plan.Object{
		&corev1.Secret{ObjectMeta: named(database.CertificatesName(name))},
		&corev1.Secret{ObjectMeta: named(database.ApplicationName(name))},
		&corev1.Secret{ObjectMeta: named(database.MetricsName(name))},
		&coordinationv1.Lease{ObjectMeta: named(name)},
		&discoveryv1.EndpointSlice{ObjectMeta: named(contract.WriteServiceName(name))},
	}
}

func (r Reader) observePods(ctx context.Context, described *database.Database) ([]corev1.Pod, error) {
	var pods corev1.PodList
	err := r.Client.List(ctx, &pods, client.InNamespace(described.Namespace), client.MatchingFields{r.PodIndex: described.Name},
		client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing the pods of %s/%s: %w", described.Namespace, described.Name, err)
	}
	return pods.Items, nil
}

// Password returns a new password of 256 random bits, which needs no escaping in a URL.
func Password() string {
	const length = 32
	random := make([]byte, length)
	_, _ = rand.Read(random) // It never fails: crypto/rand ends the program instead.
	return base64.RawURLEncoding.EncodeToString(random)
}
