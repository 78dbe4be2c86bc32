// Package uninstall releases what only an installation could release, before it goes: otherwise the API server
// would ask webhooks that nobody answers, and objects would wait for finalizers that nobody takes off.
// It deletes neither definitions nor objects, unless it is told to.
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
)

// Options of an uninstallation.
type Options struct {
	// Client asks the API server. It has no cache.
	Client client.Client
	// Definitions is one of crds.NewClient.
	Definitions client.Client
	// Namespace and Deployment are those of the managers, which are stopped: they would put back what is taken
	// away. Without a Deployment of that name, nobody is.
	Namespace, Deployment string
	// Owner names the ClusterRole of the installation: what goes with another is left alone.
	Owner string
	// WatchNamespaces are those whose objects are the installation's; none means all.
	WatchNamespaces []string
	// DeleteDefinitions deletes our definitions, and with them all objects.
	DeleteDefinitions bool
	// Patience is how long each step may be tried, and wait for others: for stored objects to be migrated, for
	// managers to end, for definitions to be gone.
	Patience time.Duration
}

// poll is how soon to look again for what is waited for.
const poll = 500 * time.Millisecond

// Run does all that it can, and returns what it could not. It is idempotent: what is released already
// takes no call that writes.
//
// Managers are stopped first, for they put back what is taken away. What is to be deleted goes before that, while
// somebody converts and takes finalizers off.
func Run(ctx context.Context, options Options) error {
	var problems []error
	err := options.within(ctx, "looking whose the webhook configurations are", func(ctx context.Context) error {
		return webhooks.Ours(ctx, options.Client, options.Owner)
	})
	if errors.As(err, &webhooks.AnotherError{}) {
		// Then so are the definitions' conversion and whatever else there is.
		return errors.Join(err, options.stopManagers(ctx), options.withdrawAPIService(ctx))
	}
	problems = append(problems, err)
	steps := []func(context.Context) error{
		options.awaitMigration, options.stopManagers, options.withdrawAPIService, options.removeWebhooks, options.releaseDefinitions,
		options.releaseFinalizers,
	}
	if options.DeleteDefinitions {
		// The second time is for those that waited for a finalizer whose manager did not work.
		steps = []func(context.Context) error{
			options.deleteDefinitions, options.stopManagers, options.withdrawAPIService, options.removeWebhooks, options.releaseDefinitions,
			options.releaseFinalizers, options.deleteDefinitions,
		}
	}
	for at, step := range steps {
		err := step(ctx)
		if err != nil && options.DeleteDefinitions && at == 0 {
			log.FromContext(ctx).Info("Definitions are not gone yet", "because", err.Error())
			continue
		}
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// within does something until it succeeds, for as long as the options' patience. Most of what can fail at an API server
// works a moment later.
func (o Options) within(ctx context.Context, doing string, do func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, poll, o.Patience, true, func(ctx context.Context) (bool, error) {
		err := do(ctx)
		if err != nil && isFinal(err) {
			return false, err
		}
		// What is cut off at the end says less than what was wrong before.
		if ctx.Err() == nil {
			last = err
		}
		return err == nil, nil
	})
	switch {
	case err == nil:
		return nil
	case wait.Interrupted(err) && last != nil:
		return fmt.Errorf("%s, not done in time: %w", doing, last)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// isFinal tells whether it is of no use to try again. Of several errors each has to be such.
func isFinal(err error) bool {
	var several interface{ Unwrap() []error }
	if errors.As(err, &several) {
		return !slices.ContainsFunc(several.Unwrap(), func(one error) bool { return !isFinal(one) })
	}
	return apierrors.IsForbidden(err) || errors.As(err, &webhooks.AnotherError{})
}

// managers are the Deployment as it is now, nil where there is none.
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

// awaitMigration waits until all that is stored can be read without a webhook. Managers that run see to it. Where none
// do, or not in time, that is said and no reason to stop: without them nobody reads. An installation of some namespaces
// migrates nothing.
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
		return fmt.Errorf("objects of %v are left", left)
	})
	if len(left) > 0 {
		return fmt.Errorf("objects of %v are stored in an older version: do not change them before Mainstay is installed again, or what only that version has is lost", left)
	}
	return err
}

// stopManagers scales their Deployment to nothing and waits until the last has ended.
//
// The rights on the Deployment stand in the chart's templates/uninstall.yaml, for they go by name.
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
		if len(pods.Items) > 0 {
			return fmt.Errorf("waiting until the pods of Deployment %s have ended: %d are left", key, len(pods.Items))
		}
		return nil
	})
}

// withdrawAPIService takes back what tells the API server who serves farm.mainstay.dev: without them it would keep every namespace that is
// deleted. It goes first of all that managers put back.
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
// The rights to stand in the chart's templates/uninstall.yaml, for they go by name or are rarely given.
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
