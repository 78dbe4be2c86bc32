package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/mainstay-platform/mainstay/internal/registration"
	"github.com/mainstay-platform/mainstay/internal/workload/observe"
)

// Some kinds restart workloads of others when configuration changes. This file has what they share.
// It is active while one of them is on.

// haveConfiguration reports whether one of the kinds restarts workloads.
func haveConfiguration(on []registration.Kind) bool {
	return slices.ContainsFunc(on, func(k registration.Kind) bool { return k.Demands != nil })
}

// validateSecretNamespaces checks --secret-namespaces.
func (s Settings) validateSecretNamespaces() error {
	if len(s.SecretNamespaces) == 0 {
		return nil
	}
	if s.Namespace == "" {
		return errors.New("--secret-namespaces needs --namespace, the manager's own namespace, which has the Secret with the hash key")
	}
	for _, namespace := range s.SecretNamespaces {
		if problems := validation.IsDNS1123Label(namespace); len(problems) > 0 {
			return fmt.Errorf("--secret-namespaces: invalid value %q: must be the name of a namespace: %s", namespace, problems[0])
		}
		if len(s.WatchNamespaces) > 0 && !slices.Contains(s.WatchNamespaces, namespace) {
			return fmt.Errorf("--secret-namespaces: invalid value %q: must be one of --watch-namespaces (%s): add it there, or remove it here",
				namespace, strings.Join(s.WatchNamespaces, ","))
		}
	}
	return nil
}

// addSources adds the cache of ConfigMaps and Secrets to the manager, and returns it. It returns
// nil if no kind restarts workloads.
func (s *storage) addSources(ctx context.Context, manager ctrl.Manager, settings Settings, on []registration.Kind,
	secrets observe.SecretAccess) (*observe.Sources, error) {
	if !haveConfiguration(on) {
		return nil, nil //nolint:nilnil // none is needed
	}
	sources, err := observe.NewSources(ctx, settings.WatchNamespaces, secrets, func(options cache.Options) (cache.Cache, error) {
		options.Scheme, options.Mapper = manager.GetScheme(), manager.GetRESTMapper()
		return s.newCache(manager.GetConfig(), options)
	})
	if err != nil {
		return nil, err
	}
	if err := manager.Add(sources); err != nil {
		return nil, fmt.Errorf("adding the cache of ConfigMaps and Secrets: %w", err)
	}
	return sources, nil
}

// workloadReader returns the reader of everything that decides about a namespace's workloads.
func workloadReader(manager ctrl.Manager, settings Settings, on []registration.Kind, sources *observe.Sources) observe.Reader {
	return observe.Reader{
		Cached: manager.GetClient(), Live: manager.GetAPIReader(), Sources: sources, Templates: observe.NewTemplateTimes(),
		Refusals: observe.NewRefusals(), DemandReaders: demandReaders(on), Stakater: settings.StakaterAnnotations,
	}
}

// demandReaders returns what reads the kinds' demands for restarts, sorted by name. Messages and
// events list demands in this order.
func demandReaders(on []registration.Kind) []observe.DemandReader {
	var readers []observe.DemandReader
	for _, k := range on {
		if k.Demands != nil {
			readers = append(readers, *k.Demands)
		}
	}
	slices.SortFunc(readers, func(a, b observe.DemandReader) int { return cmp.Compare(a.Name, b.Name) })
	return readers
}
