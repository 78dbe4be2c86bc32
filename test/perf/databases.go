package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/kinds/postgresql"
)

const (
	databaseVersion   = "17"
	databaseNamespace = "databases"
	// databaseInstances is the number of instances of each PostgreSQL.
	databaseInstances = 3
	// databaseChildren is the number of children of a PostgreSQL of three instances: 3 Secrets, 2
	// ConfigMaps, ServiceAccount, Role, RoleBinding, Lease, 4 Services, EndpointSlice, NetworkPolicy,
	// 3 PersistentVolumeClaims, StatefulSet, PodDisruptionBudget.
	databaseChildren = 20
	// databaseEdits is how often the time from an edit until the manager acts is measured.
	databaseEdits = 300
)

// databases measures a manager with many PostgreSQLs, whose instances are scripted: they renew
// their Leases as instances do.
func (b *bench) databases(ctx context.Context) error {
	p, kubeconfig, err := b.managedPlane(ctx, "databases")
	if err != nil {
		return err
	}
	defer b.end(p)
	running, err := startChild(p.directory, childOptions{Kubeconfig: kubeconfig, Controller: postgresql.Controller})
	if err != nil {
		return err
	}
	defer b.endChild(running)
	empty, err := b.firstDatabase(ctx, p, running)
	if err != nil {
		return err
	}
	if err := errors.Join(makeNamespace(ctx, p.client, databaseNamespace), b.createDatabases(ctx, p, running)); err != nil {
		return err
	}
	if err := b.startInstances(ctx, p, running); err != nil {
		return err
	}
	if err := b.databaseHeap(ctx, p, running, empty); err != nil {
		return err
	}
	renewing := p.renewLeases(ctx, b.postgreSQLs)
	err = errors.Join(b.databaseSilence(ctx, p, renewing), b.databaseReactions(ctx, p, renewing))
	return errors.Join(err, renewing.end())
}

// firstDatabase waits until the manager works, and returns its heap without the others.
func (b *bench) firstDatabase(ctx context.Context, p *plane, running *child) (state, error) {
	if err := makeNamespace(ctx, p.client, "first"); err != nil {
		return state{}, err
	}
	if err := p.client.Create(ctx, newDatabase("first", "first")); err != nil {
		return state{}, err
	}
	if _, err := running.settle(ctx, 1); err != nil {
		return state{}, err
	}
	return running.state(true)
}

func newDatabase(namespace, name string) *databasev1.PostgreSQL {
	return &databasev1.PostgreSQL{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: databasev1.PostgreSQLSpec{
			Version: databaseVersion, Storage: resource.MustParse("1Gi"), Replicas: databaseInstances,
		},
	}
}

func databaseName(i int) string { return fmt.Sprintf("db-%05d", i) }

// createDatabases counts the manager's writes until all children exist.
func (b *bench) createDatabases(ctx context.Context, p *plane, running *child) error {
	since, err := p.position()
	if err != nil {
		return err
	}
	err = each(ctx, b.postgreSQLs, clients, func(ctx context.Context, i int) error {
		return p.client.Create(ctx, newDatabase(databaseNamespace, databaseName(i)))
	})
	if err != nil {
		return err
	}
	if _, err := running.settle(ctx, b.postgreSQLs); err != nil {
		return err
	}
	made, err := p.calls(managerUser, since)
	if err != nil {
		return err
	}
	own, reads := made.that(not(call.isRead), not(call.isEvent)), made.that(call.isRead)
	b.add(
		Figure{Name: "databases: writes of a creation over the minimum", Kind: Ratio, Limit: new(1.1),
			Value: float64(len(own)) / float64((databaseChildren+1)*b.postgreSQLs),
			Note: fmt.Sprintf("%d PostgreSQLs of %d instances in %.1f s; minimum %d for each: one for each child, one status; %s", b.postgreSQLs,
				databaseInstances, own.took().Seconds(), databaseChildren+1, own)},
		Figure{Name: "databases: writes of children of a PostgreSQL", Kind: Count,
			Value: float64(len(own.that(not(isStatus)))) / float64(b.postgreSQLs)},
		Figure{Name: "databases: reads of a creation", Kind: Info, Value: float64(len(reads)) / float64(b.postgreSQLs), Note: reads.String()},
	)
	return nil
}

func isStatus(c call) bool { return c.ObjectRef.Subresource == "status" }

// startInstances starts the scripted instances of all PostgreSQLs, and counts what the manager
// writes until each is Running.
func (b *bench) startInstances(ctx context.Context, p *plane, running *child) error {
	since, err := p.position()
	if err != nil {
		return err
	}
	ready := p.until(ctx, &databasev1.PostgreSQLList{}, b.postgreSQLs, func(object client.Object) bool {
		return object.(*databasev1.PostgreSQL).Status.Phase == databasev1.PhaseRunning
	})
	err = each(ctx, b.postgreSQLs, clients, func(ctx context.Context, i int) error { return p.startDatabase(ctx, databaseName(i)) })
	if err := errors.Join(err, <-ready); err != nil {
		return err
	}
	if _, err := running.settle(ctx, b.postgreSQLs); err != nil {
		return err
	}
	made, err := p.calls(managerUser, since)
	if err != nil {
		return err
	}
	own := made.that(not(call.isRead), not(call.isEvent))
	b.add(
		Figure{Name: "databases: writes of children while instances start", Kind: Count, Limit: new(0.0),
			Value: float64(len(own.that(not(isStatus)))), Note: own.String()},
		Figure{Name: "databases: statuses of a PostgreSQL while its instances start", Kind: Info,
			Value: float64(len(own.that(isStatus))) / float64(b.postgreSQLs), Note: "the pods of one become ready one after the other"},
	)
	return nil
}

// databaseHeap compares the manager's memory with the JSON of what it caches.
func (b *bench) databaseHeap(ctx context.Context, p *plane, running *child, empty state) error {
	full, err := running.state(true)
	if err != nil {
		return err
	}
	size, err := sizeOf(ctx, p.client, databaseNamespace)
	if err != nil {
		return err
	}
	heap, n := float64(full.Heap)-float64(empty.Heap), float64(b.postgreSQLs)
	b.add(Figure{
		Name: fmt.Sprintf("databases: heap for %d PostgreSQLs over the JSON of them, their children and pods", b.postgreSQLs),
		Kind: Ratio, Limit: new(3.0), Value: heap / float64(size),
		Note: fmt.Sprintf("%.1f kB of heap for %.1f kB of JSON each, without Secrets, Leases and EndpointSlices, which are not cached; %.1f MB "+
			"with one PostgreSQL", heap/n/1e3, float64(size)/n/1e3, float64(empty.Heap)/megabyte)})
	return nil
}

// renewal is the interval at which an instance renews its Lease: see election.Config.
const renewal = 3 * time.Second

// renewals are Leases that are renewed all the time.
type renewals struct {
	stop  func()
	ended chan error
	count atomic.Int64
}

// end stops renewing.
func (r *renewals) end() error {
	r.stop()
	return <-r.ended
}

// renewLeases renews the Leases of n PostgreSQLs, each once in the interval, spread over it.
func (p *plane) renewLeases(ctx context.Context, n int) *renewals {
	ctx, stop := context.WithCancel(ctx)
	r := &renewals{stop: stop, ended: make(chan error, 1)}
	due := make(chan int)
	go func() {
		defer close(due)
		ticks := time.NewTicker(renewal / time.Duration(n))
		defer ticks.Stop()
		for i := 0; ; i = (i + 1) % n {
			select {
			case <-ctx.Done():
				return
			case <-ticks.C:
				due <- i
			}
		}
	}()
	go func() {
		// What is due is renewed also when ctx has ended, so that no renewal fails by that.
		lasting := context.WithoutCancel(ctx)
		r.ended <- each(lasting, clients, clients, func(ctx context.Context, _ int) error {
			var failed error
			for i := range due {
				lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: databaseNamespace, Name: databaseName(i)}}
				patch := fmt.Appendf(nil, `{"spec":{"renewTime":%q}}`, time.Now().UTC().Format(metav1.RFC3339Micro))
				if err := p.client.Patch(ctx, lease, client.RawPatch(types.MergePatchType, patch)); err != nil {
					failed = err
				}
				r.count.Add(1)
			}
			return failed
		})
	}()
	return r
}

// databaseSilence counts the manager's calls while Leases are renewed and nothing else happens.
func (b *bench) databaseSilence(ctx context.Context, p *plane, renewing *renewals) error {
	if err := pause(ctx, gathering); err != nil {
		return err
	}
	since, err := p.position()
	if err != nil {
		return err
	}
	before := renewing.count.Load()
	if err := pause(ctx, silence); err != nil {
		return err
	}
	made, err := p.calls(managerUser, since)
	if err != nil {
		return err
	}
	renewed := renewing.count.Load() - before
	if wanted := int64(b.postgreSQLs) * int64(silence/renewal); renewed < wanted/2 {
		return fmt.Errorf("%d Leases were renewed in %s, not %d: there is nothing to measure", renewed, silence, wanted)
	}
	asked := made.that(func(c call) bool { return c.Verb != "watch" })
	b.add(Figure{Name: fmt.Sprintf("databases: calls in %.0f s while %d Leases are renewed", silence.Seconds(), b.postgreSQLs), Kind: Count,
		Limit: new(0.0), Value: float64(len(asked)),
		Note: fmt.Sprintf("%s; %d renewals; not counted: %s", asked, renewed, made.that(func(c call) bool { return c.Verb == "watch" }))})
	return nil
}

// databaseReactions measures the time from an edit of a PostgreSQL until its instances are told,
// and the same of a bare program that copies a value from one ConfigMap to another.
func (b *bench) databaseReactions(ctx context.Context, p *plane, renewing *renewals) error {
	before := renewing.count.Load()
	own, err := p.timeTold(ctx, databaseNamespace, func(ctx context.Context, i int, value string) (string, error) {
		name := databaseName(i % b.postgreSQLs)
		edited := &databasev1.PostgreSQL{ObjectMeta: metav1.ObjectMeta{Namespace: databaseNamespace, Name: name}}
		patch := fmt.Appendf(nil, `{"spec":{"parameters":{"work_mem":%q}}}`, value)
		return contract.SettingsName(name), p.client.Patch(ctx, edited, client.RawPatch(types.MergePatchType, patch))
	})
	if err != nil {
		return err
	}
	floor, err := b.timeBareCopies(ctx, p)
	if err != nil {
		return err
	}
	ratio := func(share float64) float64 {
		return percentile(own, share).Seconds() / percentile(floor, share).Seconds()
	}
	note := func(share float64) string {
		return fmt.Sprintf("%.1f ms, %.1f ms; %d edits each, one after the other, while %d Leases were renewed %d times",
			percentile(own, share).Seconds()*1e3, percentile(floor, share).Seconds()*1e3, databaseEdits, b.postgreSQLs,
			renewing.count.Load()-before)
	}
	b.add(
		Figure{Name: "databases: p50 from an edit until the instances are told over that of a bare program", Kind: Ratio, Value: ratio(0.5),
			Note: note(0.5)},
		Figure{Name: "databases: p99 from an edit until the instances are told over that of a bare program", Kind: Info, Value: ratio(0.99),
			Note: note(0.99)},
	)
	return nil
}

// timeBareCopies lets a bare program copy a value from ConfigMaps to others. No program can do
// less.
func (b *bench) timeBareCopies(ctx context.Context, p *plane) ([]time.Duration, error) {
	const namespace = "databases-bare"
	if err := makeNamespace(ctx, p.client, namespace); err != nil {
		return nil, err
	}
	named := func(name string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	err := each(ctx, b.postgreSQLs, clients, func(ctx context.Context, i int) error {
		return errors.Join(p.client.Create(ctx, named(databaseName(i))), p.client.Create(ctx, named(contract.SettingsName(databaseName(i)))))
	})
	if err != nil {
		return nil, err
	}
	stream, err := p.watch(ctx, &corev1.ConfigMapList{}, namespace)
	if err != nil {
		return nil, err
	}
	defer stream.Stop()
	value := func(content string) client.Patch {
		text, _ := json.Marshal(map[string]any{"data": map[string]string{"value": content}}) // strings
		return client.RawPatch(types.MergePatchType, text)
	}
	go func() {
		for event := range stream.ResultChan() {
			changed, ok := event.Object.(*corev1.ConfigMap)
			if ok && changed.Data["value"] != "" && !strings.HasSuffix(changed.Name, contract.SettingsName("")) {
				// timeTold finds a failure.
				_ = p.client.Patch(ctx, named(contract.SettingsName(changed.Name)), value(changed.Data["value"]))
			}
		}
	}()
	return p.timeTold(ctx, namespace, func(ctx context.Context, i int, content string) (string, error) {
		name := databaseName(i % b.postgreSQLs)
		return contract.SettingsName(name), p.client.Patch(ctx, named(name), value(content))
	})
}

// timeTold edits one object after the other, and measures how long the ConfigMap that edit names
// takes to have the value.
func (p *plane) timeTold(
	ctx context.Context, namespace string, edit func(ctx context.Context, i int, value string) (string, error),
) ([]time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	stream, err := p.watch(ctx, &corev1.ConfigMapList{}, namespace)
	if err != nil {
		return nil, err
	}
	defer stream.Stop()
	var took []time.Duration
	for i := range databaseEdits {
		value, start := fmt.Sprintf("%dkB", 1000+i), time.Now()
		name, err := edit(ctx, i, value)
		if err != nil {
			return nil, err
		}
		for told := false; !told; {
			event, open := <-stream.ResultChan()
			if !open {
				return nil, fmt.Errorf("ConfigMap %s/%s never had %s", namespace, name, value)
			}
			config, ok := event.Object.(*corev1.ConfigMap)
			told = ok && config.Name == name && strings.Contains(fmt.Sprint(config.Data), value)
		}
		took = append(took, time.Since(start))
	}
	return took, nil
}
