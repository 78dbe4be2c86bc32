package crds

import (
	"context"
	"fmt"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fieldManager of definitions is Helm's own. Helm 4 installs a chart's definitions by
// server-side apply without force: under any other name, what we wrote would be a conflict
// for the next release that is installed after this one was uninstalled.
const fieldManager = "helm"

// establishTimeout bounds the wait until the API server serves a definition.
const establishTimeout = 30 * time.Second

// NewClient is the client that this package needs: it reads from the API server itself, for a cache
// would hold every definition of the cluster, and knows definitions.
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

// Install applies the definitions that this release carries where they differ, and waits
// until they are served. In the cluster, where Helm makes definitions but never changes them,
// it is what brings a new release's fields and kinds.
//
// The rights for it stand in the chart's templates/rbac.yaml and not in a marker here, for that to
// patch goes by name; that to create can't.
//
// A definition that has a conversion webhook keeps it, and goes on serving what it serves:
// during an upgrade the webhook of the former release answers until ours does.
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
			if d.isOf(live.Annotations) || d.isOlderThan(live.Annotations) {
				continue
			}
			if usesWebhook(live) {
				conversion, served = live.Spec.Conversion, servedIn(live)
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

func usesWebhook(live *apiextensionsv1.CustomResourceDefinition) bool {
	return live.Spec.Conversion != nil && live.Spec.Conversion.Strategy == apiextensionsv1.WebhookConverter
}

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
