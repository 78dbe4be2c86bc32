// Package uninstall releases what only Mainstay could release, before it is removed. Otherwise the
// API server would call webhooks that do not answer, and objects would wait for finalizers that
// nothing removes. It deletes definitions and objects only if the options say so.
package uninstall

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mainstay-platform/mainstay/internal/install/apiservice"
	"github.com/mainstay-platform/mainstay/internal/install/crds"
	"github.com/mainstay-platform/mainstay/internal/install/webhooks"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// Options configure an uninstallation.
type Options struct {
	// Client reads from the API server without a cache.
	Client client.Client
	// Definitions is made by crds.NewClient.
	Definitions client.Client
	// Namespace and Deployment name the managers' Deployment. It is scaled to zero, because managers
	// would restore what is removed. If it does not exist, nothing is stopped.
	Namespace, Deployment string
	// Owner is the name of the installation's ClusterRole. What another one owns stays.
	Owner string
	// WatchNamespaces are the namespaces that the managers watch; none means all. Objects in others
	// are not migrated.
	WatchNamespaces []string
	// DeleteDefinitions deletes our definitions, and with them all objects.
	DeleteDefinitions bool
	// Patience bounds each step, including its wait for others: for the migration of stored objects,
	// for managers to end, for definitions to be gone.
	Patience time.Duration
}

// poll is the poll interval of all waits.
const poll = 500 * time.Millisecond

// Run does all steps that it can, and returns the errors of the others. It is idempotent: what is
// released already takes no further write. If the owner of what installations share can't be read,
// or is another installation, that stays.
//
// Managers are stopped before anything is removed, because they would restore it. Deletions come
// before that, while managers still convert objects and remove finalizers.
func Run(ctx context.Context, options Options) error {
	err := options.within(ctx, "finding the owner of the webhook configurations", func(ctx context.Context) error {
		return webhooks.Ours(ctx, options.Client, options.Owner)
	})
	if err != nil {
		// The definitions' conversion and everything else belong, or may belong, to another installation.
		return errors.Join(err, options.stopManagers(ctx), options.withdrawAPIService(ctx))
	}
	var problems []error
	steps := []func(context.Context) error{
		options.awaitMigration, options.stopManagers, options.withdrawAPIService, options.removeWebhooks, options.releaseDefinitions,
		options.releaseFinalizers,
	}
	if options.DeleteDefinitions {
		// The second time is for objects that waited for a finalizer while their manager did not work.
		steps[0] = options.deleteDefinitions
		steps = append(steps, options.deleteDefinitions)
	}
	for at, step := range steps {
		err := step(ctx)
		if err != nil && options.DeleteDefinitions && at == 0 {
			log.FromContext(ctx).Info("The definitions are not deleted yet: they are deleted again after the other steps", "because", err.Error())
			continue
		}
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// within calls a function until it succeeds or the options' Patience ends. Most failures of an API
// server are gone a moment later.
func (o Options) within(ctx context.Context, doing string, do func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, poll, o.Patience, true, func(ctx context.Context) (bool, error) {
		err := do(ctx)
		if err != nil && isFinal(err) {
			return false, err
		}
		// An error of the cut-off last call says less than the one before it.
		if ctx.Err() == nil {
			last = err
		}
		return err == nil, nil
	})
	switch {
	case err == nil:
		return nil
	case wait.Interrupted(err) && last != nil:
		return fmt.Errorf("%s: timed out: %w", doing, last)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// isFinal reports whether trying again is useless. Of several errors, all must be final.
func isFinal(err error) bool {
	var several interface{ Unwrap() []error }
	if errors.As(err, &several) {
		return !slices.ContainsFunc(several.Unwrap(), func(one error) bool { return !isFinal(one) })
	}
	return apierrors.IsForbidden(err) || errors.As(err, &webhooks.AnotherError{})
}

// managers returns the current Deployment, or nil if it does not exist.
func (o Options) managers(ctx context.Context) (*appsv1.Deployment, error) {
	if o.Deployment == "" {
		return nil, nil
	}
	deployment := &appsv1.Deployment{}
	err := o.Client.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: o.Deployment}, deployment)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading Deployment %s/%s: %w", o.Namespace, o.Deployment, err)
	}
	return deployment, nil
}

// awaitMigration waits until all stored objects can be read without a webhook. Running managers
// migrate them. If none run, or they are not done in time, it logs that and continues: without
// managers nothing reads the objects. An installation for some namespaces migrates nothing.
func (o Options) awaitMigration(ctx context.Context) error {
	names, err := crds.Names()
	if err != nil {
		return err
	}
	var left []string
	err = o.within(ctx, "waiting until stored objects are migrated", func(ctx context.Context) error {
		found, err := crds.Unmigrated(ctx, o.Definitions, names)
		if err != nil {
			return err
		}
		left = found
		if len(left) == 0 || len(o.WatchNamespaces) > 0 {
			return nil
		}
		deployment, err := o.managers(ctx)
		if err != nil || deployment == nil || deployment.Status.ReadyReplicas == 0 {
			return err
		}
		return fmt.Errorf("objects of %v are not migrated", left)
	})
	if len(left) > 0 {
		return fmt.Errorf("objects of %v are stored in an older version: do not change them before Mainstay is installed again, or the fields that only that version has are lost", left)
	}
	return err
}

// stopManagers scales the managers' Deployment to zero and waits until its pods have ended. Those
// that ended before, such as evicted ones, stay: their ReplicaSet does not delete them.
//
// The rights on the Deployment are in the chart's templates/uninstall.yaml, because they use
// resourceNames.
//
// +kubebuilder:rbac:part=uninstall,groups="",namespace=mainstay-system,resources=pods,verbs=list
func (o Options) stopManagers(ctx context.Context) error {
	return o.within(ctx, "stopping the managers", func(ctx context.Context) error {
		deployment, err := o.managers(ctx)
		if err != nil || deployment == nil {
			return err
		}
		key := client.ObjectKeyFromObject(deployment)
		selector, err := metav1.LabelSelectorAsSelector(deployment.Spec.Selector)
		if err != nil {
			return fmt.Errorf("reading the selector of Deployment %s: %w", key, err)
		}
		if replicas := ptr.Deref(deployment.Spec.Replicas, 1); replicas != 0 {
			none := client.MergeFrom(&autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: replicas}})
			if err := o.Client.SubResource("scale").Patch(ctx, deployment, none, client.WithSubResourceBody(&autoscalingv1.Scale{})); err != nil {
				return fmt.Errorf("scaling Deployment %s: %w", key, err)
			}
			log.FromContext(ctx).Info("Stopping the managers", "Deployment", key)
		}
		var pods corev1.PodList
		if err := o.Client.List(ctx, &pods, client.InNamespace(o.Namespace), client.MatchingLabelsSelector{Selector: selector}); err != nil {
			return fmt.Errorf("listing the pods of Deployment %s: %w", key, err)
		}
		if left := workload.Unfinished(pods.Items); left > 0 {
			return fmt.Errorf("waiting for the pods of Deployment %s to end: %d are left", key, left)
		}
		return nil
	})
}

// withdrawAPIService deletes the APIService of farm.mainstay.dev: without a server it would block
// the deletion of every namespace. It is removed first of all that managers restore.
func (o Options) withdrawAPIService(ctx context.Context) error {
	whose := apiservice.Anyones
	if o.Owner != "" {
		whose = apiservice.Of(o.Owner)
	}
	return o.within(ctx, "withdrawing the APIService", func(ctx context.Context) error { return apiservice.Withdraw(ctx, o.Client, whose) })
}

func (o Options) removeWebhooks(ctx context.Context) error {
	return o.within(ctx, "removing the webhooks", func(ctx context.Context) error { return webhooks.Remove(ctx, o.Client) })
}

func (o Options) releaseDefinitions(ctx context.Context) error {
	return o.within(ctx, "releasing the definitions", func(ctx context.Context) error { return crds.Release(ctx, o.Definitions) })
}

// deleteDefinitions deletes all objects, then all definitions, and waits until they are gone.
//
// The rights are in the chart's templates/uninstall.yaml, because they use resourceNames or are
// rarely granted.
func (o Options) deleteDefinitions(ctx context.Context) error {
	objects := o.deleteObjects(ctx)
	return errors.Join(objects, o.awaitNoDefinitions(ctx))
}

func (o Options) awaitNoDefinitions(ctx context.Context) error {
	return o.within(ctx, "deleting the definitions and all their objects", func(ctx context.Context) error {
		left, err := crds.Delete(ctx, o.Definitions)
		if err == nil && left > 0 {
			return fmt.Errorf("%d definitions are left", left)
		}
		return err
	})
}
