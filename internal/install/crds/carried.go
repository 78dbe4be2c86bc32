package crds

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/mainstay-platform/mainstay/api"
	"github.com/mainstay-platform/mainstay/charts"
	"github.com/mainstay-platform/mainstay/internal/kit/naming"
	"github.com/mainstay-platform/mainstay/internal/version"
)

// definition is a CustomResourceDefinition that this release carries.
type definition struct {
	name string
	// text is the definition as in the chart: without conversion, and with only the storage version
	// served.
	text map[string]any
	// versions are the names of all its versions, in the order of the text; served are those that the
	// text serves.
	versions, served []string
	// marks are the annotations that name the text that this package wrote last: conversion does not
	// change them, and neither do most clients that write another text.
	marks map[string]string
}

// carried returns the definitions of this release. They are parsed once per process, because that
// takes a tenth of a second and a manager needs them several times at start. Callers must not
// modify them.
var carried = sync.OnceValues(func() ([]definition, error) {
	documents, err := charts.CRDs()
	if err != nil {
		return nil, err
	}
	var found []definition
	for _, document := range documents {
		d, err := parse(document, version.Version)
		if err != nil {
			return nil, fmt.Errorf("reading an embedded definition: %w", err)
		}
		found = append(found, d)
	}
	return found, nil
})

// parse reads a definition of a release.
func parse(document []byte, release string) (definition, error) {
	// YAML is read once only: it takes several times as long as JSON.
	encoded, err := yaml.YAMLToJSON(document)
	if err != nil {
		return definition{}, err
	}
	var typed apiextensionsv1.CustomResourceDefinition
	var text map[string]any
	if err := errors.Join(json.Unmarshal(encoded, &typed), json.Unmarshal(encoded, &text)); err != nil {
		return definition{}, err
	}
	sum := sha256.Sum256(document)
	d := definition{
		name:   typed.Name,
		text:   text,
		served: servedIn(&typed),
		marks:  map[string]string{api.AnnotationApplied: hex.EncodeToString(sum[:16]), api.AnnotationRelease: release},
	}
	for _, v := range typed.Spec.Versions {
		d.versions = append(d.versions, v.Name)
	}
	return d, nil
}

// isOf reports whether a live definition with these annotations had the text of d when this package
// wrote it last.
func (d definition) isOf(annotations map[string]string) bool {
	return annotations[api.AnnotationApplied] == d.marks[api.AnnotationApplied]
}

// isOlderThan reports whether a live definition with these annotations has another text, from a
// later release.
func (d definition) isOlderThan(annotations map[string]string) bool {
	return !d.isOf(annotations) && version.IsLater(annotations[api.AnnotationRelease], d.marks[api.AnnotationRelease])
}

// isIn reports whether a live definition has the text of d, whatever its annotations say. How it
// converts and what it serves is not compared.
func (d definition) isIn(live *apiextensionsv1.CustomResourceDefinition) (bool, error) {
	own := &apiextensionsv1.CustomResourceDefinition{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(d.text, own); err != nil {
		return false, fmt.Errorf("converting the embedded CustomResourceDefinition %s: %w", d.name, err)
	}
	own.Spec.Conversion = live.Spec.Conversion
	if len(own.Spec.Versions) != len(live.Spec.Versions) {
		return false, nil
	}
	for i := range own.Spec.Versions {
		own.Spec.Versions[i].Served = live.Spec.Versions[i].Served
	}
	return equality.Semantic.DeepEqual(own.Spec, live.Spec), nil
}

// serving returns the versions that d serves if it serves some in addition to those of its text.
func (d definition) serving(more []string) []string {
	var names []string
	for _, name := range d.versions {
		if slices.Contains(d.served, name) || slices.Contains(more, name) {
			names = append(names, name)
		}
	}
	return names
}

// composed returns d with a conversion, and with the given versions served in addition to those
// that its text serves. A nil conversion and no versions leave the text unchanged. The result is
// always complete, because spec.versions is atomic for server-side apply: applying a part of it
// would remove the rest.
func (d definition) composed(conversion *apiextensionsv1.CustomResourceConversion, served []string) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(d.text)}
	object.SetAnnotations(naming.Merged(object.GetAnnotations(), d.marks))
	all := d.serving(served)
	versions, _, err := unstructured.NestedSlice(object.Object, "spec", "versions")
	if err != nil {
		return nil, err
	}
	for _, v := range versions {
		if v, ok := v.(map[string]any); ok {
			name, _ := v["name"].(string)
			v["served"] = slices.Contains(all, name)
		}
	}
	if err := unstructured.SetNestedSlice(object.Object, versions, "spec", "versions"); err != nil {
		return nil, err
	}
	if conversion == nil {
		return object, nil
	}
	stanza, err := runtime.DefaultUnstructuredConverter.ToUnstructured(conversion)
	if err != nil {
		return nil, err
	}
	return object, unstructured.SetNestedMap(object.Object, stanza, "spec", "conversion")
}

// read returns the live definition, or nil if it does not exist.
//
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get
func (d definition) read(ctx context.Context, c client.Client) (*apiextensionsv1.CustomResourceDefinition, error) {
	live := &apiextensionsv1.CustomResourceDefinition{}
	err := c.Get(ctx, client.ObjectKey{Name: d.name}, live)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading CustomResourceDefinition %s: %w", d.name, err)
	}
	return live, nil
}

// apply writes d as returned by composed.
func (d definition) apply(ctx context.Context, c client.Client, conversion *apiextensionsv1.CustomResourceConversion,
	served []string) error {
	object, err := d.composed(conversion, served)
	if err != nil {
		return fmt.Errorf("composing CustomResourceDefinition %s: %w", d.name, err)
	}
	if err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(fieldManager),
		client.ForceOwnership); err != nil {
		return fmt.Errorf("applying CustomResourceDefinition %s: %w", d.name, err)
	}
	return nil
}

// servedIn returns the versions that a live definition serves.
func servedIn(live *apiextensionsv1.CustomResourceDefinition) []string {
	var served []string
	for _, v := range live.Spec.Versions {
		if v.Served {
			served = append(served, v.Name)
		}
	}
	return served
}

// storedIn returns the storage version of a live definition, and the other versions in which
// objects may still be stored.
func storedIn(live *apiextensionsv1.CustomResourceDefinition) (storage string, others []string) {
	for _, v := range live.Spec.Versions {
		if v.Storage {
			storage = v.Name
		}
	}
	for _, v := range live.Status.StoredVersions {
		if v != storage {
			others = append(others, v)
		}
	}
	return storage, others
}
