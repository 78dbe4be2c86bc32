package crds

import (
	"context"
	"fmt"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// fieldManager is Helm's field manager. Helm 4 installs a chart's definitions by server-side apply
// without force. Under any other name our writes would conflict with the next installation after
// this one is uninstalled.
const fieldManager = "helm"

// establishTimeout bounds the wait until the API server serves a definition.
const establishTimeout = 30 * time.Second

// NewClient returns a client for this package. It knows the types of definitions and reads from the
// API server directly, because a cache would hold every definition of the cluster.
func NewClient(restConfig *rest.Config) (client.Client, error) {
	scheme := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("building a scheme: %w", err)
	}
	c, err := client.New(restConfig, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	return c, nil
}

// Install applies this release's definitions where they differ, and waits until they are served.
// Helm creates definitions but never updates them, so Install is how the fields and kinds of a new
// release reach the cluster. It also restores what another client has changed in a definition of
// this release.
//
// The rights are in the chart's templates/rbac.yaml and not in a marker here: the right to patch
// uses resourceNames, the right to create can't.
//
// A definition with a conversion webhook keeps it and its served versions: during an upgrade the
// webhook of the former release answers until ours does.
func Install(ctx context.Context, c client.Client) error {
	definitions, err := carried()
	if err != nil {
		return err
	}
	for _, d := range definitions {
		live, err := d.read(ctx, c)
		if err != nil {
			return err
		}
		var conversion *apiextensionsv1.CustomResourceConversion
		var served []string
		if live != nil {
			if usesWebhook(live) {
				conversion, served = live.Spec.Conversion, servedIn(live)
			}
			isDone, err := d.isInstalled(live, served)
			if err != nil {
				return err
			}
			if isDone {
				continue
			}
			if d.isOf(live.Annotations) {
				log.FromContext(ctx).Info("Restoring a definition that another client has changed", "definition", d.name)
			}
		}
		if err := d.apply(ctx, c, conversion, served); err != nil {
			return err
		}
		if err := waitEstablished(ctx, c, d.name); err != nil {
			return fmt.Errorf("waiting until CustomResourceDefinition %s is served: %w", d.name, err)
		}
	}
	return nil
}

// isInstalled reports whether Install leaves a live definition as it is. The given versions are
// those that it keeps serving, in addition to those of the text.
func (d definition) isInstalled(live *apiextensionsv1.CustomResourceDefinition, served []string) (bool, error) {
	if d.isOlderThan(live.Annotations) || d.storesOther(live) {
		return true, nil
	}
	if !d.isOf(live.Annotations) || !slices.Equal(servedIn(live), d.serving(served)) {
		return false, nil
	}
	return d.isIn(live)
}

// storesOther reports whether objects may be stored in a version that d does not have: then the
// definition is of a later release, whatever its annotations say, and the API server would refuse
// the text of d.
func (d definition) storesOther(live *apiextensionsv1.CustomResourceDefinition) bool {
	return slices.ContainsFunc(live.Status.StoredVersions, func(name string) bool { return !slices.Contains(d.versions, name) })
}

func usesWebhook(live *apiextensionsv1.CustomResourceDefinition) bool {
	return live.Spec.Conversion != nil && live.Spec.Conversion.Strategy == apiextensionsv1.WebhookConverter
}

// waitEstablished waits until the API server serves the definition.
func waitEstablished(ctx context.Context, c client.Client, name string) error {
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, establishTimeout, true, func(ctx context.Context) (bool, error) {
		var definition apiextensionsv1.CustomResourceDefinition
		if err := c.Get(ctx, client.ObjectKey{Name: name}, &definition); err != nil {
			return false, err
		}
		for _, condition := range definition.Status.Conditions {
			if condition.Type == apiextensionsv1.Established {
				return condition.Status == apiextensionsv1.ConditionTrue, nil
			}
		}
		return false, nil
	})
}
