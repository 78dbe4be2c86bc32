package definitions

import (
	"context"
	"errors"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Names are those of the definitions that this release carries.
func Names() ([]string, error) {
	definitions, err := carried()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, d := range definitions {
		names = append(names, d.name)
	}
	return names, nil
}

// Kind is what is installed of one of our kinds.
type Kind struct {
	// GroupVersionKind has the version in which objects are stored.
	schema.GroupVersionKind
	Namespaced bool
}

// Kinds are those that this release knows and that are installed.
func Kinds(ctx context.Context, c client.Client) ([]Kind, error) {
	definitions, err := carried()
	if err != nil {
		return nil, err
	}
	var kinds []Kind
	for _, d := range definitions {
		live, err := d.read(ctx, c)
		if err != nil {
			return nil, err
		}
		if live == nil {
			continue
		}
		storage, _ := storedIn(live)
		kinds = append(kinds, Kind{
			GroupVersionKind: schema.GroupVersionKind{Group: live.Spec.Group, Version: storage, Kind: live.Spec.Names.Kind},
			Namespaced:       live.Spec.Scope == apiextensionsv1.NamespaceScoped,
		})
	}
	return kinds, nil
}

// Release takes the webhook away from all definitions of ours, whatever is stored and whichever release wrote them: for an
// installation that goes. Objects that are stored in an older version lack, when they are read, what
// only that version has; they can be deleted, and the next installation migrates them.
func Release(ctx context.Context, c client.Client) error {
	definitions, err := carried()
	if err != nil {
		return err
	}
	var problems []error
	for _, d := range definitions {
		problems = append(problems, d.release(ctx, c))
	}
	return errors.Join(problems...)
}

func (d definition) release(ctx context.Context, c client.Client) error {
	live, err := d.read(ctx, c)
	if err != nil || live == nil || isWithdrawn(live) {
		return err
	}
	if d.isOlderThan(live.Annotations) {
		return redirect(ctx, c, live, unconverted())
	}
	if err := d.apply(ctx, c, unconverted(), nil); err != nil {
		return err
	}
	log.FromContext(ctx).Info("Serving the storage version only", "definition", d.name)
	return nil
}

// Delete deletes the definitions of ours that are there, and with them all objects, and tells how many are not gone
// yet.
func Delete(ctx context.Context, c client.Client) (int, error) {
	definitions, err := carried()
	if err != nil {
		return 0, err
	}
	left := 0
	var problems []error
	for _, d := range definitions {
		live, err := d.read(ctx, c)
		if err != nil {
			problems = append(problems, err)
		}
		if live == nil {
			continue
		}
		left++
		if !live.DeletionTimestamp.IsZero() {
			continue
		}
		if err := c.Delete(ctx, live); client.IgnoreNotFound(err) != nil {
			problems = append(problems, fmt.Errorf("deleting CustomResourceDefinition %s: %w", d.name, err))
			continue
		}
		log.FromContext(ctx).Info("Deleting a definition and all its objects", "definition", d.name)
	}
	return left, errors.Join(problems...)
}
