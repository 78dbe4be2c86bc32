package database

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/mainstay-platform/mainstay/internal/instance/contract"
)

// Access returns the instances' ServiceAccount, what it may do, and the binding of both. The
// manager must have every one of these rights itself: the API server does not let a client grant
// rights that it lacks. They are the part instance of an installation, on while a kind with
// instances is.
//
// An instance recreates a deleted Lease or EndpointSlice without the manager; creation can't be
// limited to a name. No program of ours reads what an instance creates under another name.
//
// +kubebuilder:rbac:part=instance,groups=coordination.k8s.io,resources=leases,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:part=instance,groups=discovery.k8s.io,resources=endpointslices,verbs=get;create;update
// +kubebuilder:rbac:part=instance,groups="",resources=configmaps,verbs=get;list;watch
// +kubebuilder:rbac:part=instance,groups="",resources=pods,verbs=patch
func (d *Database) Access() (*corev1.ServiceAccount, *rbacv1.Role, *rbacv1.RoleBinding) {
	name := AccountName(d.Name)
	var pods []string
	for ordinal := range MaxReplicas {
		pods = append(pods, PodName(d.Name, ordinal))
	}
	rule := func(group, resource string, names []string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: names, Verbs: verbs}
	}
	role := &rbacv1.Role{ObjectMeta: d.Meta(name), Rules: []rbacv1.PolicyRule{
		rule(coordinationv1.GroupName, "leases", []string{d.Name}, "get", "list", "watch", "patch"),
		rule(coordinationv1.GroupName, "leases", nil, "create"),
		rule(discoveryv1.GroupName, "endpointslices", []string{contract.WriteServiceName(d.Name)}, "get", "update"),
		rule(discoveryv1.GroupName, "endpointslices", nil, "create"),
		rule("", "configmaps", []string{contract.SettingsName(d.Name)}, "get", "list", "watch"),
		rule("", "pods", pods, "patch"),
	}}
	if len(d.InstanceSecrets) > 0 {
		role.Rules = append(role.Rules, rule("", "secrets", d.InstanceSecrets, "get"))
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: d.Meta(name),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: d.Namespace}},
	}
	return &corev1.ServiceAccount{ObjectMeta: d.Meta(name)}, role, binding
}
