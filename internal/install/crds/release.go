package crds

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	recordsv1alpha1 "github.com/mainstay-platform/mainstay/api/records/v1alpha1"
)

// IsRecord reports whether the named definition stores records: objects in which our own API server
// keeps what it serves. These definitions are installed and deleted like all others, but they have
// no controller, and users do not work with them.
func IsRecord(name string) bool {
	return strings.HasSuffix(name, "."+recordsv1alpha1.GroupVersion.Group)
}

// Names returns the names of this release's definitions.
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

// Kind is an installed kind of ours.
type Kind struct {
	// GroupVersionKind has the storage version.
	schema.GroupVersionKind
	// Record is the result of IsRecord for its definition.
	Record bool
}

// Kinds returns the installed kinds that this release knows.
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
			Record:           IsRecord(d.name),
		})
	}
	return kinds, nil
}

// Release removes the webhook from all our definitions before an uninstallation, whatever version
// their objects are stored in and whichever release wrote them. Objects stored in an older version
// then lack, when read, the fields that only that version has. They can be deleted, and the next
// installation migrates them.
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

// release withdraws the conversion of one definition.
func (d definition) release(ctx context.Context, c client.Client) error {
	live, err := d.read(ctx, c)
	if err != nil || live == nil || isWithdrawn(live) {
		return err
	}
	return d.withdraw(ctx, c, live)
}

// Delete deletes our definitions and with them all objects, and returns how many definitions still
// exist.
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
