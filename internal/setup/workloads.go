package setup

import (
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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/internal/install/hashkey"
	"github.com/mainstay-platform/mainstay/internal/workload/observe"
	"github.com/mainstay-platform/mainstay/internal/workload/workloadcontroller"
)

// Some kinds have to do with workloads that others made, and some of those have them restarted when configuration changes. What they share is
// here: it is there while one of them is on.

// How what they share is called, where kinds have names: as the parts in the chart that have the rights to it.
const (
	workloadsName     = "workload"
	configurationName = "configuration"
)

// haveWorkloads tells whether one of the kinds has to do with workloads.
func haveWorkloads(on []kind) bool {
	return slices.ContainsFunc(on, func(k kind) bool { return k.usesWorkloads })
}

// haveConfiguration tells whether one of the kinds has workloads restarted.
func haveConfiguration(on []kind) bool {
	return slices.ContainsFunc(on, func(k kind) bool { return k.usesConfiguration })
}

// validateSecretNamespaces checks --secret-namespaces.
func (s Settings) validateSecretNamespaces() error {
	if len(s.SecretNamespaces) == 0 {
		return nil
	}
	if s.Namespace == "" {
		return errors.New("--secret-namespaces needs --namespace: the manager's own, where the key is that Secrets are hashed with")
	}
	for _, namespace := range s.SecretNamespaces {
		if problems := validation.IsDNS1123Label(namespace); len(problems) > 0 {
			return fmt.Errorf("--secret-namespaces: %q is no name of a namespace: %s", namespace, problems[0])
		}
		if len(s.WatchNamespaces) > 0 && !slices.Contains(s.WatchNamespaces, namespace) {
			return fmt.Errorf("--secret-namespaces: %q is not watched, for --watch-namespaces is %s: name it there too, or not here",
				namespace, strings.Join(s.WatchNamespaces, ","))
		}
	}
	return nil
}

// secretAccess says whose Secrets are read. The key that they are hashed with is read, or made, where there are any, and never otherwise.
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

// grantPatience is how long a right to Secrets may be missing when the manager starts: an API server that has just started, or a Role that
// was just made, refuses for a moment what it allows afterwards.
const grantPatience = 5 * time.Second

// grantedSecrets are those of the namespaces whose Secrets may be read. The cache would wait without end for one whose Role is missing, or
// went with the namespace, and with it all else that the manager does. What depends on the Secrets of such a namespace says that they
// may not be read.
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
				failed = fmt.Errorf("asking whether the Secrets of namespace %s may be read: %w", namespace, err)
				return true, nil
			}
		}
		return len(missing) == 0, nil
	})
	if failed != nil {
		return nil, failed
	}
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("asking whose Secrets may be read: %w", err)
	}
	for _, namespace := range slices.Sorted(maps.Keys(missing)) {
		ctrl.Log.WithName("setup").Error(missing[namespace],
			"The Secrets of a namespace are not read until the next start: the Role is missing that lets "+
				"the manager get, list and watch secrets there; helm upgrade makes it, if the namespace exists", "namespace", namespace)
	}
	return slices.DeleteFunc(slices.Clone(namespaces), func(namespace string) bool { return !granted[namespace] }), nil
}

// askSecrets fails if the Secrets of a namespace may not be read. It asks for no value of any.
func askSecrets(ctx context.Context, live client.Reader, namespace string) error {
	one := &metav1.PartialObjectMetadataList{}
	one.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	return live.List(ctx, one, client.InNamespace(namespace), client.Limit(1))
}

// workloadReader reads what decisions about a namespace's workloads rest on.
func workloadReader(manager ctrl.Manager, settings Settings, on []kind, secrets observe.SecretAccess) observe.Reader {
	isOn := func(name string) bool {
		return slices.ContainsFunc(on, func(k kind) bool { return k.name == name })
	}
	return observe.Reader{
		Cached: manager.GetClient(), Live: manager.GetAPIReader(), Secrets: secrets, Templates: observe.NewTemplateTimes(),
		AppConfigs: isOn("appconfig"), ConfigMonitors: isOn("configmonitor"), Stakater: settings.StakaterAnnotations,
	}
}

// addWorkloads adds what the kinds share that have workloads restarted.
func (w wiring) addWorkloads(ctx context.Context) error {
	if !haveConfiguration(w.kinds) {
		return nil
	}
	if err := observe.Index(ctx, w.manager.GetFieldIndexer(), w.workloads.Secrets); err != nil {
		return err
	}
	return workloadcontroller.Setup(ctx, w.manager, workloadcontroller.Options{
		Concurrency: w.settings.Concurrency, Clock: w.settings.Clock, Reader: w.workloads,
	})
}
