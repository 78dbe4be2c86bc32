package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/appstack"
)

const (
	// stacksEach is the number of stacks in each namespace.
	stacksEach = 100
	// reactions is how often the time from a ready component to the next one is measured, in turns
	// with a bare program, because a machine is not as fast all the time.
	reactions, turns = 300, 3
	// brokenStacks is the number of stacks that fail while others are measured.
	brokenStacks = 100
	// bareLabel is the label of the AppConfigs that the bare program reacts to.
	bareLabel = "perf.example.com/bare"
)

// appStacks measures a manager with many AppStacks of three AppConfigs, one after the other: they
// are ready without pods.
func (b *bench) appStacks(ctx context.Context) error {
	p, kubeconfig, err := b.managedPlane(ctx, "stacks")
	if err != nil {
		return err
	}
	defer b.end(p)
	options := childOptions{Kubeconfig: kubeconfig, Controller: appstack.Controller}
	running, err := startChild(p.directory, options)
	if err != nil {
		return err
	}
	err = errors.Join(b.stackReactions(ctx, p, running), b.fillStacks(ctx, p, running))
	if err := errors.Join(err, running.stop()); err != nil {
		return err
	}
	return b.restartStacks(ctx, p, options)
}

// newStack returns an AppStack of AppConfigs, each of which depends on the one before.
func newStack(namespace, name, content string, components ...string) *platformv1.AppStack {
	stack := &platformv1.AppStack{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	for i, component := range components {
		spec := fmt.Sprintf(`{"application":"%s-%s","config":{"A":%q}}`, name, component, content)
		c := platformv1.Component{Name: component, Type: "appConfig", Spec: runtime.RawExtension{Raw: []byte(spec)}}
		if i > 0 {
			c.DependsOn = components[i-1 : i]
		}
		stack.Spec.Components = append(stack.Spec.Components, c)
	}
	return stack
}

func isStackReady(stack *platformv1.AppStack) bool {
	return meta.IsStatusConditionTrue(stack.Status.Conditions, platformv1.ConditionReady)
}

// stackReactions measures the time from the event that a component is ready to the event that the
// next one exists, beside a bare program that watches and creates, and beside broken stacks.
func (b *bench) stackReactions(ctx context.Context, p *plane, running *child) error {
	for _, namespace := range []string{"own", "bare", "broken", "beside"} {
		if err := makeNamespace(ctx, p.client, namespace); err != nil {
			return err
		}
	}
	if err := p.client.Create(ctx, newStack("own", "first", "x", "a")); err != nil {
		return err
	}
	if _, err := running.settle(ctx, 1); err != nil {
		return err
	}
	stop, err := p.reactBarely(ctx)
	if err != nil {
		return err
	}
	defer stop()
	own, bare, err := p.takeTurns(ctx, "own", 0)
	if err != nil {
		return err
	}
	err = each(ctx, brokenStacks, clients, func(ctx context.Context, i int) error {
		return p.client.Create(ctx, newStack("broken", fmt.Sprintf("broken-%d", i), "{{ .no.such.value }}", "a", "b"))
	})
	if err != nil {
		return err
	}
	if _, err := running.settle(ctx, brokenStacks); err != nil {
		return err
	}
	beside, bareBeside, err := p.takeTurns(ctx, "beside", turns)
	if err != nil {
		return err
	}
	p99, floor := percentile(own, 0.99), percentile(bare, 0.99)
	milliseconds := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }
	b.add(
		Figure{Name: "stacks: p99 from a ready component to the next one", Kind: Info, Unit: "ms", Limit: new(250.0), Value: milliseconds(p99),
			Note: fmt.Sprintf("p50 %s, of %d", percentile(own, 0.5).Round(10*time.Microsecond), reactions)},
		Figure{Name: "stacks: the same, beyond that of a bare program", Kind: Info, Unit: "ms", Limit: new(20.0),
			Value: milliseconds(p99 - floor), Note: fmt.Sprintf("which has %s", floor.Round(10*time.Microsecond))},
	)
	for _, q := range []float64{0.5, 0.99} {
		before, after := percentile(own, q), percentile(beside, q)
		slower := milliseconds(percentile(bareBeside, q)) / milliseconds(percentile(bare, q))
		figure := Figure{Name: fmt.Sprintf("stacks: p%g beside %d broken stacks over that without", 100*q, brokenStacks), Kind: Info,
			Value: milliseconds(after) / milliseconds(before) / slower,
			Note: fmt.Sprintf("%s, and %s before; meanwhile the bare program's became %.2f of before, which is divided out",
				after.Round(10*time.Microsecond), before.Round(10*time.Microsecond), slower)}
		if q == 0.5 { //nolint:mnd // The worst three of 300 say more about the machine.
			figure.Kind, figure.Limit = Ratio, new(1.05)
		}
		b.add(figure)
	}
	return nil
}

// takeTurns measures stacks and the bare program, in turns that are numbered from first on.
func (p *plane) takeTurns(ctx context.Context, namespace string, first int) (own, bare []time.Duration, err error) {
	for turn := range turns {
		ours, err := p.timeStacks(ctx, namespace, first+turn)
		if err != nil {
			return nil, nil, err
		}
		theirs, err := p.timeBare(ctx, first+turn)
		if err != nil {
			return nil, nil, err
		}
		own, bare = append(own, ours...), append(bare, theirs...)
	}
	return own, bare, nil
}

// timeStacks returns the times from the first component of a stack to the second one, for stacks in
// a namespace.
func (p *plane) timeStacks(ctx context.Context, namespace string, turn int) ([]time.Duration, error) {
	return p.timeReactions(ctx, namespace, turn, func(ctx context.Context, name string) error {
		return p.client.Create(ctx, newStack(namespace, name, "x", "a", "b"))
	})
}

// timeReactions has AppConfigs NAME-a created in a namespace one after the other, and returns the
// times from each one's readiness to the creation of NAME-b, as another client sees them. The names
// are those of a turn.
func (p *plane) timeReactions(ctx context.Context, namespace string, turn int,
	create func(context.Context, string) error) ([]time.Duration, error) {
	stream, err := p.watch(ctx, &configv1.AppConfigList{}, namespace)
	if err != nil {
		return nil, err
	}
	defer stream.Stop()
	var took []time.Duration
	for i := range reactions / turns {
		name := fmt.Sprintf("shop-%d-%d", turn, i)
		if err := create(ctx, name); err != nil {
			return nil, err
		}
		var ready time.Time
		for event := range stream.ResultChan() {
			config, ok := event.Object.(*configv1.AppConfig)
			switch {
			case !ok:
			case config.Name == name+"-a" && ready.IsZero() && isConfigReady(config):
				ready = time.Now()
			case config.Name == name+"-b" && event.Type == watch.Added:
				took = append(took, time.Since(ready))
			}
			if len(took) > i {
				break
			}
		}
		if len(took) <= i || ready.IsZero() {
			return nil, fmt.Errorf("the component after %s-a was not created, or before that was ready", name)
		}
	}
	return took, nil
}

func isConfigReady(config *configv1.AppConfig) bool {
	ready := meta.FindStatusCondition(config.Status.Conditions, configv1.ConditionReady)
	return ready != nil && ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == config.Generation
}

// newConfig returns an AppConfig that no stack has.
func newConfig(name string) *configv1.AppConfig {
	return &configv1.AppConfig{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bare", Name: name, Labels: map[string]string{bareLabel: "true"}},
		Spec:       configv1.AppConfigSpec{Application: name, Config: map[string]string{"A": "x"}},
	}
}

// reactBarely is a program that watches AppConfigs, and creates NAME-b when NAME-a is ready. No
// program can do less. It works until it is stopped.
func (p *plane) reactBarely(ctx context.Context) (stop func(), err error) {
	stream, err := p.watch(ctx, &configv1.AppConfigList{}, "bare")
	if err != nil {
		return nil, err
	}
	go func() {
		created := map[string]bool{}
		for event := range stream.ResultChan() {
			config, ok := event.Object.(*configv1.AppConfig)
			if !ok || config.Labels[bareLabel] == "" || !strings.HasSuffix(config.Name, "-a") {
				continue
			}
			if created[config.Name] || !isConfigReady(config) {
				continue
			}
			created[config.Name] = true
			// The measuring client's wait finds a failure.
			_ = p.client.Create(ctx, newConfig(strings.TrimSuffix(config.Name, "-a")+"-b"))
		}
	}()
	return stream.Stop, nil
}

// timeBare measures the bare program.
func (p *plane) timeBare(ctx context.Context, turn int) ([]time.Duration, error) {
	return p.timeReactions(ctx, "bare", turn, func(ctx context.Context, name string) error {
		return p.client.Create(ctx, newConfig(name+"-a"))
	})
}

// fillStacks creates stacks of three components, and measures the manager's memory for them, and
// its calls at rest.
func (b *bench) fillStacks(ctx context.Context, p *plane, running *child) error {
	before, err := running.state(true)
	if err != nil {
		return err
	}
	for i := range b.stackNamespaces() {
		if err := makeNamespace(ctx, p.client, stackNamespace(i)); err != nil {
			return err
		}
	}
	err = each(ctx, b.stacks, clients, func(ctx context.Context, i int) error {
		return p.client.Create(ctx, newStack(stackNamespace(i/stacksEach), fmt.Sprintf("stack-%05d", i), "x", "a", "b", "c"))
	})
	if err := errors.Join(err, b.awaitStacks(ctx, p)); err != nil {
		return err
	}
	if _, err := running.settle(ctx, b.stacks); err != nil {
		return err
	}
	full, err := running.state(true)
	if err != nil {
		return err
	}
	size := 0
	for i := range b.stackNamespaces() {
		found, err := sizeOf(ctx, p.client, stackNamespace(i))
		if err != nil {
			return err
		}
		size += found
	}
	heap := float64(full.Heap) - float64(before.Heap)
	b.add(Figure{Name: fmt.Sprintf("stacks: heap for %d of three components over the JSON of them and all children", b.stacks), Kind: Ratio,
		Limit: new(3.0), Value: heap / float64(size),
		Note: fmt.Sprintf("%.1f kB of heap for %.1f kB of JSON each", heap/float64(b.stacks)/1e3, float64(size)/float64(b.stacks)/1e3)})
	return b.stackSilence(ctx, p)
}

// stackNamespaces is the number of namespaces with stacks.
func (b *bench) stackNamespaces() int { return (b.stacks + stacksEach - 1) / stacksEach }

func stackNamespace(index int) string { return fmt.Sprintf("stacks-%03d", index) }

// awaitStacks waits until all stacks are ready.
func (b *bench) awaitStacks(ctx context.Context, p *plane) error {
	for i := range b.stackNamespaces() {
		for {
			unready, err := p.unreadyStacks(ctx, stackNamespace(i))
			if err != nil {
				return err
			}
			if unready == 0 {
				break
			}
			if err := pause(ctx, time.Second); err != nil {
				return fmt.Errorf("%d stacks of namespace %s are not ready: %w", unready, stackNamespace(i), err)
			}
		}
	}
	return nil
}

// unreadyStacks returns the number of stacks of a namespace that are not ready.
func (p *plane) unreadyStacks(ctx context.Context, namespace string) (int, error) {
	var stacks platformv1.AppStackList
	if err := p.client.List(ctx, &stacks, client.InNamespace(namespace)); err != nil {
		return 0, err
	}
	unready := 0
	for i := range stacks.Items {
		if !isStackReady(&stacks.Items[i]) {
			unready++
		}
	}
	return unready, nil
}

// stackSilence counts the calls of an idle manager.
func (b *bench) stackSilence(ctx context.Context, p *plane) error {
	made, err := p.callsAtRest(ctx, silence)
	if err != nil {
		return err
	}
	asked := made.that(not(call.isLease), func(c call) bool { return c.Verb != "watch" })
	b.add(Figure{Name: fmt.Sprintf("stacks: calls in %.0f s of silence", silence.Seconds()), Kind: Count, Limit: new(0.0),
		Value: float64(len(asked)), Note: asked.String()})
	return nil
}

// restartStacks counts the writes of a manager that starts where nothing is to be done, and how
// many of its reconciles are quick.
func (b *bench) restartStacks(ctx context.Context, p *plane, options childOptions) error {
	since, err := p.position()
	if err != nil {
		return err
	}
	running, err := startChild(p.directory, options)
	if err != nil {
		return err
	}
	settled, err := running.settle(ctx, b.stacks)
	if err := errors.Join(err, running.stop()); err != nil {
		return err
	}
	made, err := p.calls(managerUser, since)
	if err != nil {
		return err
	}
	written := made.that(not(call.isRead), not(call.isLease))
	b.add(
		Figure{Name: fmt.Sprintf("restart with %d stacks: writes", b.stacks), Kind: Count, Limit: new(0.0), Value: float64(len(written)),
			Note: written.String()},
		Figure{Name: fmt.Sprintf("restart with %d stacks: reconciles within 50 ms", b.stacks), Kind: Info, Unit: "%", AtLeast: true,
			Limit: new(99.0), Value: 100 * float64(settled.Quick) / float64(settled.Reconciled),
			Note: fmt.Sprintf("%d of %d", settled.Quick, settled.Reconciled)},
	)
	return nil
}
