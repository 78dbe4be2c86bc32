package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
)

const (
	// poisoned is the WebApp whose reconcile panics, healthy one that changes as often.
	poisoned, healthy = "poisoned", "healthy"
	// rounds is how often edits are timed, with the one and with the other WebApp changing all the
	// time.
	rounds, edits = 6, 250
	// disturbance is the interval between these changes.
	disturbance = 100 * time.Millisecond
)

// panicking measures how one WebApp whose reconcile panics affects the others.
func (b *bench) panicking(ctx context.Context) error {
	p, kubeconfig, err := b.managedPlane(ctx, "panic")
	if err != nil {
		return err
	}
	defer b.end(p)
	running, err := startChild(p.directory, childOptions{Kubeconfig: kubeconfig, Poison: poisoned})
	if err != nil {
		return err
	}
	defer b.endChild(running)
	if err := makeNamespace(ctx, p.client, appNamespace); err != nil {
		return err
	}
	for _, name := range []string{poisoned, healthy} {
		if err := p.client.Create(ctx, newWebApp(appNamespace, name)); err != nil {
			return err
		}
	}
	if err := createWebApps(ctx, p.client, appNamespace, b.apps, clients); err != nil {
		return err
	}
	if _, err := running.settle(ctx, b.apps); err != nil {
		return err
	}
	took := map[string][]time.Duration{}
	for round := range rounds * 2 {
		disturber := []string{healthy, poisoned}[round%2]
		before, err := running.state(false)
		if err != nil {
			return err
		}
		each, err := b.timeEdits(ctx, p, disturber, round)
		if err != nil {
			return err
		}
		after, err := running.state(false)
		if err != nil {
			return err
		}
		if panics := after.Panics - before.Panics; (disturber == poisoned) != (panics > 5) {
			return fmt.Errorf("%d reconciles panicked while %s was edited: there is nothing to measure", panics, disturber)
		}
		took[disturber] = append(took[disturber], each...)
	}
	now, err := running.state(false)
	if err != nil {
		return err
	}
	own, floor := percentile(took[poisoned], 0.99), percentile(took[healthy], 0.99)
	b.add(Figure{Name: "panic: p99 of the others over that without", Kind: Ratio, Limit: new(1.2),
		Value: own.Seconds() / floor.Seconds(),
		Note: fmt.Sprintf("from an edit to the changed Deployment: %.1f ms while one of %d is edited every %s and panics (%d times), %.1f ms while one is edited as often and does not",
			own.Seconds()*1e3, b.apps, disturbance, now.Panics, floor.Seconds()*1e3)})
	return nil
}

// timeEdits edits WebApps one after the other, and measures how long their Deployments take to
// follow, while the disturber is edited all the time.
func (b *bench) timeEdits(ctx context.Context, p *plane, disturber string, round int) ([]time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	disturbing := make(chan error, 1)
	go func() { disturbing <- disturb(ctx, p.client, disturber) }()
	took, err := b.edit(ctx, p, round)
	cancel()
	return took, errors.Join(err, <-disturbing)
}

func (b *bench) edit(ctx context.Context, p *plane, round int) ([]time.Duration, error) {
	stream, err := p.watch(ctx, &appsv1.DeploymentList{}, appNamespace)
	if err != nil {
		return nil, err
	}
	defer stream.Stop()
	var took []time.Duration
	for i := range edits {
		name, image := appName((round*edits+i)%b.apps), fmt.Sprintf("docker.io/mainstay/demo-web:%d-%d", round, i)
		start := time.Now()
		if err := setImage(ctx, p.client, name, image); err != nil {
			return nil, err
		}
		for follows := false; !follows; {
			event, open := <-stream.ResultChan()
			if !open {
				return nil, errors.New("the watch of Deployments ended")
			}
			deployment, ok := event.Object.(*appsv1.Deployment)
			follows = ok && deployment.Name == name && deployment.Spec.Template.Spec.Containers[0].Image == image
		}
		took = append(took, time.Since(start))
	}
	return took, nil
}

// disturb edits one WebApp until ctx ends.
func disturb(ctx context.Context, to client.Client, name string) error {
	for i := 0; ctx.Err() == nil; i++ {
		err := pause(ctx, disturbance)
		if err == nil {
			err = setImage(ctx, to, name, fmt.Sprintf("docker.io/mainstay/demo-web:edit-%d", i))
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

func setImage(ctx context.Context, to client.Client, name, image string) error {
	app := &msappsv1.WebApp{}
	app.Namespace, app.Name = appNamespace, name
	return to.Patch(ctx, app, client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"image":%q}}`, image)))
}
