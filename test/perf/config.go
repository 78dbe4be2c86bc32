package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

const (
	// singles is the number of Deployments with a ConfigMap each, which are edited one after the
	// other.
	singles = 300
	// barely is the value of the annotation for the Deployments that the bare program patches.
	barely = "bare"
	// settings is the name of a ConfigMap.
	settings = "settings"
)

// fanOuts are numbers of Deployments that use one ConfigMap, and the seconds within which all must
// be patched.
var fanOuts = []struct {
	deployments int
	limit       float64
}{{200, 1}, {500, 3}}

// configuration measures how fast a changed ConfigMap reaches the workloads that use it. The
// Deployments are scaled to 0: the time of their pods is not ours.
func (b *bench) configuration(ctx context.Context) error {
	p, kubeconfig, err := b.managedPlane(ctx, "config")
	if err != nil {
		return err
	}
	defer b.end(p)
	running, err := startChild(p.directory, childOptions{Kubeconfig: kubeconfig})
	if err != nil {
		return err
	}
	defer b.endChild(running)
	if err := b.awaitManager(ctx, p, running); err != nil {
		return err
	}
	for _, fan := range fanOuts {
		if err := b.fanOut(ctx, p, fan.deployments, fan.limit); err != nil {
			return fmt.Errorf("%d Deployments: %w", fan.deployments, err)
		}
	}
	return b.oneByOne(ctx, p)
}

// fanOut edits a ConfigMap that n Deployments use, a few times, and counts what the manager does.
func (b *bench) fanOut(ctx context.Context, p *plane, n int, limit float64) error {
	namespace := fmt.Sprintf("fan-out-%d", n)
	if err := makeNamespace(ctx, p.client, namespace); err != nil {
		return err
	}
	if err := p.client.Create(ctx, settingsOf(namespace, settings, "0")); err != nil {
		return err
	}
	stamped := p.until(ctx, &appsv1.DeploymentList{}, n, stampedIn(namespace))
	err := each(ctx, n, clients, func(ctx context.Context, i int) error {
		return p.client.Create(ctx, scaledToZero(namespace, fmt.Sprintf("app-%d", i), settings, "auto"))
	})
	if err := errors.Join(err, <-stamped); err != nil {
		return err
	}
	var took []time.Duration
	var made calls
	// More frequent edits would be flapping, and restarts would be delayed.
	for round := range runs {
		if err := pause(ctx, cooldown); err != nil {
			return err
		}
		position, err := p.position()
		if err != nil {
			return err
		}
		value := fmt.Sprint(round + 1)
		patched := p.until(ctx, &appsv1.DeploymentList{}, n, restartedIn(namespace, tokenOf(settings, value)))
		start := time.Now()
		if err := p.client.Update(ctx, settingsOf(namespace, settings, value)); err != nil {
			return err
		}
		if err := <-patched; err != nil {
			return err
		}
		took = append(took, time.Since(start))
		if made, err = p.calls(managerUser, position); err != nil {
			return err
		}
	}
	made = made.that(not(call.isEvent), not(call.isLease))
	patches := made.that(func(c call) bool { return c.Verb == "patch" && c.ObjectRef.Resource == "deployments" })
	lists := made.that(func(c call) bool { return c.Verb == "list" })
	b.add(
		Figure{Name: fmt.Sprintf("config: %d Deployments of one ConfigMap: until all are patched", n), Kind: Info, Unit: "s", Limit: &limit,
			Value: median(took).Seconds(), Note: fmt.Sprintf("from the edit's request to the last patch, as another client sees it; each of %v",
				took)},
		Figure{Name: fmt.Sprintf("config: %d Deployments of one ConfigMap: patches of one edit", n), Kind: Count, Limit: new(float64(n)),
			Value: float64(len(patches)), Note: made.String()},
		Figure{Name: fmt.Sprintf("config: %d Deployments of one ConfigMap: lists of one edit", n), Kind: Count, Limit: new(0.0),
			Value: float64(len(lists))},
	)
	return nil
}

// cooldown is longer than the minimum interval between two restarts of a workload.
const cooldown = 31 * time.Second

// oneByOne edits ConfigMaps of one Deployment each, for the manager, and as many for a bare program
// that watches and patches.
func (b *bench) oneByOne(ctx context.Context, p *plane) error {
	own, err := b.timeSingles(ctx, p, "single", "auto")
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if err := patchBarely(ctx, p, "single-bare"); err != nil {
		return err
	}
	floor, err := b.timeSingles(ctx, p, "single-bare", barely)
	if err != nil {
		return err
	}
	more := percentile(own, 0.99) - percentile(floor, 0.99)
	b.add(Figure{Name: "config: one Deployment: p99 beyond that of a bare program", Kind: Info, Unit: "ms", Limit: new(20.0),
		Value: float64(more.Microseconds()) / 1e3,
		Note: fmt.Sprintf("p50 %s and p99 %s, bare %s and %s, of %d edits each", percentile(own, 0.5).Round(10*time.Microsecond),
			percentile(own, 0.99).Round(10*time.Microsecond),
			percentile(floor, 0.5).Round(10*time.Microsecond), percentile(floor, 0.99).Round(10*time.Microsecond), singles)})
	return nil
}

// timeSingles edits the ConfigMaps one after the other, and measures the time until the Deployment
// of each is patched.
func (b *bench) timeSingles(ctx context.Context, p *plane, namespace, reload string) ([]time.Duration, error) {
	if err := makeNamespace(ctx, p.client, namespace); err != nil {
		return nil, err
	}
	ready := stampedIn(namespace)
	if reload == barely {
		ready = func(object client.Object) bool { return object.GetNamespace() == namespace }
	}
	stamped := p.until(ctx, &appsv1.DeploymentList{}, singles, ready)
	err := each(ctx, singles, clients, func(ctx context.Context, i int) error {
		name := fmt.Sprintf("app-%d", i)
		return errors.Join(p.client.Create(ctx, settingsOf(namespace, name, "0")),
			p.client.Create(ctx, scaledToZero(namespace, name, name, reload)))
	})
	if err := errors.Join(err, <-stamped); err != nil {
		return nil, err
	}
	stream, err := p.watch(ctx, &appsv1.DeploymentList{}, namespace)
	if err != nil {
		return nil, err
	}
	defer stream.Stop()
	var took []time.Duration
	for i := range singles {
		name := fmt.Sprintf("app-%d", i)
		start := time.Now()
		if err := p.client.Update(ctx, settingsOf(namespace, name, "1")); err != nil {
			return nil, err
		}
		for event := range stream.ResultChan() {
			if deployment, ok := event.Object.(*appsv1.Deployment); ok && deployment.Name == name &&
				deployment.Spec.Template.Annotations[configv1.AnnotationRestartedFor] != "" {
				break
			}
		}
		took = append(took, time.Since(start))
	}
	return took, nil
}

// patchBarely watches the ConfigMaps of a namespace, and patches the Deployment of the same name
// when one changes. No program can do less.
func patchBarely(ctx context.Context, p *plane, namespace string) error {
	stream, err := p.watch(ctx, &corev1.ConfigMapList{}, namespace)
	if err != nil {
		return err
	}
	go func() {
		defer stream.Stop()
		for event := range stream.ResultChan() {
			changed, ok := event.Object.(*corev1.ConfigMap)
			if !ok || changed.Data["value"] == "0" {
				continue
			}
			body := fmt.Sprintf(`{"metadata":{"annotations":{%q:"x"}},"spec":{"template":{"metadata":{"annotations":{%q:"%s"}}}}}`,
				configv1.AnnotationObserved, configv1.AnnotationRestartedFor, changed.Data["value"])
			// The caller's wait for the patch finds a failure.
			_ = p.client.Patch(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: changed.Name}},
				client.RawPatch(types.MergePatchType, []byte(body)))
		}
	}()
	return nil
}

func settingsOf(namespace, name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string]string{"value": value}}
}

// scaledToZero returns a Deployment whose pods would use a ConfigMap.
func scaledToZero(namespace, name, configMap, reload string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name,
			Annotations: map[string]string{configv1.AnnotationReload: strings.TrimPrefix(reload, barely)}},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(0)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web", EnvFrom: []corev1.EnvFromSource{
					{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: configMap}}},
				}}}},
			},
		},
	}
}

// stampedIn returns a condition for Deployments of a namespace that have a stamp.
func stampedIn(namespace string) func(client.Object) bool {
	return func(object client.Object) bool {
		return object.GetNamespace() == namespace && object.GetAnnotations()[configv1.AnnotationObserved] != ""
	}
}

// restartedIn returns a condition for Deployments of a namespace that were restarted for a content.
func restartedIn(namespace, token string) func(client.Object) bool {
	return func(object client.Object) bool {
		deployment, ok := object.(*appsv1.Deployment)
		if !ok || object.GetNamespace() != namespace {
			return false
		}
		started, _, _ := strings.Cut(deployment.Spec.Template.Annotations[configv1.AnnotationRestartedFor], "#")
		return started == token
	}
}

// tokenOf returns the token of a Deployment that uses all keys of such a ConfigMap.
func tokenOf(name, value string) string {
	return name + "=" + workload.HashAll(map[string]string{"value": workload.HashKey([]byte(value))})
}
