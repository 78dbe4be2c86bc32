package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	"github.com/mainstay-platform/mainstay/internal/setup"
)

const appNamespace = "shop"

// minimum is the number of writes for a creation: Deployment, Service, ServiceAccount, and one
// status.
const minimum = 4

// clients is the number of users who create WebApps at once: as many as a manager has workers.
var clients = setup.DefaultSettings().Concurrency

// creation compares how fast a manager creates the children of WebApps with a bare client that
// makes the same writes.
func (b *bench) creation(ctx context.Context) error {
	floor, err := b.bareCreation(ctx, "creation-floor", b.writeFloor)
	if err != nil {
		return err
	}
	p, err := b.plane(ctx, "creation")
	if err != nil {
		return err
	}
	defer b.end(p)
	var settled state
	made, err := b.managedCreation(ctx, p, func(ctx context.Context, running *child) error {
		var err error
		settled, err = running.settle(ctx, b.apps)
		return err
	})
	if err != nil {
		return err
	}
	changes := made.that(not(call.isRead), not(call.isLease))
	own := changes.that(not(call.isEvent))
	b.add(
		Figure{Name: "creation: rate over a bare client's", Kind: Ratio, AtLeast: true, Limit: new(0.5),
			Value: floor.Seconds() / own.took().Seconds(),
			Note: fmt.Sprintf("%d WebApps in %.1f s; the same writes, and no reads, by a bare client in %.1f s", b.apps, own.took().Seconds(),
				floor.Seconds())},
		Figure{Name: "creation: writes over the minimum", Kind: Ratio, Limit: new(1.1),
			Value: float64(len(own)) / float64(minimum*b.apps),
			Note:  fmt.Sprintf("minimum %d for each: one for each child, one status; %s", minimum, own)},
		Figure{Name: "creation: writes of a WebApp", Kind: Count, Value: float64(len(own)) / float64(b.apps)},
		Figure{Name: "creation: events of a WebApp", Kind: Info, Value: float64(len(changes)-len(own)) / float64(b.apps)},
		Figure{Name: "creation: reconciles of a WebApp", Kind: Info, Value: float64(settled.Reconciled) / float64(b.apps)},
		Figure{Name: "creation: reads of a WebApp", Kind: Info, Value: float64(len(made.that(call.isRead, not(call.isLease)))) / float64(b.apps),
			Note: made.that(call.isRead, not(call.isLease)).String()},
	)
	return nil
}

// simulated is creation with pods that become ready on simulated nodes.
func (b *bench) simulated(ctx context.Context) error {
	floor, err := b.bareCreation(ctx, "simulated-floor", func(ctx context.Context, p *plane, copies *replay) (time.Duration, error) {
		if err := p.simulate(ctx, b.simulator, b.nodes()); err != nil {
			return 0, err
		}
		start := time.Now()
		available := p.until(ctx, &appsv1.DeploymentList{}, b.apps, func(object client.Object) bool {
			return object.(*appsv1.Deployment).Status.AvailableReplicas > 0
		})
		if _, err := b.writeFloor(ctx, p, copies); err != nil {
			return 0, err
		}
		return time.Since(start), <-available
	})
	if err != nil {
		return err
	}
	p, err := b.plane(ctx, "simulated")
	if err != nil {
		return err
	}
	defer b.end(p)
	if err := p.simulate(ctx, b.simulator, b.nodes()); err != nil {
		return err
	}
	ready := p.until(ctx, &msappsv1.WebAppList{}, b.apps, func(object client.Object) bool {
		return meta.IsStatusConditionTrue(object.(*msappsv1.WebApp).Status.Conditions, msappsv1.ConditionReady)
	})
	var took time.Duration
	made, err := b.managedCreation(ctx, p, func(ctx context.Context, running *child) error {
		start := time.Now()
		err := <-ready
		took = time.Since(start)
		_, settled := running.settle(ctx, b.apps)
		return errors.Join(err, settled)
	})
	if err != nil {
		return err
	}
	own := made.that(not(call.isRead), not(call.isLease), not(call.isEvent))
	b.add(
		Figure{Name: "simulated: rate until ready over a bare client's", Kind: Ratio, AtLeast: true, Value: floor.Seconds() / took.Seconds(),
			Note: fmt.Sprintf("%d WebApps ready in %.1f s; their Deployments available in %.1f s when a bare client makes the same writes", b.apps,
				took.Seconds(), floor.Seconds())},
		Figure{Name: "simulated: writes over the minimum", Kind: Ratio,
			Value: float64(len(own)) / float64((minimum+1)*b.apps),
			Note:  fmt.Sprintf("minimum %d for each: one for each child, and two statuses, progressing and ready; %s", minimum+1, own)},
	)
	return nil
}

// nodes returns the number of simulated nodes that the WebApps need, with some hundred pods on
// each.
func (b *bench) nodes() int { return b.apps/100 + 1 }

// managedCreation starts a manager, creates WebApps, and returns the calls of the manager until
// done returns.
func (b *bench) managedCreation(ctx context.Context, p *plane, done func(context.Context, *child) error) (calls, error) {
	if err := makeNamespace(ctx, p.client, appNamespace); err != nil {
		return nil, err
	}
	kubeconfig, _, err := p.user(managerUser)
	if err != nil {
		return nil, err
	}
	running, err := startChild(p.directory, childOptions{Kubeconfig: kubeconfig})
	if err != nil {
		return nil, err
	}
	defer b.endChild(running)
	if err := b.awaitManager(ctx, p, running); err != nil {
		return nil, err
	}
	since, err := p.position()
	if err != nil {
		return nil, err
	}
	created := make(chan error, 1)
	go func() { created <- createWebApps(ctx, p.client, appNamespace, b.apps, clients) }()
	if err := errors.Join(done(ctx, running), <-created); err != nil {
		return nil, err
	}
	return p.calls(managerUser, since)
}

// awaitManager waits until a manager works: it has created the children of a first WebApp.
func (b *bench) awaitManager(ctx context.Context, p *plane, running *child) error {
	if err := makeNamespace(ctx, p.client, "first"); err != nil {
		return err
	}
	if err := p.client.Create(ctx, newWebApp("first", "first")); err != nil {
		return err
	}
	_, err := running.settle(ctx, 1)
	return err
}

// bareCreation records the writes of a manager for one WebApp, and has measure repeat them for
// many. It returns the time.
func (b *bench) bareCreation(ctx context.Context, name string, measure func(context.Context, *plane, *replay) (time.Duration,
	error)) (time.Duration, error) {
	p, err := b.plane(ctx, name)
	if err != nil {
		return 0, err
	}
	defer b.end(p)
	copies, err := b.record(ctx, p)
	if err != nil {
		return 0, err
	}
	return measure(ctx, p, copies)
}

// record records the writes of a manager for one WebApp, and stops the manager.
func (b *bench) record(ctx context.Context, p *plane) (*replay, error) {
	if err := makeNamespace(ctx, p.client, appNamespace); err != nil {
		return nil, err
	}
	kubeconfig, _, err := p.user(managerUser)
	if err != nil {
		return nil, err
	}
	recorded := filepath.Join(p.directory, "writes.json")
	running, err := startChild(p.directory, childOptions{Kubeconfig: kubeconfig, Record: recorded})
	if err != nil {
		return nil, err
	}
	sample := newWebApp(appNamespace, sampleName)
	if err := p.client.Create(ctx, sample); err != nil {
		return nil, errors.Join(err, running.stop())
	}
	_, err = running.settle(ctx, 1)
	if err := errors.Join(err, running.stop()); err != nil {
		return nil, err
	}
	_, config, err := p.user(floorUser)
	if err != nil {
		return nil, err
	}
	copies, err := newReplay(config, recorded, sample)
	if err == nil && len(copies.first) != minimum {
		err = fmt.Errorf("the manager made %d writes for a WebApp, but the floor needs %d: see %s", len(copies.first), minimum, recorded)
	}
	return copies, err
}

// writeFloor creates WebApps with as many clients as there are, while as many others make the
// manager's writes. It returns the time from the first of these writes to the last.
func (b *bench) writeFloor(ctx context.Context, p *plane, copies *replay) (time.Duration, error) {
	since, err := p.position()
	if err != nil {
		return 0, err
	}
	if err := makeNamespace(ctx, p.client, "floor"); err != nil {
		return 0, err
	}
	created := make(chan *msappsv1.WebApp, b.apps)
	creation := make(chan error, 1)
	go func() {
		defer close(created)
		creation <- each(ctx, b.apps, clients, func(ctx context.Context, i int) error {
			app := newWebApp("floor", appName(i))
			err := p.client.Create(ctx, app)
			if err == nil {
				created <- app
			}
			return err
		})
	}()
	written := each(ctx, clients, clients, func(ctx context.Context, _ int) error {
		for app := range created {
			if err := copies.write(ctx, app); err != nil {
				return err
			}
		}
		return nil
	})
	if err := errors.Join(written, <-creation); err != nil {
		return 0, err
	}
	made, err := p.calls(floorUser, since)
	return made.took(), err
}
