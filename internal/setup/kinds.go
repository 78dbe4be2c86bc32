package setup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/internal/kinds/appconfig/appconfigcontroller"
	"github.com/mainstay-platform/mainstay/internal/kinds/appstack/appstackcontroller"
	"github.com/mainstay-platform/mainstay/internal/kinds/cache/cachecontroller"
	"github.com/mainstay-platform/mainstay/internal/kinds/configmonitor/configmonitorcontroller"
	"github.com/mainstay-platform/mainstay/internal/kinds/ecommerceplatform/ecommerceplatformcontroller"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/instrumentationcontroller"
	"github.com/mainstay-platform/mainstay/internal/kinds/platformpolicy"
	"github.com/mainstay-platform/mainstay/internal/kinds/platformpolicy/platformpolicycontroller"
	"github.com/mainstay-platform/mainstay/internal/kinds/postgresql/postgresqlcontroller"
	"github.com/mainstay-platform/mainstay/internal/kinds/webapp/webappcontroller"
	"github.com/mainstay-platform/mainstay/internal/kit/admission"
	"github.com/mainstay-platform/mainstay/internal/kit/optionalapi"
	"github.com/mainstay-platform/mainstay/internal/kit/watch"
	"github.com/mainstay-platform/mainstay/internal/registration"
	"github.com/mainstay-platform/mainstay/internal/workload/observe"
	"github.com/mainstay-platform/mainstay/internal/workload/workloadcontroller"
)

// kinds returns all kinds. A new kind is one line here, and nothing else in this package.
func kinds() []registration.Kind {
	return append([]registration.Kind{
		webappcontroller.Registration(),
		platformpolicycontroller.Registration(),
		configmonitorcontroller.Registration(),
		appconfigcontroller.Registration(),
		postgresqlcontroller.Registration(),
		cachecontroller.Registration(),
		appstackcontroller.Registration(),
		ecommerceplatformcontroller.Registration(),
	}, instrumentationcontroller.Registrations()...)
}

// wiring is what the manager consists of.
type wiring struct {
	registration.Input
	settings Settings
}

// allKinds returns the names of the kinds that can be enabled.
func allKinds() []string {
	var names []string
	for _, k := range kinds() {
		names = append(names, k.Name)
	}
	slices.Sort(names)
	return names
}

// enabledKinds returns the kinds with these names.
func enabledKinds(names []string) ([]registration.Kind, error) {
	if len(names) == 0 {
		return nil, errors.New("--kinds: must name at least one kind")
	}
	all := allKinds()
	for _, name := range names {
		if !slices.Contains(all, name) {
			return nil, fmt.Errorf("--kinds: unsupported value %q: must be one of %s", name, strings.Join(all, ", "))
		}
	}
	return slices.DeleteFunc(kinds(), func(k registration.Kind) bool { return !slices.Contains(names, k.Name) }), nil
}

// hasPolicies reports whether the kind PlatformPolicy is on.
func (s Settings) hasPolicies() bool { return slices.Contains(s.Kinds, platformpolicy.Controller) }

// definitionsOf returns the names of the kinds' definitions.
func definitionsOf(on []registration.Kind) []string {
	var names []string
	for _, k := range on {
		names = append(names, k.Definition())
	}
	return names
}

// addControllers finds the objects of other projects, and adds the controllers of the enabled kinds
// and the one that restarts workloads for them.
func (w *wiring) addControllers(ctx context.Context) (err error) {
	if w.Objects, err = w.settings.findStackObjects(ctx, w.Manager, w.Kinds); err != nil {
		return err
	}
	if haveConfiguration(w.Kinds) {
		if err := workloadcontroller.Setup(ctx, w.Input); err != nil {
			return fmt.Errorf("setting up the restarts of workloads: %w", err)
		}
	}
	for _, k := range w.Kinds {
		if err := k.Setup(ctx, w.Input); err != nil {
			return fmt.Errorf("setting up %s: %w", k.Name, err)
		}
	}
	return nil
}

// hooks returns the webhooks of the enabled kinds, and the one of what restarts workloads for them.
func (w wiring) hooks() []admission.Hook {
	var hooks []admission.Hook
	for _, k := range w.Kinds {
		hooks = append(hooks, k.Hooks(w.Input)...)
	}
	if haveConfiguration(w.Kinds) {
		hooks = append(hooks, workloadcontroller.Hook(w.Input))
	}
	return hooks
}

// Names of what kinds share in the cache, next to the names of kinds.
const (
	workloadsName  = "workload"
	namespacesName = "namespaces"
)

// components returns the need for all objects of the kinds that are components, with the managed
// fields by which it is seen that they are as they should be.
func components(on []registration.Kind) []watch.Need {
	var needs []watch.Need
	for _, k := range on {
		if k.Component != nil {
			needs = append(needs, watch.Need{Object: k.Object, Select: labels.Everything()})
		}
	}
	return needs
}

// bindables returns the need for all objects of the kinds to which applications can be bound.
func bindables(on []registration.Kind) []watch.Need {
	var needs []watch.Need
	for _, k := range on {
		if k.Bindable != nil {
			needs = append(needs, watch.All(k.Object))
		}
	}
	return needs
}

// cacheOptions returns what the shared cache keeps: what the enabled kinds need, what those that
// use workloads and namespaces share, and the names of definitions.
func cacheOptions(on []registration.Kind, objects []string) (map[client.Object]cache.ByObject, error) {
	needs := map[string][]watch.Need{}
	for _, k := range on {
		needs[k.Name] = k.Needs
		if k.UsesNamespaces {
			needs[namespacesName] = []watch.Need{watch.Namespaces()}
		}
		if k.Composes {
			needs[k.Name] = append(slices.Clone(k.Needs), components(on)...)
		}
		if k.Binds {
			needs[k.Name] = append(slices.Clone(needs[k.Name]), bindables(on)...)
		}
		if k.UsesWorkloads && (needs[workloadsName] == nil || k.PodTemplate != nil) {
			needs[workloadsName] = observe.WorkloadNeeds(k.PodTemplate)
		}
	}
	options, err := watch.Unite(needs)
	if err != nil {
		return nil, fmt.Errorf("uniting what is read from the cache: %w", err)
	}
	if len(objects) > 0 || slices.ContainsFunc(on, func(k registration.Kind) bool { return len(k.Awaited) > 0 }) {
		options[optionalapi.Definition()] = cache.ByObject{Label: labels.Everything(), Transform: optionalapi.NameOnly}
	}
	return options, nil
}
