package observe

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// WorkloadCacheOptions returns what the cache keeps of workloads: all workloads, reduced to what
// all kinds together need. more returns what is kept of pod templates in addition to what restarts
// need; nil means nothing.
//
// +kubebuilder:rbac:part=workload,groups=apps,resources=deployments;statefulsets;daemonsets,verbs=list;watch
func WorkloadCacheOptions(more func(*corev1.PodTemplateSpec) corev1.PodSpec) map[client.Object]cache.ByObject {
	strip := stripper{more}
	return map[client.Object]cache.ByObject{
		&appsv1.Deployment{}:  {Label: labels.Everything(), Transform: strip.deployment},
		&appsv1.StatefulSet{}: {Label: labels.Everything(), Transform: strip.statefulSet},
		&appsv1.DaemonSet{}:   {Label: labels.Everything(), Transform: strip.daemonSet},
	}
}
