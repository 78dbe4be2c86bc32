package observe

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/internal/workload"
)

// maxPods is how many pods of one workload are read to find out what is wrong with them.
const maxPods = 100

// Causes returns what keeps the rollouts of some targets from making progress, from the pods as the
// API server has them: they are not cached. It would only explain a problem: after an error
// everything else must go on, so that an unreadable target has no cause.
//
// +kubebuilder:rbac:part=configuration,groups="",resources=pods,verbs=list
func (r Reader) Causes(ctx context.Context, namespace string, all []workload.Target, suspects []int, now time.Time) workload.Causes {
	found := workload.Causes{}
	for _, suspect := range suspects {
		target := &all[suspect]
		current, err := r.currentOf(ctx, namespace, target)
		var pods corev1.PodList
		if err == nil {
			err = r.Live.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: current.selector},
				client.Limit(maxPods))
		}
		if err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Listing the pods of a workload", "workload", target.Ref.String())
			continue
		}
		if problem := target.Cause(pods.Items, now); problem != nil {
			found[suspect] = *problem
		}
	}
	return found
}
