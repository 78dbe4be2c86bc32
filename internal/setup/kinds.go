package setup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	msappsv1beta1 "github.com/mainstay-platform/mainstay/api/apps/v1beta1"
	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/appconfig"
	"github.com/mainstay-platform/mainstay/internal/kinds/appconfig/appconfigcontroller"
	"github.com/mainstay-platform/mainstay/internal/kinds/configmonitor"
	"github.com/mainstay-platform/mainstay/internal/kinds/configmonitor/configmonitorcontroller"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/instrumentationcontroller"
	"github.com/mainstay-platform/mainstay/internal/kinds/platformpolicy"
	"github.com/mainstay-platform/mainstay/internal/kinds/platformpolicy/platformpolicycontroller"
	"github.com/mainstay-platform/mainstay/internal/kinds/webapp"
	"github.com/mainstay-platform/mainstay/internal/kinds/webapp/webappcontroller"
	"github.com/mainstay-platform/mainstay/internal/kit/admission"
	"github.com/mainstay-platform/mainstay/internal/kit/optionalapi"
	"github.com/mainstay-platform/mainstay/internal/kit/watch"
	"github.com/mainstay-platform/mainstay/internal/policy"
	"github.com/mainstay-platform/mainstay/internal/policy/policyreader"
	"github.com/mainstay-platform/mainstay/internal/workload/observe"
)

// kind is what one of our kinds adds to the manager. A new kind is one entry in kinds, and nothing
// else in this package.
type kind struct {
	// name enables and disables the kind. It is the same in --kinds, in the chart's values and, except
	// for a second scope of a kind, among the folders of internal/kinds.
	name string
	// groupKind and plural are those of its definition.
	groupKind schema.GroupKind
	plural    string
	// object is an empty object of the kind: objects are counted by phase.
	object client.Object
	// setup adds its controller.
	setup func(context.Context, wiring) error
	// hooks returns its webhooks.
	hooks func(wiring) []admission.Hook
	// needs returns what it reads from the shared cache where that differs from the default.
	needs func() []watch.Need
	// awaited are the names of other projects' definitions that the kind uses if they are there.
	awaited []string
	// governed is how policies read its objects, or nil if no rules apply to them.
	governed *platformpolicycontroller.Governed
	// usesWorkloads reports whether it reads and patches workloads of others, which are then cached.
	usesWorkloads bool
	// demands returns the reader of what it demands of workloads, or nil if it restarts none. What
	// these kinds share is in workloads.go.
	demands func() observe.DemandReader
	// usesNamespaces reports whether it reads the metadata of namespaces, which are then cached.
	usesNamespaces bool
	// injects reports whether it injects into workloads of others. What these kinds share is in
	// injection.go.
	injects bool
	// converter is set if the kind has several versions. Objects are converted even while the kind is
	// off.
	converter func(*runtime.Scheme) (conversion.Converter, error)
}

// wiring is the input of the kinds' functions.
type wiring struct {
	manager  ctrl.Manager
	settings Settings
	// kinds are the enabled kinds.
	kinds []kind
	// reviewing is what all webhooks read through that the cache does not have.
	reviewing client.Reader
	// rules is nil while policies are off.
	rules policy.Source
	// workloads reads everything about workloads, for the kinds that use configuration.
	workloads observe.Reader
	// injection reads everything about injection, for the kinds that inject; nil if none is on.
	injection *instrumentationcontroller.Reader
}

// kinds returns all kinds.
func kinds() []kind {
	return append([]kind{
		{
			name:      webapp.Controller,
			groupKind: msappsv1.GroupVersion.WithKind("WebApp").GroupKind(),
			plural:    "webapps",
			object:    &msappsv1.WebApp{},
			setup: func(ctx context.Context, w wiring) error {
				return webappcontroller.Setup(ctx, w.manager, webappcontroller.Options{
					Concurrency: w.settings.Concurrency, Clock: w.settings.Clock, Rules: w.rules,
				})
			},
			hooks: func(w wiring) []admission.Hook {
				return webappcontroller.Hooks(w.manager.GetScheme(), w.manager.GetClient(), w.rules)
			},
			needs:    webappcontroller.Needs,
			awaited:  []string{webappcontroller.HTTPRouteCRD},
			governed: &platformpolicycontroller.Governed{Object: &msappsv1.WebApp{}, Objects: webappcontroller.Objects},
			converter: func(scheme *runtime.Scheme) (conversion.Converter, error) {
				return conversion.NewHubSpokeConverter(&msappsv1.WebApp{},
					conversion.NewSpokeConverter(&msappsv1beta1.WebApp{}, webapp.FromV1, webapp.ToV1))(scheme)
			},
		},
		{
			name:      platformpolicy.Controller,
			groupKind: mspolicyv1.GroupVersion.WithKind("PlatformPolicy").GroupKind(),
			plural:    "platformpolicies",
			object:    &mspolicyv1.PlatformPolicy{},
			setup: func(_ context.Context, w wiring) error {
				return platformpolicycontroller.Setup(w.manager, platformpolicycontroller.Options{
					Governed: governed(w.kinds), Watched: w.settings.admitted,
					Ungoverned: policyreader.Ungoverned(w.settings.Namespace), Clock: w.settings.Clock,
				})
			},
			hooks:          func(w wiring) []admission.Hook { return platformpolicycontroller.Hooks(w.manager.GetScheme()) },
			needs:          policyreader.Needs,
			usesNamespaces: true,
		},
	}, append(configurationKinds(), injectionKinds()...)...)
}

// configurationKinds returns the kinds that restart workloads when configuration changes.
func configurationKinds() []kind {
	return []kind{
		{
			name:      configmonitor.Controller,
			groupKind: configv1.GroupVersion.WithKind(configmonitor.Kind).GroupKind(),
			plural:    "configmonitors",
			object:    &configv1.ConfigMonitor{},
			setup: func(ctx context.Context, w wiring) error {
				return configmonitorcontroller.Setup(ctx, w.manager, configmonitorcontroller.Options{
					Concurrency: w.settings.Concurrency, Clock: w.settings.Clock, Reader: w.workloads,
				})
			},
			hooks:         func(w wiring) []admission.Hook { return configmonitorcontroller.Hooks(w.manager.GetScheme()) },
			needs:         configmonitorcontroller.Needs,
			usesWorkloads: true,
			demands:       configmonitorcontroller.Demands,
		},
		{
			name:      appconfig.Controller,
			groupKind: configv1.GroupVersion.WithKind(appconfig.Kind).GroupKind(),
			plural:    "appconfigs",
			object:    &configv1.AppConfig{},
			setup: func(ctx context.Context, w wiring) error {
				return appconfigcontroller.Setup(ctx, w.manager, appconfigcontroller.Options{
					Concurrency: w.settings.Concurrency, Clock: w.settings.Clock, Workloads: w.workloads, HasNamespaces: haveNamespaces(w.kinds),
				})
			},
			hooks: func(w wiring) []admission.Hook {
				return appconfigcontroller.Hooks(w.manager.GetScheme(), w.namespaceCache(), w.reviewing)
			},
			needs:         appconfigcontroller.Needs,
			usesWorkloads: true,
			demands:       appconfigcontroller.Demands,
		},
	}
}

// namespaceCache returns a reader of the metadata of all namespaces, or nil if no kind caches them.
func (w wiring) namespaceCache() client.Reader {
	if !haveNamespaces(w.kinds) {
		return nil
	}
	return w.manager.GetClient()
}

// AllKinds returns the names of the kinds that can be enabled.
func AllKinds() []string {
	var names []string
	for _, k := range kinds() {
		names = append(names, k.name)
	}
	slices.Sort(names)
	return names
}

// enabledKinds returns the kinds with these names.
func enabledKinds(names []string) ([]kind, error) {
	if len(names) == 0 {
		return nil, errors.New("--kinds: must name at least one kind")
	}
	all := AllKinds()
	for _, name := range names {
		if !slices.Contains(all, name) {
			return nil, fmt.Errorf("--kinds: unsupported value %q: must be one of %s", name, strings.Join(all, ", "))
		}
	}
	return slices.DeleteFunc(kinds(), func(k kind) bool { return !slices.Contains(names, k.name) }), nil
}

// hasPolicies reports whether the kind PlatformPolicy is on.
func (s Settings) hasPolicies() bool { return slices.Contains(s.Kinds, platformpolicy.Controller) }

// haveNamespaces reports whether one of the kinds reads namespaces.
func haveNamespaces(on []kind) bool {
	return slices.ContainsFunc(on, func(k kind) bool { return k.usesNamespaces })
}

// definitionsOf returns the names of the kinds' definitions.
func definitionsOf(on []kind) []string {
	var names []string
	for _, k := range on {
		names = append(names, k.plural+"."+k.groupKind.Group)
	}
	return names
}

// governed returns, of the kinds to which rules apply, how policies read their objects.
func governed(on []kind) []platformpolicycontroller.Governed {
	var found []platformpolicycontroller.Governed
	for _, k := range on {
		if k.governed != nil {
			found = append(found, *k.governed)
		}
	}
	return found
}

// addControllers adds the controllers of the enabled kinds, and what they share.
func (w wiring) addControllers(ctx context.Context) error {
	if err := w.addWorkloads(ctx); err != nil {
		return fmt.Errorf("setting up the restarts of workloads: %w", err)
	}
	for _, k := range w.kinds {
		if err := k.setup(ctx, w); err != nil {
			return fmt.Errorf("setting up %s: %w", k.name, err)
		}
	}
	return nil
}

// hooks returns the webhooks of the enabled kinds.
func (w wiring) hooks() []admission.Hook {
	var hooks []admission.Hook
	for _, k := range w.kinds {
		hooks = append(hooks, k.hooks(w)...)
	}
	if w.injection != nil {
		hooks = append(hooks, instrumentationcontroller.Hook(w.manager.GetScheme(), w.injection))
	}
	return hooks
}

// cacheOptions returns what the shared cache keeps: what the enabled kinds need, what those that
// use workloads share, and the metadata of the awaited definitions.
func cacheOptions(on []kind) (map[client.Object]cache.ByObject, error) {
	needs := map[string][]watch.Need{}
	if haveWorkloads(on) {
		needs[workloadsName] = observe.WorkloadNeeds(templateStrip(on))
	}
	if haveNamespaces(on) {
		needs["namespaces"] = []watch.Need{watch.Namespaces()}
	}
	var awaited []string
	for _, k := range on {
		needs[k.name] = k.needs()
		awaited = append(awaited, k.awaited...)
	}
	options, err := watch.Unite(needs)
	if err != nil {
		return nil, fmt.Errorf("uniting what is read from the cache: %w", err)
	}
	slices.Sort(awaited)
	if awaited = slices.Compact(awaited); len(awaited) > 0 {
		definitions := cache.ByObject{Label: labels.Everything()}
		if len(awaited) == 1 { // no field selector can match several names
			definitions.Field = fields.OneTermEqualSelector("metadata.name", awaited[0])
		}
		options[optionalapi.Definition()] = definitions
	}
	return options, nil
}
