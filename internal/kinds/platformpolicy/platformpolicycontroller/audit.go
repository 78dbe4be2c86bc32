package platformpolicycontroller

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/pager"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mainstay-platform/mainstay/internal/kinds/platformpolicy"
	"github.com/mainstay-platform/mainstay/internal/kit/errclass"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

const (
	// auditInterval is how long an audit is valid. Workloads change all the time; their writes are
	// checked by the API server.
	auditInterval = 10 * time.Minute
	// auditPause is the least time between two audits, for policies and labels that change often.
	auditPause = 30 * time.Second
	// auditPage is the number of objects of one request.
	auditPage = 250
	// maxAlone limits the objects of each kind that are read one by one, in one audit.
	maxAlone = 500
	// auditTimeout is half of what a reconcile may take (--reconcile-timeout): the other half is for
	// writing the admission policies.
	auditTimeout = time.Minute
)

// auditor looks at the workloads of other owners from time to time. It keeps no cache of them. It
// is for one reconcile at a time.
type auditor struct {
	live  client.Reader
	clock clock.PassiveClock
	// namespaces are the only ones whose workloads may be read; none means all.
	namespaces []string

	// last is the last audit that succeeded; if one has failed since, it says so.
	last *platformpolicy.Audit
	// tried is when the last audit began, of describes its policies and namespaces, and hasFailed
	// reports that it failed.
	tried     time.Time
	of        string
	hasFailed bool
}

// audit returns the last audit, or a new one if that is too old, and when the next one is due.
// After a failure it returns what was known before: the policy's children must not wait for an
// audit. It returns an error only if there is no time left for anything else.
func (a *auditor) audit(ctx context.Context, observed platformpolicy.Observed) (*platformpolicy.Audit, time.Duration, error) {
	of, valid := describe(observed), auditInterval
	if of != a.of || a.hasFailed {
		valid = auditPause
	}
	if age := a.clock.Since(a.tried); a.last != nil && age < valid {
		return a.last, valid - age, nil
	}
	now := a.clock.Now()
	audit := platformpolicy.NewAudit(observed.Policies, observed.Namespaces, now)
	err := a.readAll(ctx, audit)
	if err != nil && ctx.Err() != nil {
		return nil, 0, fmt.Errorf("auditing workloads: %w", err)
	}
	a.tried, a.of, a.hasFailed = now, of, err != nil
	if err != nil {
		log.FromContext(ctx).Error(err, "Auditing workloads failed; retrying", "after", auditPause.String())
		a.last = a.last.Failed(reasonOf(err))
		return a.last, auditPause, nil
	}
	a.last = audit
	return audit, auditInterval, nil
}

// reasonOf returns what the status says about a failed audit. Network errors differ from one
// attempt to the next: the log has them.
func reasonOf(err error) string {
	if errclass.Of(err) == errclass.Blocked {
		return errclass.Sentence(err)
	}
	return "the manager's log has the reason"
}

// readAll adds all workloads to an audit, within the time that an audit may take.
func (a *auditor) readAll(ctx context.Context, audit *platformpolicy.Audit) error {
	ctx, cancel := context.WithTimeout(ctx, auditTimeout)
	defer cancel()
	namespaces := a.namespaces
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	for _, namespace := range namespaces {
		if err := a.read(ctx, namespace, audit); err != nil {
			return err
		}
	}
	return nil
}

// describe returns a text that differs if an audit of the same workloads may find something else.
func describe(observed platformpolicy.Observed) string {
	var all []string
	for _, stored := range observed.Policies.Policies {
		if policy.GovernsWorkloads(&stored) {
			all = append(all, fmt.Sprint(stored.UID, stored.Generation))
			for _, exemption := range stored.Spec.Exemptions {
				all = append(all, fmt.Sprint(policy.IsActive(exemption, observed.Policies.Now)))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(observed.Namespaces)) {
		all = append(all, fmt.Sprint(name, observed.Namespaces[name]))
	}
	return fmt.Sprint(all)
}

// read adds all workloads of a namespace, or of all, to an audit. Most objects of the kinds that
// controllers make are not audited, so that only their metadata is read at first.
//
// +kubebuilder:rbac:groups="",resources=pods;replicationcontrollers,verbs=list
// +kubebuilder:rbac:groups=apps,resources=deployments;statefulsets;daemonsets;replicasets,verbs=list
// +kubebuilder:rbac:groups=batch,resources=cronjobs;jobs,verbs=list
func (a *auditor) read(ctx context.Context, namespace string, audit *platformpolicy.Audit) error {
	for kind, list := range map[string]client.ObjectList{"Deployment": &appsv1.DeploymentList{}, "StatefulSet": &appsv1.StatefulSetList{},
		"DaemonSet": &appsv1.DaemonSetList{}, "CronJob": &batchv1.CronJobList{}} {
		if err := a.pages(ctx, namespace, list, func(object client.Object) {
			if audit.Concerns(kind, object) {
				audit.Add(object)
			}
		}); err != nil {
			return err
		}
	}
	for kind, list := range map[schema.GroupVersionKind]client.ObjectList{
		appsv1.SchemeGroupVersion.WithKind("ReplicaSet"):            &appsv1.ReplicaSetList{},
		batchv1.SchemeGroupVersion.WithKind("Job"):                  &batchv1.JobList{},
		corev1.SchemeGroupVersion.WithKind("ReplicationController"): &corev1.ReplicationControllerList{},
		corev1.SchemeGroupVersion.WithKind("Pod"):                   &corev1.PodList{},
	} {
		metadata := &metav1.PartialObjectMetadataList{}
		metadata.SetGroupVersionKind(kind)
		var alone []client.Object
		if err := a.pages(ctx, namespace, metadata, func(object client.Object) {
			if audit.Concerns(kind.Kind, object) {
				alone = append(alone, object)
			}
		}); err != nil {
			return err
		}
		slices.SortFunc(alone, func(x, y client.Object) int {
			return cmp.Or(cmp.Compare(x.GetNamespace(), y.GetNamespace()), cmp.Compare(x.GetName(), y.GetName()))
		})
		if len(alone) > maxAlone {
			audit.Limited(kind.Kind, maxAlone)
		}
		for _, object := range alone[:min(len(alone), maxAlone)] {
			// A list of one needs no further right.
			one := client.MatchingFields{"metadata.name": object.GetName()}
			if err := a.pages(ctx, object.GetNamespace(), list, func(found client.Object) { audit.Add(found) }, one); err != nil {
				return err
			}
		}
	}
	return nil
}

// pages calls each with every object of a list, of which it reads one page at a time.
func (a *auditor) pages(ctx context.Context, namespace string, list client.ObjectList, each func(client.Object),
	options ...client.ListOption) error {
	read := pager.New(func(ctx context.Context, raw metav1.ListOptions) (runtime.Object, error) {
		page := list.DeepCopyObject().(client.ObjectList)
		paged := &client.ListOptions{Namespace: namespace, Limit: raw.Limit, Continue: raw.Continue}
		return page, a.live.List(ctx, page, append([]client.ListOption{paged}, options...)...)
	})
	read.PageSize, read.PageBufferSize = auditPage, 1
	err := read.EachListItem(ctx, metav1.ListOptions{}, func(item runtime.Object) error {
		each(item.(client.Object))
		return nil
	})
	if err != nil {
		return fmt.Errorf("listing %T: %w", list, err)
	}
	return nil
}
