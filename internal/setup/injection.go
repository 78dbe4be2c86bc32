package setup

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/injection"
	"github.com/mainstay-platform/mainstay/internal/injection/injector"
	"github.com/mainstay-platform/mainstay/internal/kinds/clusterinstrumentation"
	"github.com/mainstay-platform/mainstay/internal/kinds/clusterinstrumentation/clusterinstrumentationcontroller"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/instrumentationcontroller"
	"github.com/mainstay-platform/mainstay/internal/kit/admission"
	"github.com/mainstay-platform/mainstay/internal/policy/policyreader"
)

// injectionKinds returns the kinds that inject into workloads of others.
func injectionKinds() []kind {
	inject := func(name, of string, object client.Object, setup func(ctrl.Manager, injector.Options) error,
		hooks func(wiring) []admission.Hook, cached func() map[client.Object]cache.ByObject,
	) kind {
		return kind{
			name: name, groupKind: instrv1.GroupVersion.WithKind(of).GroupKind(), plural: name + "s", object: object,
			setup: func(_ context.Context, w wiring) error { return setup(w.manager, w.injectorOptions()) },
			hooks: hooks, cached: cached, usesWorkloads: true, usesNamespaces: true, injects: true,
		}
	}
	return []kind{
		inject(instrumentation.Controller, injection.KindNamespaced, &instrv1.Instrumentation{}, instrumentationcontroller.Setup,
			func(w wiring) []admission.Hook { return instrumentationcontroller.Hooks(w.manager.GetScheme()) },
			instrumentationcontroller.CacheOptions),
		inject(clusterinstrumentation.Controller, injection.KindCluster, &instrv1.ClusterInstrumentation{},
			clusterinstrumentationcontroller.Setup,
			func(w wiring) []admission.Hook {
				return clusterinstrumentationcontroller.Hooks(w.manager.GetScheme())
			}, clusterinstrumentationcontroller.CacheOptions),
	}
}

func (w wiring) injectorOptions() injector.Options {
	return injector.Options{
		Concurrency: w.settings.Concurrency, Clock: w.settings.Clock, Reader: w.injection,
		Direct: !w.settings.Webhooks.Enabled, Sources: w.workloads.Sources,
	}
}

// haveInjection reports whether one of the kinds injects.
func haveInjection(on []kind) bool {
	return slices.ContainsFunc(on, func(k kind) bool { return k.injects })
}

// templateStrip returns what the cache keeps of pod templates in addition to what restarts need, or
// nil for nothing.
func templateStrip(on []kind) func(*corev1.PodTemplateSpec) corev1.PodSpec {
	if !haveInjection(on) {
		return nil
	}
	return injection.Strip
}

// injectionReader returns the reader for injection, or nil if none of the kinds injects. It knows
// the keys of ConfigMaps and Secrets only if another kind caches them.
func injectionReader(config *rest.Config, wired wiring) (*injector.Reader, error) {
	manager := wired.manager
	if !haveInjection(wired.kinds) {
		return nil, nil //nolint:nilnil // no reader is a valid answer
	}
	asked, err := discovery.NewDiscoveryClientForConfigAndClient(config, manager.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("preparing to read the cluster's version: %w", err)
	}
	found, err := asked.ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("reading the cluster's version: %w", err)
	}
	isOn := func(name string) bool {
		return slices.ContainsFunc(wired.kinds, func(k kind) bool { return k.name == name })
	}
	reader := injector.Reader{
		Cached: manager.GetClient(), Live: manager.GetAPIReader(), Ungoverned: policyreader.Ungoverned(wired.settings.Namespace),
		Namespaced: isOn(instrumentation.Controller), Cluster: isOn(clusterinstrumentation.Controller), HasImageVolumes: hasImageVolumes(found),
	}
	if haveConfiguration(wired.kinds) {
		reader.Source = wired.workloads.Source
	}
	return injector.NewReader(reader), nil
}

// imageVolumes is the minor version of Kubernetes 1 from which image volumes are on by default
// (KEP-4639).
const imageVolumes = 35

func hasImageVolumes(found *version.Info) bool {
	major, _ := strconv.Atoi(found.Major)
	minor, _ := strconv.Atoi(strings.TrimRight(found.Minor, "+"))
	return major > 1 || major == 1 && minor >= imageVolumes
}
