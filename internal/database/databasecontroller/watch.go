package databasecontroller

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/mainstay-platform/mainstay/api"
	"github.com/mainstay-platform/mainstay/internal/kit/watch"
)

// PodIndex finds the pods of a database by its name; component is the kind's.
func PodIndex(name, component string) watch.Index {
	return watch.Index{
		Object: &corev1.Pod{}, Name: name, Values: func(object client.Object) []string {
			if object.GetLabels()[api.LabelOwnerKind] != component {
				return nil
			}
			return []string{object.GetLabels()[api.LabelOwner]}
		},
	}
}

// Owned returns empty objects of the kinds of children that are cached.
func Owned() []client.Object {
	return []client.Object{
		&appsv1.StatefulSet{}, &corev1.Service{}, &corev1.ServiceAccount{}, &corev1.ConfigMap{}, &corev1.PersistentVolumeClaim{},
		&rbacv1.Role{}, &rbacv1.RoleBinding{}, &policyv1.PodDisruptionBudget{}, &networkingv1.NetworkPolicy{},
	}
}

// OwnerOfPod returns requests for the database of a kind that a pod's labels name.
func OwnerOfPod(component string) handler.MapFunc {
	return func(_ context.Context, pod client.Object) []reconcile.Request {
		if pod.GetLabels()[api.LabelOwnerKind] != component {
			return nil
		}
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: pod.GetNamespace(), Name: pod.GetLabels()[api.LabelOwner]}}}
	}
}

// OwnerOfVolume returns requests for the database of a kind that a claim is for. It has no owner
// reference if it is retained.
func OwnerOfVolume(component string) handler.MapFunc {
	return func(_ context.Context, claim client.Object) []reconcile.Request {
		if claim.GetLabels()[api.LabelComponent] != component {
			return nil
		}
		owner := types.NamespacedName{Namespace: claim.GetNamespace(), Name: claim.GetLabels()[api.LabelInstance]}
		return []reconcile.Request{{NamespacedName: owner}}
	}
}
