package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	silence = time.Minute
	// strangers is the number of Secrets, and of ConfigMaps, that are not ours, each of strangerSize
	// bytes.
	strangers    = 300
	strangerSize = 1_000_000
	megabyte     = 1e6
	// gathering is longer than the time for which changes are collected before the status of a
	// PlatformPolicy is computed.
	gathering = 5 * time.Second
)

// rest measures an idle manager: its calls, its memory, and the start of a new one.
func (b *bench) rest(ctx context.Context) error {
	p, kubeconfig, err := b.managedPlane(ctx, "rest")
	if err != nil {
		return err
	}
	defer b.end(p)
	port, err := freePort(ctx)
	if err != nil {
		return err
	}
	running, err := startChild(p.directory, childOptions{Kubeconfig: kubeconfig, Elect: true, WebhookPort: port})
	if err != nil {
		return err
	}
	if err := awaitWebhooks(ctx, p.client); err != nil {
		return err
	}
	err = errors.Join(b.fill(ctx, p, running, b.apps), b.silence(ctx, p, running), b.strangers(ctx, p, running), running.stop())
	if err != nil {
		return err
	}
	return b.restart(ctx, p, childOptions{Kubeconfig: kubeconfig, WebhookPort: port}, b.apps)
}

// manyObjects measures a restart with many more WebApps.
func (b *bench) manyObjects(ctx context.Context) error {
	p, kubeconfig, err := b.managedPlane(ctx, "many")
	if err != nil {
		return err
	}
	defer b.end(p)
	running, err := startChild(p.directory, childOptions{Kubeconfig: kubeconfig})
	if err != nil {
		return err
	}
	if err := errors.Join(b.fill(ctx, p, running, b.many), running.stop()); err != nil {
		return err
	}
	return b.restart(ctx, p, childOptions{Kubeconfig: kubeconfig}, b.many)
}

// fill has a manager create the children of n WebApps, and measures its memory for them.
func (b *bench) fill(ctx context.Context, p *plane, running *child, n int) error {
	if err := b.awaitManager(ctx, p, running); err != nil {
		return err
	}
	empty, err := running.state(true)
	if err != nil {
		return err
	}
	if err := makeNamespace(ctx, p.client, appNamespace); err != nil {
		return err
	}
	if err := createWebApps(ctx, p.client, appNamespace, n, clients); err != nil {
		return err
	}
	if _, err := running.settle(ctx, n); err != nil {
		return err
	}
	full, err := running.state(true)
	if err != nil {
		return err
	}
	size, err := sizeOf(ctx, p.client, appNamespace)
	if err != nil {
		return err
	}
	heap := float64(full.Heap) - float64(empty.Heap)
	b.add(Figure{Name: fmt.Sprintf("%d WebApps: heap over the JSON of them and their children", n), Kind: Ratio, Limit: new(3.0),
		Value: heap / float64(size),
		Note: fmt.Sprintf("%.1f kB of heap for %.1f kB of JSON each; %.1f MB without any", heap/float64(n)/1e3, float64(size)/float64(n)/1e3,
			float64(empty.Heap)/megabyte)})
	return nil
}

// sizeOf returns the bytes of JSON of the WebApps of a namespace and their children.
func sizeOf(ctx context.Context, reader client.Reader, namespace string) (int, error) {
	total := 0
	for _, each := range listed {
		list := each.list.DeepCopyObject().(client.ObjectList)
		if err := reader.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return 0, err
		}
		err := meta.EachListItem(list, func(object runtime.Object) error {
			text, err := json.Marshal(object)
			total += len(text)
			return err
		})
		if err != nil {
			return 0, err
		}
	}
	return total, nil
}

// silence counts the calls of an idle leader.
func (b *bench) silence(ctx context.Context, p *plane, running *child) error {
	if _, err := running.settle(ctx, b.apps); err != nil {
		return err
	}
	made, err := p.callsAtRest(ctx, silence)
	if err != nil {
		return err
	}
	asked := made.that(not(call.isLease), func(c call) bool { return c.Verb != "watch" })
	b.add(Figure{Name: fmt.Sprintf("rest: calls in %.0f s of silence", silence.Seconds()), Kind: Count, Limit: new(0.0),
		Value: float64(len(asked)),
		Note:  fmt.Sprintf("%s; not counted: %s", asked, made.that(func(c call) bool { return c.isLease() || c.Verb == "watch" }))})
	return nil
}

// strangers measures the cost of objects that are not ours.
func (b *bench) strangers(ctx context.Context, p *plane, running *child) error {
	before, err := running.state(true)
	if err != nil {
		return err
	}
	if err := makeNamespace(ctx, p.client, "strange"); err != nil {
		return err
	}
	content := slices.Repeat([]byte("x"), strangerSize)
	err = each(ctx, strangers, clients, func(ctx context.Context, i int) error {
		name := metav1.ObjectMeta{Namespace: "strange", Name: fmt.Sprintf("strange-%d", i)}
		return errors.Join(
			p.client.Create(ctx, &corev1.Secret{ObjectMeta: name, Data: map[string][]byte{"x": content}}),
			p.client.Create(ctx, &corev1.ConfigMap{ObjectMeta: name, Data: map[string]string{"x": string(content)}}),
		)
	})
	if err != nil {
		return err
	}
	// A watch would have delivered them before this WebApp.
	if err := p.client.Create(ctx, newWebApp(appNamespace, "last")); err != nil {
		return err
	}
	if _, err := running.settle(ctx, b.apps+1); err != nil {
		return err
	}
	// The status of a policy is written some seconds after the objects that it counts.
	if err := pause(ctx, gathering); err != nil {
		return err
	}
	after, err := running.state(true)
	if err != nil {
		return err
	}
	b.add(Figure{Name: fmt.Sprintf("rest: heap for %d Secrets and ConfigMaps of 1 MB", 2*strangers), Kind: Info, Unit: "MB", Limit: new(10.0),
		Value: max(0, (float64(after.Heap)-float64(before.Heap))/megabyte)})
	return nil
}

// memoryLimit is resources.limits.memory in the chart, in MiB, of the manager and of our own API
// server.
const memoryLimit = 512

// runs is how often a start is measured. The median counts.
const runs = 5

// restart measures the start of a manager in a cluster where nothing is to be done.
func (b *bench) restart(ctx context.Context, p *plane, options childOptions, n int) error {
	var ours, listed, kept []time.Duration
	var most uint64
	writes := 0
	for range runs {
		list, err := bareRead(ctx, listCommand, options.Kubeconfig)
		if err != nil {
			return err
		}
		caches, err := bareRead(ctx, cachesCommand, options.Kubeconfig)
		if err != nil {
			return err
		}
		listed, kept = append(listed, list), append(kept, caches)
		since, err := p.position()
		if err != nil {
			return err
		}
		running, err := startChild(p.directory, options)
		if err != nil {
			return err
		}
		settled, err := running.settle(ctx, n)
		peak, peakErr := running.peak()
		if err := errors.Join(err, peakErr, running.stop()); err != nil {
			return err
		}
		most = max(most, peak)
		ours = append(ours, settled.FirstReconcile)
		made, err := p.calls(managerUser, since)
		if err != nil {
			return err
		}
		if err := checkListed(made); err != nil {
			return err
		}
		writes += len(made.that(not(call.isRead), not(call.isLease)))
	}
	b.add(
		Figure{Name: fmt.Sprintf("restart with %d WebApps: writes", n), Kind: Count, Limit: new(0.0), Value: float64(writes)},
		b.overFloor(n, median(ours), median(listed), median(kept)),
		Figure{Name: fmt.Sprintf("restart with %d WebApps: most memory of the process", n), Kind: Info, Unit: "MiB",
			Limit: new(float64(memoryLimit)), Value: float64(most) / mebibyte,
			Note: "garbage among them, the most of all starts; promised is the chart's limit"},
	)
	return nil
}

// overFloor compares the time of a start with that of a bare LIST. With many WebApps it compares
// with the library's caches of the same objects: every manager has these, and they alone take much
// longer than a LIST.
func (b *bench) overFloor(n int, ours, listed, kept time.Duration) Figure {
	floor, name, promised := listed, "a bare LIST", 1.3
	if n == b.many {
		floor, name, promised = kept, "the library's caches", 1.5
	}
	return Figure{
		Name: fmt.Sprintf("restart with %d WebApps: time to the first reconcile over %s", n, name), Kind: Ratio, Limit: &promised,
		Value: ours.Seconds() / floor.Seconds(),
		Note: fmt.Sprintf("%.2f s from the start of the process; one that lists the same and ends: %.2f s; "+
			"one that fills the library's caches with it: %.2f s", ours.Seconds(), listed.Seconds(), kept.Seconds()),
	}
}

func median(of []time.Duration) time.Duration { return slices.Sorted(slices.Values(of))[len(of)/2] }

// bareRead runs the program that only reads, in one of its ways.
func bareRead(ctx context.Context, command, kubeconfig string) (time.Duration, error) {
	encoded, err := json.Marshal(childOptions{Kubeconfig: kubeconfig, Started: time.Now()})
	if err != nil {
		return 0, err
	}
	process := exec.CommandContext(ctx, "/proc/self/exe", command, string(encoded))
	process.Stderr = os.Stderr
	answer, err := process.Output()
	if err != nil {
		return 0, fmt.Errorf("reading everything (%s): %w", command, err)
	}
	var found state
	err = json.Unmarshal(answer, &found)
	return found.FirstReconcile, err
}
