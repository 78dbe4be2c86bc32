package setup

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
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
	"github.com/mainstay-platform/mainstay/internal/injection/injector"
	"github.com/mainstay-platform/mainstay/internal/kinds/appconfig"
	"github.com/mainstay-platform/mainstay/internal/kinds/appconfig/appconfigcontroller"
	"github.com/mainstay-platform/mainstay/internal/kinds/configmonitor"
	"github.com/mainstay-platform/mainstay/internal/kinds/configmonitor/configmonitorcontroller"
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

// kind is what one of our kinds brings to the manager. A new kind is an entry in kinds, and nothing else here.
type kind struct {
	// name switches it on and off: the same in --kinds, in the chart's values and among the folders of
	// internal/kinds.
	name string
	// groupKind and plural are those of its definition.
	groupKind schema.GroupKind
	plural    string
	// object is an empty one: its objects are counted by phase.
	object client.Object
	// setup adds its controller.
	setup func(context.Context, wiring) error
	// hooks are its webhooks.
	hooks func(wiring) []admission.Hook
	// cached says what the cache holds for it where that is not the default.
	cached func() map[client.Object]cache.ByObject
	// awaited names the definition of somebody else's kind whose arrival it waits for; empty for none.
	awaited string
	// governed is how policies look at its objects; nil if they do not govern it.
	governed *platformpolicycontroller.Governed
	// usesWorkloads tells that it has to do with workloads that others made: they are cached, and may be patched.
	usesWorkloads bool
	// usesConfiguration tells that it has workloads restarted when configuration changes, for which the kinds share a
	// part: workloads.go.
	usesConfiguration bool
	// usesNamespaces tells that it looks at namespaces: their metadata are cached.
	usesNamespaces bool
	// injects tells that it injects into workloads that others made, for which the kinds share a part: injection.go.
	injects bool
	// converter is given where it has several versions. Objects are converted also while the kind is off.
	converter func(*runtime.Scheme) (conversion.Converter, error)
}

// wiring is what kinds are given.
type wiring struct {
	manager  ctrl.Manager
	settings Settings
	// kinds are those that are on.
	kinds []kind
	// rules is nil while policies are off.
	rules policy.Source
	// workloads reads what concerns workloads, for the kinds that use configuration.
	workloads observe.Reader
	// injection reads what concerns injection, for the kinds that inject; nil if none is on.
	injection *injector.Reader
}

// kinds are all kinds that there are.
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
			cached:   webappcontroller.CacheOptions,
			awaited:  webappcontroller.HTTPRouteCRD,
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
					Governed: governed(w.kinds), Watched: w.settings.WatchNamespaces,
					Ungoverned: policyreader.Ungoverned(w.settings.Namespace), Clock: w.settings.Clock,
				})
			},
			hooks:          func(w wiring) []admission.Hook { return platformpolicycontroller.Hooks(w.manager.GetScheme()) },
			cached:         policyreader.CacheOptions,
			usesNamespaces: true,
		},
	}, append(configurationKinds(), injectionKinds()...)...)
}

// configurationKinds are those that have workloads restarted when configuration changes.
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
			hooks:             func(w wiring) []admission.Hook { return configmonitorcontroller.Hooks(w.manager.GetScheme()) },
			cached:            configmonitorcontroller.CacheOptions,
			usesWorkloads:     true,
			usesConfiguration: true,
		},
		{
			name:      appconfig.Controller,
			groupKind: configv1.GroupVersion.WithKind("AppConfig").GroupKind(),
			plural:    "appconfigs",
			object:    &configv1.AppConfig{},
			setup: func(ctx context.Context, w wiring) error {
				return appconfigcontroller.Setup(ctx, w.manager, appconfigcontroller.Options{
					Concurrency: w.settings.Concurrency, Clock: w.settings.Clock, Workloads: w.workloads, HasNamespaces: haveNamespaces(w.kinds),
				})
			},
			hooks: func(w wiring) []admission.Hook {
				return appconfigcontroller.Hooks(w.manager.GetScheme(), w.namespaceCache(), w.manager.GetAPIReader())
			},
			cached:            appconfigcontroller.CacheOptions,
			usesWorkloads:     true,
			usesConfiguration: true,
		},
	}
}

// namespaceCache has the metadata of all namespaces; nil where nobody has them cached.
func (w wiring) namespaceCache() client.Reader {
	if !haveNamespaces(w.kinds) {
		return nil
	}
	return w.manager.GetClient()
}

// AllKinds names the kinds that can be switched on and off.
func AllKinds() []string {
	var names []string
	for _, k := range kinds() {
		names = append(names, k.name)
	}
	slices.Sort(names)
	return names
}

// enabledKinds are those that are named.
func enabledKinds(names []string) ([]kind, error) {
	if len(names) == 0 {
		return nil, errors.New("--kinds: none is named, and a manager would have nothing to do")
	}
	all := AllKinds()
	for _, name := range names {
		if !slices.Contains(all, name) {
			return nil, fmt.Errorf("--kinds: %q is none of %s", name, strings.Join(all, ", "))
		}
	}
	return slices.DeleteFunc(kinds(), func(k kind) bool { return !slices.Contains(names, k.name) }), nil
}

// hasPolicies tells whether there are PlatformPolicies. Without them none governs.
func (s Settings) hasPolicies() bool { return slices.Contains(s.Kinds, platformpolicy.Controller) }

// haveNamespaces tells whether one of the kinds looks at namespaces.
func haveNamespaces(on []kind) bool {
	return slices.ContainsFunc(on, func(k kind) bool { return k.usesNamespaces })
}

// definitionsOf are the names of the kinds' definitions.
func definitionsOf(on []kind) []string {
	var names []string
	for _, k := range on {
		names = append(names, k.plural+"."+k.groupKind.Group)
	}
	return names
}

// governed are those of the kinds that policies govern.
func governed(on []kind) []platformpolicycontroller.Governed {
	var found []platformpolicycontroller.Governed
	for _, k := range on {
		if k.governed != nil {
			found = append(found, *k.governed)
		}
	}
	return found
}

// addControllers adds the controllers of the kinds that are on, and what they share.
func (w wiring) addControllers(ctx context.Context) error {
	if err := w.addWorkloads(ctx); err != nil {
		return fmt.Errorf("setting up what restarts workloads: %w", err)
	}
	for _, k := range w.kinds {
		if err := k.setup(ctx, w); err != nil {
			return fmt.Errorf("setting up %s: %w", k.name, err)
		}
	}
	return nil
}

// hooks are the webhooks of the kinds that are on.
func (w wiring) hooks() []admission.Hook {
	var hooks []admission.Hook
	for _, k := range w.kinds {
		hooks = append(hooks, k.hooks(w)...)
	}
	if w.injection != nil {
		hooks = append(hooks, injector.Hook(w.manager.GetScheme(), w.injection))
	}
	return hooks
}

// cacheOptions unite what each kind wants to be held, what those share that have to do with workloads and their configuration, and the metadata of those definitions
// whose arrival is waited for. Each may say something about objects that no other does.
func cacheOptions(on []kind, secrets observe.SecretAccess) (map[client.Object]cache.ByObject, error) {
	options := map[client.Object]cache.ByObject{}
	said := map[string]string{}
	say := func(name string, cached map[client.Object]cache.ByObject) error {
		for object, option := range cached {
			if other, twice := said[about(object)]; twice {
				return fmt.Errorf("%s and %s both say how to cache %T: let one place do it", other, name, object)
			}
			said[about(object)], options[object] = name, option
		}
		return nil
	}
	if haveWorkloads(on) {
		if err := say(workloadsName, observe.WorkloadCacheOptions(templateStrip(on))); err != nil {
			return nil, err
		}
	}
	if haveConfiguration(on) {
		if err := say(configurationName, observe.ConfigurationCacheOptions(secrets)); err != nil {
			return nil, err
		}
	}
	if haveNamespaces(on) {
		if err := say("namespaces", watch.Namespaces()); err != nil {
			return nil, err
		}
	}
	var awaited []string
	for _, k := range on {
		if err := say(k.name, k.cached()); err != nil {
			return nil, err
		}
		if k.awaited != "" && !slices.Contains(awaited, k.awaited) {
			awaited = append(awaited, k.awaited)
		}
	}
	if len(awaited) > 0 {
		definitions := cache.ByObject{Label: labels.Everything()}
		if len(awaited) == 1 { // no selector can name several
			definitions.Field = fields.OneTermEqualSelector("metadata.name", awaited[0])
		}
		options[optionalapi.Definition()] = definitions
	}
	return options, nil
}

// about tells which objects an entry is for: by their type, and where only metadata are held by their kind too.
func about(object client.Object) string {
	kind := object.GetObjectKind().GroupVersionKind()
	if kind.Empty() {
		return reflect.TypeOf(object).String()
	}
	return reflect.TypeOf(object).String() + " " + kind.String()
}

// converter converts objects of all kinds that have several versions, also of those that are off: they
// are stored, and people read them.
func converter(scheme *runtime.Scheme) (http.Handler, error) {
	registry := conversion.NewRegistry()
	for _, k := range kinds() {
		if k.converter == nil {
			continue
		}
		made, err := k.converter(scheme)
		if err != nil {
			return nil, fmt.Errorf("making the converter of %s: %w", k.name, err)
		}
		if err := registry.RegisterConverter(k.groupKind, made); err != nil {
			return nil, fmt.Errorf("registering the converter of %s: %w", k.name, err)
		}
	}
	return conversion.NewWebhookHandler(scheme, registry), nil
}
