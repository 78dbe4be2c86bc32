package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/internal/install/hashkey"
	"github.com/mainstay-platform/mainstay/internal/workload/observe"
	"github.com/mainstay-platform/mainstay/internal/workload/workloadcontroller"
)

// Some kinds use workloads of others, and some of those restart them when configuration changes.
// This file has what they share. It is active while one of them is on.

// Names of the shared parts, next to the names of kinds. The chart's parts with the rights have the
// same names.
const (
	workloadsName     = "workload"
	configurationName = "configuration"
)

// haveWorkloads reports whether one of the kinds uses workloads of others.
func haveWorkloads(on []kind) bool {
	return slices.ContainsFunc(on, func(k kind) bool { return k.usesWorkloads })
}

// haveConfiguration reports whether one of the kinds restarts workloads.
func haveConfiguration(on []kind) bool {
	return slices.ContainsFunc(on, func(k kind) bool { return k.demands != nil })
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

// secretAccess returns whose Secrets are read. If there are any, it reads the hash key, or creates
// it.
func secretAccess(ctx context.Context, config *rest.Config, settings Settings, on []kind) (observe.SecretAccess, error) {
	if len(settings.SecretNamespaces) == 0 || !haveConfiguration(on) {
		return observe.SecretAccess{}, nil
	}
	live, err := newClient(config)
	if err != nil {
		return observe.SecretAccess{}, err
	}
	key, err := hashkey.Load(ctx, live, settings.Namespace)
	if err != nil {
		return observe.SecretAccess{}, err
	}
	granted, err := grantedSecrets(ctx, live, settings.SecretNamespaces, grantPatience)
	if err != nil {
		return observe.SecretAccess{}, err
	}
	return observe.NewSecretAccess(granted, key), nil
}

// grantPatience is how long a right to Secrets may be missing when the manager starts: an API
// server that has just started, or a Role that was just created, denies for a moment what it allows
// afterwards.
const grantPatience = 5 * time.Second

// grantedSecrets returns the namespaces whose Secrets the manager may read. For a namespace without
// the Role the cache would wait for ever, and all other work of the manager with it. Objects that
// depend on Secrets of such a namespace say that they may not be read.
func grantedSecrets(ctx context.Context, live client.Reader, namespaces []string, patience time.Duration) ([]string, error) {
	granted, missing := map[string]bool{}, map[string]error{}
	var failed error
	err := wait.PollUntilContextTimeout(ctx, patience/5, patience, true, func(context.Context) (bool, error) {
		clear(missing)
		for _, namespace := range namespaces {
			if granted[namespace] {
				continue
			}
			switch err := askSecrets(ctx, live, namespace); {
			case err == nil:
				granted[namespace] = true
			case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
				missing[namespace] = err
			default:
				failed = fmt.Errorf("checking the right to read Secrets in namespace %s: %w", namespace, err)
				return true, nil
			}
		}
		return len(missing) == 0, nil
	})
	if failed != nil {
		return nil, failed
	}
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("checking the rights to read Secrets: %w", err)
	}
	for _, namespace := range slices.Sorted(maps.Keys(missing)) {
		ctrl.Log.WithName("setup").Error(missing[namespace],
			"Secrets of a namespace are not read until the next start, because the manager has no Role to "+
				"get, list and watch secrets there: create the namespace and run helm upgrade, which creates the Role", "namespace", namespace)
	}
	return slices.DeleteFunc(slices.Clone(namespaces), func(namespace string) bool { return !granted[namespace] }), nil
}

// askSecrets returns an error if the Secrets of a namespace may not be read. It reads no value of
// any.
func askSecrets(ctx context.Context, live client.Reader, namespace string) error {
	one := &metav1.PartialObjectMetadataList{}
	one.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	return live.List(ctx, one, client.InNamespace(namespace), client.Limit(1))
}

// addSources adds the cache of ConfigMaps and Secrets to the manager, and returns it; nil if no
// kind restarts workloads.
func (s *storage) addSources(ctx context.Context, manager ctrl.Manager, restConfig *rest.Config, settings Settings,
	on []kind) (*observe.Sources, error) {
	if !haveConfiguration(on) {
		return nil, nil //nolint:nilnil // none is needed
	}
	secrets, err := secretAccess(ctx, restConfig, settings, on)
	if err != nil {
		return nil, err
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
func workloadReader(manager ctrl.Manager, settings Settings, on []kind, sources *observe.Sources) observe.Reader {
	return observe.Reader{
		Cached: manager.GetClient(), Live: manager.GetAPIReader(), Sources: sources, Templates: observe.NewTemplateTimes(),
		DemandReaders: demandReaders(on), Stakater: settings.StakaterAnnotations,
	}
}

// demandReaders returns the readers of the kinds' demands, sorted by name: the order of demands is
// that of messages and events.
func demandReaders(on []kind) []observe.DemandReader {
	var readers []observe.DemandReader
	for _, k := range on {
		if k.demands != nil {
			readers = append(readers, k.demands())
		}
	}
	slices.SortFunc(readers, func(a, b observe.DemandReader) int { return cmp.Compare(a.Name, b.Name) })
	return readers
}

// addWorkloads adds what the kinds share that restart workloads.
func (w wiring) addWorkloads(ctx context.Context) error {
	if !haveConfiguration(w.kinds) {
		return nil
	}
	return workloadcontroller.Setup(ctx, w.manager, workloadcontroller.Options{
		Concurrency: w.settings.Concurrency, Clock: w.settings.Clock, Reader: w.workloads,
	})
}
