package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// manyUsers are numbers of Deployments that use one ConfigMap, if no others are asked for. More
// take long, because Kubernetes' own controllers work on each of them.
var manyUsers = []int{200, 1000}

// restartedBarely is the annotation of a pod template that the bare client changes.
const restartedBarely = "bench/restarted"

// fanOutBesideOthers measures how fast a changed ConfigMap reaches the workloads that use it where
// everything that a cluster has takes part: our webhooks, and Kubernetes' own controllers, which
// make a ReplicaSet for each changed Deployment. The floor is a bare client that patches as many.
func (b *bench) fanOutBesideOthers(ctx context.Context) error {
	p, kubeconfig, err := b.managedPlane(ctx, "fanout")
	if err != nil {
		return err
	}
	defer b.end(p)
	port, err := freePort(ctx)
	if err != nil {
		return err
	}
	if err := p.simulate(ctx, b.simulator, 1); err != nil {
		return err
	}
	running, err := startChild(p.directory, childOptions{Kubeconfig: kubeconfig, WebhookPort: port})
	if err != nil {
		return err
	}
	defer b.endChild(running)
	if err := awaitWebhooks(ctx, p.client); err != nil {
		return err
	}
	users := b.users
	if len(users) == 0 {
		users = manyUsers
	}
	for _, n := range users {
		if err := b.compareFanOut(ctx, p, n); err != nil {
			return fmt.Errorf("%d Deployments: %w", n, err)
		}
	}
	return nil
}

// compareFanOut edits a ConfigMap that n Deployments use, and patches as many others, in turn.
func (b *bench) compareFanOut(ctx context.Context, p *plane, n int) error {
	namespace, bare := fmt.Sprintf("fan-out-%d", n), fmt.Sprintf("bare-%d", n)
	if err := errors.Join(b.fillUsers(ctx, p, namespace, "auto", n), b.fillUsers(ctx, p, bare, barely, n)); err != nil {
		return err
	}
	var own, floor []time.Duration
	for round := range runs {
		value := fmt.Sprint(round + 1)
		edit := func() error { return p.client.Update(ctx, settingsOf(namespace, settings, value)) }
		took, err := b.timeFanOut(ctx, p, n, restartedIn(namespace, tokenOf(settings, value)), edit)
		if err != nil {
			return err
		}
		own = append(own, took)
		patch := func() error { return patchBareUsers(ctx, p, bare, value, n) }
		if took, err = b.timeFanOut(ctx, p, n, isRestartedBarely(bare, value), patch); err != nil {
			return err
		}
		floor = append(floor, took)
	}
	b.add(Figure{Name: fmt.Sprintf("fanout: %d Deployments of one ConfigMap: until all are patched, over a bare client's patches", n),
		Kind: Ratio, Limit: new(1.2), Value: median(own).Seconds() / median(floor).Seconds(),
		Note: fmt.Sprintf("%.2f s from the edit, %.2f s from the first of as many patches, %d at once; each of %v and %v",
			median(own).Seconds(), median(floor).Seconds(), patchesAtOnce, own, floor)})
	return nil
}

// fillUsers creates n Deployments that use one ConfigMap.
func (b *bench) fillUsers(ctx context.Context, p *plane, namespace, reload string, n int) error {
	if err := makeNamespace(ctx, p.client, namespace); err != nil {
		return err
	}
	if err := p.client.Create(ctx, settingsOf(namespace, settings, "0")); err != nil {
		return err
	}
	observed := stampedIn(namespace)
	if reload == barely {
		observed = isIn(namespace)
	}
	settled := p.until(ctx, &appsv1.DeploymentList{}, n, func(object client.Object) bool {
		return observed(object) && isSettled(object)
	})
	err := each(ctx, n, clients, func(ctx context.Context, i int) error {
		return p.client.Create(ctx, scaledToZero(namespace, appName(i), settings, reload))
	})
	return errors.Join(err, <-settled)
}

func isIn(namespace string) func(client.Object) bool {
	return func(object client.Object) bool { return object.GetNamespace() == namespace }
}

// isSettled reports whether the controller of Deployments has done its work for one.
func isSettled(object client.Object) bool {
	deployment, ok := object.(*appsv1.Deployment)
	return ok && deployment.Status.ObservedGeneration == deployment.Generation
}

// timeFanOut returns the time from a change until a watch has seen it on n Deployments. Before it,
// it waits for longer than the cooldown, and afterwards until the controllers have done their work.
func (b *bench) timeFanOut(ctx context.Context, p *plane, n int, isDone func(client.Object) bool,
	change func() error) (time.Duration, error) {
	if err := pause(ctx, cooldown); err != nil {
		return 0, err
	}
	settled := p.until(ctx, &appsv1.DeploymentList{}, n, func(object client.Object) bool { return isDone(object) && isSettled(object) })
	done := p.until(ctx, &appsv1.DeploymentList{}, n, isDone)
	start := time.Now()
	if err := errors.Join(change(), <-done); err != nil {
		return 0, err
	}
	took := time.Since(start)
	return took, <-settled
}

// patchBareUsers patches the pod templates of n Deployments, as many at once as a manager.
func patchBareUsers(ctx context.Context, p *plane, namespace, value string, n int) error {
	body := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}},"spec":{"template":{"metadata":{"annotations":{%q:%q}}}}}`,
		restartedBarely, value, restartedBarely, value)
	return each(ctx, n, patchesAtOnce, func(ctx context.Context, i int) error {
		one := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: appName(i)}}
		return p.client.Patch(ctx, one, client.RawPatch(types.MergePatchType, body))
	})
}

func isRestartedBarely(namespace, value string) func(client.Object) bool {
	return func(object client.Object) bool {
		deployment, ok := object.(*appsv1.Deployment)
		return ok && object.GetNamespace() == namespace && deployment.Spec.Template.Annotations[restartedBarely] == value
	}
}
