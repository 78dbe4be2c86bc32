package integration

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/setup"
	"github.com/mainstay-platform/mainstay/test/cases"
)

// sequences is how many stacks TestStackRandomEdits edits.
const sequences = 200

// polling is how often each of them is looked at: often enough, and no load for the API server.
const polling = 200 * time.Millisecond

// settings returns an AppConfig as a component. It is ready without pods.
func settings(stack, name string, content int, on ...string) platformv1.Component {
	spec := fmt.Sprintf(`{"application":"%s-%s","config":{"A":"%d"}}`, stack, name, content)
	return platformv1.Component{Name: name, Type: "appConfig", Spec: runtime.RawExtension{Raw: []byte(spec)}, DependsOn: on}
}

// randomSpec returns a component "kept", and some of two others, which depend on each other at
// random.
func randomSpec(random *rand.Rand, stack string) []platformv1.Component {
	components := []platformv1.Component{settings(stack, "kept", random.IntN(2))}
	for _, name := range []string{"a", "b"} {
		if random.IntN(2) == 0 {
			continue
		}
		var on []string
		for _, other := range components {
			if random.IntN(3) == 0 {
				on = append(on, other.Name)
			}
		}
		components = append(components, settings(stack, name, random.IntN(2), on...))
	}
	random.Shuffle(len(components), func(i, j int) { components[i], components[j] = components[j], components[i] })
	return components
}

// collectConfigs removes AppConfigs that are deleted in the foreground after their ConfigMaps, as
// the garbage collector would, until the test ends.
func collectConfigs(t *testing.T, namespace string) {
	t.Helper()
	var done sync.WaitGroup
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(func() { stop(); done.Wait() })
	done.Go(func() {
		ticks := time.NewTicker(250 * time.Millisecond)
		defer ticks.Stop()
		for {
			var configs configv1.AppConfigList
			_ = cluster.Client.List(ctx, &configs, client.InNamespace(namespace))
			for i := range configs.Items {
				if config := &configs.Items[i]; config.DeletionTimestamp != nil {
					_ = cluster.Client.DeleteAllOf(ctx, &corev1.ConfigMap{}, client.InNamespace(namespace),
						client.MatchingLabels{"app.kubernetes.io/instance": config.Spec.Application})
					config.Finalizers = nil
					_ = cluster.Client.Update(ctx, config) // it is tried again
				}
			}
			select {
			case <-ctx.Done():
				return
			case <-ticks.C:
			}
		}
	})
}

// configsOf returns the AppConfigs of a stack that are not being deleted, by the component.
func configsOf(ctx context.Context, namespace, stack string) (map[string]types.UID, error) {
	var configs configv1.AppConfigList
	err := cluster.Client.List(ctx, &configs, client.InNamespace(namespace), client.MatchingLabels{"app.kubernetes.io/part-of": stack})
	found := map[string]types.UID{}
	for _, config := range configs.Items {
		if config.DeletionTimestamp == nil {
			found[config.Labels["app.kubernetes.io/component"]] = config.UID
		} else {
			found["deleted "+config.Name] = config.UID
		}
	}
	return found, err
}

// TestStackRandomEdits: after quick edits of many stacks, exactly what their last specs have
// exists, all are Ready, and what every spec had was never replaced. One stack of three is deleted
// in the end, and nothing of it is left.
func TestStackRandomEdits(t *testing.T) {
	t.Parallel()
	space := namespace(t)
	startManagerWith(t, space, nil, func(settings *setup.Settings) { settings.Kinds = []string{"appconfig", "appstack"} })
	collectConfigs(t, space)
	var all sync.WaitGroup
	next := make(chan uint64)
	for range 16 {
		all.Go(func() {
			for seed := range next {
				editAtRandom(t, space, seed)
			}
		})
	}
	for seed := range cases.Seeds(t, sequences, sequences) {
		next <- seed
	}
	close(next)
	all.Wait()
}

// editAtRandom creates one stack, edits it quickly, and checks what is left in the end.
func editAtRandom(t *testing.T, space string, seed uint64) {
	t.Helper()
	g := gomega.NewGomega(func(message string, _ ...int) { t.Errorf("seed %d: %s", seed, message) })
	random := rand.New(rand.NewPCG(seed, 2))
	name := fmt.Sprintf("s%d", seed)
	stack := &platformv1.AppStack{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: name}}
	stack.Spec.Components = randomSpec(random, name)
	if err := cluster.Client.Create(t.Context(), stack); err != nil {
		t.Error(err)
		return
	}
	has := func(name string) func(context.Context) (types.UID, error) {
		return func(ctx context.Context) (types.UID, error) {
			found, err := configsOf(ctx, space, stack.Name)
			return found[name], err
		}
	}
	// The component may depend on nothing, so that it is there at once.
	var kept types.UID
	g.Eventually(func(ctx context.Context) (types.UID, error) {
		var err error
		kept, err = has("kept")(ctx)
		return kept, err
	}).WithContext(t.Context()).WithPolling(polling).ShouldNot(gomega.BeEmpty())
	for range 1 + random.IntN(3) {
		components := randomSpec(random, name)
		g.Eventually(func(ctx context.Context) error {
			if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(stack), stack); err != nil {
				return err
			}
			stack.Spec.Components = components
			return cluster.Client.Update(ctx, stack)
		}).WithContext(t.Context()).Should(gomega.Succeed())
	}
	isDeleted := random.IntN(3) == 0
	var want []string
	if isDeleted {
		g.Expect(cluster.Client.Delete(t.Context(), stack)).To(gomega.Succeed())
	} else {
		for _, c := range stack.Spec.Components {
			want = append(want, c.Name)
		}
		slices.Sort(want)
	}
	g.Eventually(func(ctx context.Context) error { return ended(ctx, stack, want, kept) }).WithContext(t.Context()).
		WithPolling(polling).Should(gomega.Succeed())
}

// ended returns an error unless a stack has come to rest with these components; none if it is
// deleted. kept is the UID of the component that every spec had.
func ended(ctx context.Context, stack *platformv1.AppStack, want []string, kept types.UID) error {
	found, err := configsOf(ctx, stack.Namespace, stack.Name)
	if err != nil {
		return err
	}
	var live platformv1.AppStack
	err = cluster.Client.Get(ctx, client.ObjectKeyFromObject(stack), &live)
	if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, want) {
		return fmt.Errorf("there is %v, and the spec has %v: %v", got, want, live.Status)
	}
	switch {
	case len(want) == 0 && apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	case len(want) == 0:
		return fmt.Errorf("the stack still exists")
	case found["kept"] != kept:
		return fmt.Errorf("what every spec had was replaced")
	case live.Status.ObservedGeneration != live.Generation || !meta.IsStatusConditionTrue(live.Status.Conditions, "Ready"):
		return fmt.Errorf("it is not ready: %v", live.Status)
	}
	return nil
}
