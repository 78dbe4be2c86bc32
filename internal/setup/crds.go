package setup

import (
	"context"
	"fmt"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/mainstay-platform/mainstay/charts"
)

// crdManager is the field manager of definitions that the manager itself installs.
const crdManager = "mainstay/install"

// crdTimeout bounds the wait until the API server serves a definition.
const crdTimeout = 30 * time.Second

// InstallCRDs applies the definitions that this release carries and waits until they are
// served. It is idempotent. It needs rights that the chart does not give the manager: it is for
// running outside the cluster, with one's own.
func InstallCRDs(ctx context.Context, restConfig *rest.Config) error {
	scheme := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		return fmt.Errorf("building a scheme: %w", err)
	}
	c, err := client.New(restConfig, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("connecting to the API server: %w", err)
	}
	documents, err := charts.CRDs()
	if err != nil {
		return err
	}
	for _, document := range documents {
		definition := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &definition.Object); err != nil {
			return fmt.Errorf("reading an embedded definition: %w", err)
		}
		name := definition.GetName()
		if err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(definition), client.FieldOwner(crdManager), client.ForceOwnership); err != nil {
			return fmt.Errorf("applying CustomResourceDefinition %s: %w", name, err)
		}
		if err := waitEstablished(ctx, c, name); err != nil {
			return fmt.Errorf("waiting until CustomResourceDefinition %s is served: %w", name, err)
		}
	}
	return nil
}

func waitEstablished(ctx context.Context, c client.Client, name string) error {
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, crdTimeout, true, func(ctx context.Context) (bool, error) {
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
