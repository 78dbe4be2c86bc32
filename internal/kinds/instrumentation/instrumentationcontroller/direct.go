package instrumentationcontroller

import (
	"context"
	"encoding/json"
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
	"github.com/mainstay-platform/mainstay/internal/workload/observe"
)

// bodies returns, for a manager without webhooks, the patches that bring workloads to their desired
// state, by index. They are JSON patches that fail if the workload has changed meanwhile. Workloads
// without changes have none.
//
// +kubebuilder:rbac:part=injectiondirect,groups=apps,resources=deployments;statefulsets;daemonsets,verbs=get
func (r *Reader) bodies(ctx context.Context, observed *Observed, writes []agentrollout.GrantWrite) (map[int][]byte, error) {
	bodies := map[int][]byte{}
	for _, write := range writes {
		one := &observed.seen[write.Index]
		body, err := r.body(ctx, one, injection.GrantKey(observed.identity.ID()), write.Grant)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("composing %s in namespace %s: %w", one, one.Namespace, err)
		}
		if body != nil {
			bodies[write.Index] = body
		}
	}
	return bodies, nil
}

// body returns the patch of one workload, which is read in full.
func (r *Reader) body(ctx context.Context, one *agentrollout.ObservedWorkload, key string, grant *injection.Grant) ([]byte, error) {
	whole := &unstructured.Unstructured{}
	whole.SetGroupVersionKind(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: one.Kind})
	if err := r.Live.Get(ctx, client.ObjectKey{Namespace: one.Namespace, Name: one.Name}, whole); err != nil {
		return nil, err
	}
	raw, err := whole.MarshalJSON()
	if err != nil {
		return nil, err
	}
	object := observe.EmptyWorkload(one.Kind, one.Namespace, one.Name)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(whole.Object, object); err != nil {
		return nil, fmt.Errorf("reading it: %w", err)
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
	changes, err := jsonpatch.Between(raw, before, object)
	if err != nil || len(changes) == 0 {
		return nil, err
	}
	// Not a "test" operation: the API server refuses a failed test with the same code as a permanent
	// error. This causes a conflict, which is retried at once.
	unchanged := []jsonpatch.Operation{
		{Op: "replace", Path: "/metadata/uid", Value: string(one.UID)},
		{Op: "replace", Path: "/metadata/resourceVersion", Value: whole.GetResourceVersion()},
	}
	return json.Marshal(append(unchanged, changes...))
}
