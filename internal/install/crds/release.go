package crds

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	recordsv1alpha1 "github.com/mainstay-platform/mainstay/api/records/v1alpha1"
)

// IsRecord tells whether the definition of a name is one in which our own API server keeps what it serves. Such are installed and deleted as all
// others, but no controller carries out their objects, and no user has to do with them.
func IsRecord(name string) bool {
	return strings.HasSuffix(name, "."+recordsv1alpha1.GroupVersion.Group)
}

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
	// Record is what IsRecord says of its definition.
	Record bool
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
			Namespaced:       live.Spec.Scope == apiextensionsv1.NamespaceScoped, Record: IsRecord(d.name),
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
		return releaseLater(ctx, c, live)
	}
	if err := d.apply(ctx, c, unconverted(), nil); err != nil {
		return err
	}
	log.FromContext(ctx).Info("Serving the storage version only", "definition", d.name)
	return nil
}

// releaseLater does it to the definition of a later release, after a rollback: the text stays, but for the versions that
// nobody converts any more. Served without a webhook they would lose what only another version has, without a word.
func releaseLater(ctx context.Context, c client.Client, live *apiextensionsv1.CustomResourceDefinition) error {
	type operation struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	// Field by field: a version may have others that this release does not know, and would drop.
	operations := []operation{{"replace", "/spec/conversion", unconverted()}}
	for at, v := range live.Spec.Versions {
		if v.Served && !v.Storage {
			path := fmt.Sprintf("/spec/versions/%d/", at)
			operations = append(operations, operation{"test", path + "name", v.Name}, operation{"test", path + "storage", false},
				operation{"replace", path + "served", false})
		}
	}
	patch, err := json.Marshal(operations)
	if err != nil {
		return err
	}
	if err := c.Patch(ctx, live, client.RawPatch(types.JSONPatchType, patch), client.FieldOwner(fieldManager)); err != nil {
		return fmt.Errorf("releasing CustomResourceDefinition %s of a later release: %w", live.Name, err)
	}
	log.FromContext(ctx).Info("Serving the storage version only", "definition", live.Name)
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
