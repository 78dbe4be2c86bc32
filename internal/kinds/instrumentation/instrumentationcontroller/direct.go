package instrumentationcontroller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/agentrollout"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/injection"
	"github.com/mainstay-platform/mainstay/internal/kit/jsonpatch"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/workload/observe"
)

// directPatches returns, for a manager without webhooks, the patches that bring workloads to their
// desired state, by index: JSON patches of the version that was read. Workloads without changes
// have none.
//
// +kubebuilder:rbac:part=injectiondirect,groups=apps,resources=deployments;statefulsets;daemonsets,verbs=get
func (r *Reader) directPatches(ctx context.Context, observed *Observed, writes []agentrollout.GrantWrite) (map[int]plan.Patch, error) {
	patches := map[int]plan.Patch{}
	for _, write := range writes {
		one := &observed.seen[write.Index]
		patch, err := r.directPatch(ctx, one, injection.GrantKey(observed.identity.ID()), write.Grant)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("composing %s in namespace %s: %w", one, one.Namespace, err)
		}
		if len(patch.Operations) > 0 {
			patches[write.Index] = patch
		}
	}
	return patches, nil
}

// directPatch returns the version and the operations of the patch of one workload, which is read in
// full.
func (r *Reader) directPatch(ctx context.Context, one *agentrollout.ObservedWorkload, key string, grant *injection.Grant) (plan.Patch,
	error) {
	patch := plan.Patch{}
	whole := &unstructured.Unstructured{}
	whole.SetGroupVersionKind(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: one.Kind})
	if err := r.Live.Get(ctx, client.ObjectKey{Namespace: one.Namespace, Name: one.Name}, whole); err != nil {
		return patch, err
	}
	raw, err := whole.MarshalJSON()
	if err != nil {
		return patch, err
	}
	object := observe.EmptyWorkload(one.Kind, one.Namespace, one.Name)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(whole.Object, object); err != nil {
		return patch, fmt.Errorf("reading it: %w", err)
	}
	before := object.DeepCopyObject()
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	if grant == nil {
		delete(annotations, key)
	} else {
		annotations[key] = grant.String()
	}
	object.SetAnnotations(annotations)
	one.Context.Compose(workloadOf(object, one.Kind, observe.PodTemplate(object)), (*corev1.PodTemplateSpec)(nil))
	patch.Version = whole.GetResourceVersion()
	patch.Operations, err = jsonpatch.Between(raw, before, object)
	return patch, err
}
