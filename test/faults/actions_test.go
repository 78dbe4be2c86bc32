package faults

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/test/testenv"
)

// action is what users, or controllers of others, do in a step. The objects of actions have no
// namespace: they get that of the run.
type action func(ctx context.Context, c client.Client, namespace string) error

// inTurn returns an action that does one thing after the other.
func inTurn(actions ...action) action {
	return func(ctx context.Context, c client.Client, namespace string) error {
		for _, act := range actions {
			if err := act(ctx, c, namespace); err != nil {
				return err
			}
		}
		return nil
	}
}

// on returns an action that calls act with a copy of the object that is in the run's namespace.
func on(object client.Object, act func(context.Context, client.Client, client.Object) error) action {
	return func(ctx context.Context, c client.Client, namespace string) error {
		object := object.DeepCopyObject().(client.Object)
		object.SetNamespace(namespace)
		return act(ctx, c, object)
	}
}

// create creates objects, one after the other.
func create(objects ...client.Object) action {
	var all []action
	for _, object := range objects {
		all = append(all, on(object, func(ctx context.Context, c client.Client, object client.Object) error { return c.Create(ctx, object) }))
	}
	return inTurn(all...)
}

// merge patches an object.
func merge(object client.Object, patch string) action {
	return on(object, func(ctx context.Context, c client.Client, object client.Object) error {
		return c.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(patch)))
	})
}

// remove deletes an object, and lets the garbage collector delete what it owns.
func remove(object client.Object) action {
	return on(object, func(ctx context.Context, c client.Client, object client.Object) error {
		return c.Delete(ctx, object, client.PropagationPolicy(metav1.DeletePropagationBackground))
	})
}

// deployment returns the Deployment of the scenarios that need one.
func deployment() *appsv1.Deployment { return testenv.Deployment("", appName) }

// available returns an action that does what the Deployment controller does once all pods run.
func available(name string) action {
	return func(ctx context.Context, c client.Client, namespace string) error {
		return testenv.MakeAvailable(ctx, c, client.ObjectKey{Namespace: namespace, Name: name})
	}
}

func makeAvailable(ctx context.Context, c client.Client, namespace string) error {
	return available(appName)(ctx, c, namespace)
}
