package observe

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/internal/kit/watch"
)

// WorkloadNeeds returns what is read of workloads from the shared cache: of those with our label
// everything, of all others what all kinds together need. more returns what is kept of their pod
// templates in addition to what restarts need; nil means nothing.
//
// +kubebuilder:rbac:part=workload,groups=apps,resources=deployments;statefulsets;daemonsets,verbs=list;watch
func WorkloadNeeds(more func(*corev1.PodTemplateSpec) corev1.PodTemplateSpec) []watch.Need {
	details := watch.NewPart("details of the workloads of others", func(object client.Object) { stripper{more}.strip(object) })
	var needs []watch.Need
	for _, object := range Workloads() {
		needs = append(needs, watch.Need{Object: object, Select: labels.Everything(), Unused: []watch.Part{details}})
	}
	return needs
}
