package crds

import (
	"fmt"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/mainstay-platform/mainstay/charts"
)

// Converter returns a converter for the kinds of this release's definitions, by which apply
// compares children of these kinds. It knows the fields as the API server does: which lists are
// maps, and which are one value.
var Converter = sync.OnceValues(func() (managedfields.TypeConverter, error) {
	all, err := openAPIs()
	if err != nil {
		return nil, err
	}
	schemas := map[string]*spec.Schema{}
	for name, one := range all {
		schemas[name] = one.schema
	}
	return managedfields.NewTypeConverter(schemas, false)
})

// openAPI is the schema of one version of a definition.
type openAPI struct {
	kind   schema.GroupVersionKind
	schema *spec.Schema
}

// openAPIs returns the schemas of this release's definitions, by DEFINITION/VERSION.
func openAPIs() (map[string]openAPI, error) {
	definitions, err := charts.Definitions()
	if err != nil {
		return nil, err
	}
	all := map[string]openAPI{}
	for _, definition := range definitions {
		for i := range definition.Spec.Versions {
			version := &definition.Spec.Versions[i]
			converted, err := openAPIOf(&definition, version)
			if err != nil {
				return nil, fmt.Errorf("converting the schema of %s/%s: %w", definition.Name, version.Name, err)
			}
			kind := schema.GroupVersionKind{Group: definition.Spec.Group, Version: version.Name, Kind: definition.Spec.Names.Kind}
			all[definition.Name+"/"+version.Name] = openAPI{kind, converted}
		}
	}
	return all, nil
}

// openAPIOf returns the schema of one version as the API server has it for server-side apply: that
// of the definition, with the metadata of every object.
func openAPIOf(definition *apiextensionsv1.CustomResourceDefinition,
	version *apiextensionsv1.CustomResourceDefinitionVersion) (*spec.Schema, error) {
	var internal apiextensions.JSONSchemaProps
	err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(version.Schema.OpenAPIV3Schema, &internal, nil)
	if err != nil {
		return nil, err
	}
	structural, err := structuralschema.NewStructural(&internal)
	if err != nil {
		return nil, err
	}
	dropDescriptions(structural)
	converted := structural.ToKubeOpenAPI()
	converted.Properties["metadata"] = metadataSchema()
	converted.AddExtension("x-kubernetes-group-version-kind", []any{map[string]any{
		"group": definition.Spec.Group, "version": version.Name, "kind": definition.Spec.Names.Kind,
	}})
	return converted, nil
}

// metadataSchema returns the schema of an object's metadata, as far as it is applied.
//
// Source: the markers of ObjectMeta in k8s.io/apimachinery/pkg/apis/meta/v1.
func metadataSchema() spec.Schema {
	text := spec.StringProperty()
	reference := spec.Schema{SchemaProps: spec.SchemaProps{Type: spec.StringOrArray{"object"}, Properties: map[string]spec.Schema{
		"apiVersion": *text, "kind": *text, "name": *text, "uid": *text,
		"controller": *spec.BooleanProperty(), "blockOwnerDeletion": *spec.BooleanProperty(),
	}}}
	reference.AddExtension("x-kubernetes-map-type", "atomic")
	owners := spec.ArrayProperty(&reference)
	owners.AddExtension("x-kubernetes-list-type", "map")
	owners.AddExtension("x-kubernetes-list-map-keys", []any{"uid"})
	finalizers := spec.ArrayProperty(text)
	finalizers.AddExtension("x-kubernetes-list-type", "set")
	return spec.Schema{SchemaProps: spec.SchemaProps{Type: spec.StringOrArray{"object"}, Properties: map[string]spec.Schema{
		"name": *text, "namespace": *text, "uid": *text, "resourceVersion": *text,
		"labels": *spec.MapProperty(text), "annotations": *spec.MapProperty(text),
		"ownerReferences": *owners, "finalizers": *finalizers,
	}}}
}
