package setup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/mainstay-platform/mainstay/internal/hashkey"
	"github.com/mainstay-platform/mainstay/internal/workload/observe"
	"github.com/mainstay-platform/mainstay/internal/workload/workloadcontroller"
)

// Some kinds have workloads restarted when configuration changes. What they share is here: it is there while one of them is on.

// workloadsName is how what they share is called, where kinds have names.
const workloadsName = "workload"

// haveWorkloads tells whether one of the kinds has workloads restarted.
func haveWorkloads(on []kind) bool {
	return slices.ContainsFunc(on, func(k kind) bool { return k.usesWorkloads })
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
	if len(settings.SecretNamespaces) == 0 || !haveWorkloads(on) {
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
	return observe.NewSecretAccess(settings.SecretNamespaces, key), nil
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
	if !haveWorkloads(w.kinds) {
		return nil
	}
	if err := observe.Index(ctx, w.manager.GetFieldIndexer(), w.workloads.Secrets); err != nil {
		return err
	}
	return workloadcontroller.Setup(ctx, w.manager, workloadcontroller.Options{
		Concurrency: w.settings.Concurrency, Clock: w.settings.Clock, Reader: w.workloads,
	})
}
