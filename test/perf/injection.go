package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/instrumentationtest"
)

const (
	injectedNamespace = "injected"
	// instrumentable is the number of Deployments, half of which match.
	instrumentable = 1000
	matched        = instrumentable / 2
	// injectionQuiet is how long a manager must make no call after an injection.
	injectionQuiet = 30 * time.Second
)

// injection measures how fast an agent and a change of it reach existing Deployments, and how long
// their owners wait. The Deployments are scaled to 0, and no controller reconciles them: the time
// of their pods is not ours.
func (b *bench) injection(ctx context.Context) error {
	p, kubeconfig, err := b.managedPlane(ctx, "injection")
	if err != nil {
		return err
	}
	defer b.end(p)
	port, err := freePort(ctx)
	if err != nil {
		return err
	}
	if err := fillInjectable(ctx, p); err != nil {
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
	agent := &instrv1.Instrumentation{
		ObjectMeta: metav1.ObjectMeta{Namespace: injectedNamespace, Name: "java"},
		Spec: instrv1.InstrumentationSpec{
			Matchers: []instrv1.Matcher{{Deployment: "matched-*"}},
			Agent:    instrv1.Agent{Image: "agent:1", Language: instrv1.LanguageJava},
		},
	}
	if err := b.promises(ctx); err != nil {
		return err
	}
	steps := []struct {
		name string
		do   func() error
		has  string
	}{
		{"until all are injected", func() error { return p.client.Create(ctx, agent) }, "agent.jar"},
		{"until all have a changed one", func() error { return patchOptions(ctx, p.client, agent) }, "agent.jar=debug"},
		{"until all are restored", func() error { return p.client.Delete(ctx, agent) }, ""},
	}
	for i, step := range steps {
		if err := b.inject(ctx, p, step.name, step.has, step.do); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		if i == 1 {
			if err := errors.Join(b.injectionAtRest(ctx, p), b.composing(ctx, p)); err != nil {
				return err
			}
		}
	}
	return nil
}

// generatedTemplates is the number of templates checked. The tests check a hundredth of them.
const generatedTemplates = 100_000

// promises checks what Compose promises with generated pod templates.
func (b *bench) promises(ctx context.Context) error {
	start := time.Now()
	var injected atomic.Int64
	err := each(ctx, generatedTemplates, runtime.NumCPU(), func(_ context.Context, i int) error {
		count, err := instrumentationtest.Check(uint64(i)) //nolint:gosec // never negative
		injected.Add(int64(count))
		return err
	})
	if err != nil {
		return err
	}
	b.add(Figure{Name: "injection: generated pod templates of which all promises hold", Kind: Count, Value: generatedTemplates,
		Limit: new(float64(generatedTemplates)), AtLeast: true,
		Note: fmt.Sprintf("%d injections, %s", injected.Load(), time.Since(start).Round(time.Second))})
	return nil
}

func fillInjectable(ctx context.Context, p *plane) error {
	if err := makeNamespace(ctx, p.client, injectedNamespace); err != nil {
		return err
	}
	return each(ctx, instrumentable, clients, func(ctx context.Context, i int) error {
		return p.client.Create(ctx, injectable(i))
	})
}

// injectable returns one of the Deployments. Every second one matches.
func injectable(i int) *appsv1.Deployment {
	name := fmt.Sprintf("other-%d", i)
	if i%2 == 0 {
		name = fmt.Sprintf("matched-%d", i)
	}
	deployment := scaledToZero(injectedNamespace, name, "settings", "")
	deployment.Annotations = nil
	container := &deployment.Spec.Template.Spec.Containers[0]
	container.EnvFrom = nil
	container.Env = []corev1.EnvVar{{Name: "JAVA_TOOL_OPTIONS", Value: "-Xmx64m"}, {Name: "PORT", Value: "8080"}}
	return deployment
}

func patchOptions(ctx context.Context, to client.Client, agent *instrv1.Instrumentation) error {
	return to.Patch(ctx, agent, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"agent":{"options":"debug"}}}`)))
}

// inject makes a change that affects all matching Deployments. It measures the time, relative to as
// many patches by a bare client, and counts the manager's writes. At the end it reports, as the
// Deployment controller would, that the pods exist.
func (b *bench) inject(ctx context.Context, p *plane, name, has string, do func() error) error {
	position, err := p.position()
	if err != nil {
		return err
	}
	done := p.until(ctx, &appsv1.DeploymentList{}, matched, hasAgent(has))
	start := time.Now()
	if err := do(); err != nil {
		return err
	}
	if err := <-done; err != nil {
		return err
	}
	took := time.Since(start)
	made, err := p.calls(managerUser, position)
	if err != nil {
		return err
	}
	floor, err := patchAsMany(ctx, p)
	if err != nil {
		return err
	}
	patches := made.that(func(c call) bool { return c.Verb == "patch" && c.ObjectRef.Resource == "deployments" })
	lists := made.that(func(c call) bool { return c.Verb == "list" && c.ObjectRef.Resource != "pods" })
	title := fmt.Sprintf("injection: %d of %d Deployments: ", matched, instrumentable)
	b.add(
		Figure{Name: title + name, Kind: Info, Unit: "s", Limit: new(10.0), Value: took.Seconds()},
		Figure{Name: title + name + ", over a bare client's patches", Kind: Ratio, Value: took.Seconds() / floor.Seconds(),
			Note: fmt.Sprintf("%.2f s; as many patches of an annotation, as many at once, of Deployments that are not matched: %.2f s",
				took.Seconds(), floor.Seconds())},
		Figure{Name: title + name + ": patches", Kind: Count, Limit: new(float64(matched)), Value: float64(len(patches)), Note: made.String()},
		Figure{Name: title + name + ": lists", Kind: Count, Limit: new(0.0), Value: float64(len(lists))},
	)
	return settleDeployments(ctx, p)
}

// hasAgent returns a condition for matching Deployments whose variable ends with the suffix. An
// empty suffix means the owner's value.
func hasAgent(suffix string) func(client.Object) bool {
	return func(object client.Object) bool {
		deployment, ok := object.(*appsv1.Deployment)
		if !ok || !strings.HasPrefix(deployment.Name, "matched-") {
			return false
		}
		spec := &deployment.Spec.Template.Spec
		if suffix == "" {
			return len(spec.InitContainers) == 0 && spec.Containers[0].Env[0].Value == "-Xmx64m"
		}
		return len(spec.InitContainers) == 1 && strings.HasSuffix(spec.Containers[0].Env[0].Value, suffix)
	}
}

// patchesAtOnce is the number of parallel patches of the manager.
const patchesAtOnce = 16

// patchAsMany patches as many Deployments that do not match.
func patchAsMany(ctx context.Context, p *plane) (time.Duration, error) {
	start := time.Now()
	err := each(ctx, matched, patchesAtOnce, func(ctx context.Context, i int) error {
		body := fmt.Appendf(nil, `{"metadata":{"annotations":{"bench":"%d"}}}`, start.UnixNano())
		return p.client.Patch(ctx, injectable(2*i+1), client.RawPatch(types.MergePatchType, body))
	})
	return time.Since(start), err
}

// settleDeployments writes the status of each Deployment as its controller would.
func settleDeployments(ctx context.Context, p *plane) error {
	var all appsv1.DeploymentList
	if err := p.client.List(ctx, &all, client.InNamespace(injectedNamespace)); err != nil {
		return err
	}
	return each(ctx, len(all.Items), clients, func(ctx context.Context, i int) error {
		one := &all.Items[i]
		one.Status.ObservedGeneration = one.Generation
		one.Status.Conditions = []appsv1.DeploymentCondition{{
			Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable", LastUpdateTime: metav1.Now(),
		}}
		return p.client.Status().Update(ctx, one)
	})
}

// injectionAtRest counts the manager's calls while nothing changes.
func (b *bench) injectionAtRest(ctx context.Context, p *plane) error {
	made, err := p.callsAtRest(ctx, injectionQuiet)
	if err != nil {
		return err
	}
	made = made.that(not(call.isEvent), not(call.isLease), func(c call) bool { return c.Verb != "watch" })
	b.add(Figure{Name: fmt.Sprintf("injection: calls in %s at rest", injectionQuiet), Kind: Count, Limit: new(0.0), Value: float64(len(made)),
		Note: made.String()})
	return nil
}

// composing compares how long an owner waits for a Deployment that the webhook handles with the
// wait in a namespace without webhooks.
func (b *bench) composing(ctx context.Context, p *plane) error {
	const unwatched = metav1.NamespaceSystem
	var took [2][]time.Duration
	for i := range warmUp + reviews {
		for side, namespace := range []string{injectedNamespace, unwatched} {
			one := injectable(2 * instrumentable)
			one.Namespace = namespace
			start := time.Now()
			if err := p.client.Create(ctx, one, client.DryRunAll); err != nil {
				return err
			}
			if i >= warmUp {
				took[side] = append(took[side], time.Since(start))
			}
		}
	}
	// The 99th percentile depends, on both sides, on other work of the two processors.
	for _, one := range []struct {
		share float64
		limit *float64
	}{{0.5, new(5.0)}, {0.99, nil}} {
		share, limit := one.share, one.limit
		own, floor := percentile(took[0], share), percentile(took[1], share)
		b.add(Figure{Name: fmt.Sprintf("injection: p%.0f of what an owner waits longer", share*100), Kind: Info, Unit: "ms", Limit: limit,
			Value: (own.Seconds() - floor.Seconds()) * 1e3,
			Note: fmt.Sprintf("%.2f ms, and %.2f ms where no webhook is asked; %d dry-run creations of a Deployment, one after the other",
				own.Seconds()*1e3, floor.Seconds()*1e3, reviews)})
	}
	return nil
}
