package setup

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/internal/install/hashkey"
	"github.com/mainstay-platform/mainstay/internal/kinds/platformpolicy"
	"github.com/mainstay-platform/mainstay/internal/registration"
	"github.com/mainstay-platform/mainstay/internal/workload/observe"
)

// A cache waits for ever for a namespace in which it may not list, and all other work of the
// manager with it. A namespace that is deleted loses its Roles. So the manager asks at its start
// where it has its rights, and does without the other namespaces until the next start.

// grantPatience is how long a right may be missing when the manager starts: an API server that has
// just started, or a Role that was just created, denies for a moment what it allows afterwards.
const grantPatience = 5 * time.Second

// right is the right to list a resource in a namespace.
type right struct {
	// what names the resource, and list is the kind of its lists.
	what string
	list schema.GroupVersionKind
	// missing is the log message about a namespace without the right.
	missing string
}

var readingSecrets = right{"Secrets", corev1.SchemeGroupVersion.WithKind("SecretList"),
	"Secrets of a namespace are not read until the next start, because the manager has no Role to get, list and watch secrets there: " +
		"create the namespace, run helm upgrade, which creates the Role, and restart the manager"}

// watching returns the right that stands for the Role in a watched namespace, which has the rights
// of all enabled kinds. WebApps and the kinds that use workloads watch Deployments. The others are
// asked for themselves, but not a kind with several versions: nothing may convert its objects yet.
func watching(on []registration.Kind) right {
	asked := right{"Deployments", appsv1.SchemeGroupVersion.WithKind("DeploymentList"),
		"A watched namespace is not served until the next start, because the manager has no Role there, or the namespace does not exist: " +
			"create it, run helm upgrade, which creates the Role, and restart the manager"}
	if slices.ContainsFunc(on, func(k registration.Kind) bool { return k.UsesWorkloads || k.Converter != nil }) {
		return asked
	}
	if at := slices.IndexFunc(on, isWithinNamespaces); at >= 0 {
		kind := on[at].GroupKind
		asked.what, asked.list = kind.Kind+"s", kind.WithVersion(on[at].Version)
		asked.list.Kind += "List"
	}
	return asked
}

// isWithinNamespaces reports whether the manager needs a Role in each watched namespace for a kind.
func isWithinNamespaces(kind registration.Kind) bool { return kind.Name != platformpolicy.Controller }

// observeGrants returns the settings without the namespaces that the manager may not watch, and
// whose Secrets it may read. If there are any, it reads the hash key, or creates it.
func observeGrants(ctx context.Context, config *rest.Config, settings Settings, on []registration.Kind) (Settings, observe.SecretAccess,
	error) {
	live, err := newClient(config)
	if err != nil {
		return settings, observe.SecretAccess{}, err
	}
	if settings, err = settings.served(ctx, live, on, grantPatience); err != nil {
		return settings, observe.SecretAccess{}, err
	}
	secrets, err := secretAccess(ctx, live, settings, on)
	return settings, secrets, err
}

// served returns the settings without the namespaces that the manager may not watch. If it may
// watch none, it returns an error: no namespaces would mean all.
func (s Settings) served(ctx context.Context, live client.Reader, on []registration.Kind, patience time.Duration) (Settings, error) {
	s.admitted = s.WatchNamespaces
	if len(s.WatchNamespaces) == 0 || !slices.ContainsFunc(on, isWithinNamespaces) {
		return s, nil
	}
	var err error
	if s.WatchNamespaces, err = watching(on).granted(ctx, live, s.admitted, patience); err != nil {
		return s, err
	}
	if len(s.WatchNamespaces) == 0 {
		return s, fmt.Errorf("--watch-namespaces: the manager may watch none of %s: create them, and run helm upgrade, which creates the Roles",
			strings.Join(s.admitted, ","))
	}
	s.SecretNamespaces = slices.DeleteFunc(slices.Clone(s.SecretNamespaces), func(namespace string) bool {
		return !slices.Contains(s.WatchNamespaces, namespace)
	})
	return s, nil
}

// secretAccess returns whose Secrets are read. If there are any, it reads the hash key, or creates
// it.
func secretAccess(ctx context.Context, live client.Client, settings Settings, on []registration.Kind) (observe.SecretAccess, error) {
	if len(settings.SecretNamespaces) == 0 || !haveConfiguration(on) {
		return observe.SecretAccess{}, nil
	}
	key, err := hashkey.Load(ctx, live, settings.Namespace)
	if err != nil {
		return observe.SecretAccess{}, err
	}
	granted, err := readingSecrets.granted(ctx, live, settings.SecretNamespaces, grantPatience)
	if err != nil {
		return observe.SecretAccess{}, err
	}
	return observe.NewSecretAccess(granted, key), nil
}

// granted returns the namespaces in which the manager has the right, and logs the others.
func (r right) granted(ctx context.Context, live client.Reader, namespaces []string, patience time.Duration) ([]string, error) {
	granted, missing := map[string]bool{}, map[string]error{}
	var failed error
	err := wait.PollUntilContextTimeout(ctx, patience/5, patience, true, func(context.Context) (bool, error) {
		clear(missing)
		for _, namespace := range namespaces {
			if granted[namespace] {
				continue
			}
			switch err := r.ask(ctx, live, namespace); {
			case err == nil:
				granted[namespace] = true
			case apierrors.IsForbidden(err), apierrors.IsNotFound(err), meta.IsNoMatchError(err):
				missing[namespace] = err // a new definition is discovered a moment after it is served
			default:
				failed = fmt.Errorf("checking the right to read %s in namespace %s: %w", r.what, namespace, err)
				return true, nil
			}
		}
		return len(missing) == 0, nil
	})
	if failed != nil {
		return nil, failed
	}
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("checking the rights to read %s: %w", r.what, err)
	}
	for _, namespace := range slices.Sorted(maps.Keys(missing)) {
		ctrl.Log.WithName("setup").Error(missing[namespace], r.missing, "namespace", namespace)
	}
	return slices.DeleteFunc(slices.Clone(namespaces), func(namespace string) bool { return !granted[namespace] }), nil
}

// ask returns an error if the right is missing in a namespace. It reads no more than the metadata
// of one object.
func (r right) ask(ctx context.Context, live client.Reader, namespace string) error {
	one := &metav1.PartialObjectMetadataList{}
	one.SetGroupVersionKind(r.list)
	return live.List(ctx, one, client.InNamespace(namespace), client.Limit(1))
}
