package setup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/mainstay-platform/mainstay/api"
	"github.com/mainstay-platform/mainstay/charts"
	"github.com/mainstay-platform/mainstay/internal/kit/naming"
	"github.com/mainstay-platform/mainstay/internal/version"
)

// crdManager is the field manager of definitions: Helm's own. Helm 4 installs a chart's definitions by
// server-side apply without force: under any other name, what we wrote would be a conflict
// for the next release that is installed after this one was uninstalled.
const crdManager = "helm"

// crdTimeout bounds the wait until the API server serves a definition.
const crdTimeout = 30 * time.Second

// InstallCRDs applies the definitions that this release carries where they differ, and waits
// until they are served. It is idempotent and, when nothing differs, only reads. In the
// cluster, where Helm makes definitions but never changes them, it is what brings a new
// release's fields; there it may patch those of ours, by name, and create none.
//
// The right to patch them stands in the chart's templates/rbac.yaml and not in a marker here,
// for it goes by name.
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
		sum := sha256.Sum256(document)
		ours := map[string]string{api.AnnotationApplied: hex.EncodeToString(sum[:16]), api.AnnotationRelease: version.Version}
		var existing apiextensionsv1.CustomResourceDefinition
		err := c.Get(ctx, client.ObjectKey{Name: name}, &existing)
		if err == nil && isUpToDate(existing.Annotations, ours) {
			continue
		}
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading CustomResourceDefinition %s: %w", name, err)
		}
		definition.SetAnnotations(naming.Merged(definition.GetAnnotations(), ours))
		if err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(definition), client.FieldOwner(crdManager), client.ForceOwnership); err != nil {
			return fmt.Errorf("applying CustomResourceDefinition %s: %w", name, err)
		}
		if err := waitEstablished(ctx, c, name); err != nil {
			return fmt.Errorf("waiting until CustomResourceDefinition %s is served: %w", name, err)
		}
	}
	return nil
}

// isUpToDate reports whether a definition with these annotations is to be left alone: it is the
// one that we carry, or that of a later release. An older manager, in the middle of an upgrade
// or after a rollback, must not take fields away that stored objects use.
func isUpToDate(existing, ours map[string]string) bool {
	if existing[api.AnnotationApplied] == ours[api.AnnotationApplied] {
		return true
	}
	theirs, err := utilversion.ParseSemantic(existing[api.AnnotationRelease])
	if err != nil {
		return false // none, or not ours: Helm or kubectl made it
	}
	mine, err := utilversion.ParseSemantic(ours[api.AnnotationRelease])
	return err == nil && mine.LessThan(theirs)
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
