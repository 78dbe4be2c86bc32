package apply

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/mainstay-platform/mainstay/internal/kit/monitoring"
)

// newMonitoring returns the fielder for ServiceMonitors, PodMonitors and PrometheusRules. Their
// definitions say what is one value: each list but that of the groups of rules, and a selector. If
// that of a cluster says something else, each reconcile applies the object once more, which changes
// nothing.
//
// Sources: the markers of ServiceMonitorSpec, PodMonitorSpec and PrometheusRuleSpec in the
// Prometheus Operator v0.91, and of ObjectMeta and LabelSelector in
// k8s.io/apimachinery/pkg/apis/meta/v1.
func newMonitoring() fielder {
	anything := schema.TypeRef{NamedType: new("anything")}
	separable := func(elements schema.TypeRef, fields ...schema.StructField) schema.TypeRef {
		return schema.TypeRef{Inlined: schema.Atom{Map: &schema.Map{Fields: fields, ElementType: elements,
			ElementRelationship: schema.Separable}}}
	}
	field := func(name string, of schema.TypeRef) schema.StructField {
		return schema.StructField{Name: name, Type: of}
	}
	keyed := func(elements schema.TypeRef, key string) schema.TypeRef {
		return schema.TypeRef{Inlined: schema.Atom{List: &schema.List{ElementType: elements, ElementRelationship: schema.Associative,
			Keys: []string{key}}}}
	}
	scalar := schema.Untyped
	parser := &typed.Parser{Schema: schema.Schema{Types: []schema.TypeDef{
		{Name: "anything", Atom: schema.Atom{
			Scalar: &scalar,
			List:   &schema.List{ElementType: anything, ElementRelationship: schema.Atomic},
			Map:    &schema.Map{ElementType: anything, ElementRelationship: schema.Atomic},
		}},
		{Name: monitoring.ServiceMonitorCRD, Atom: separable(anything,
			field("metadata", separable(anything,
				field("labels", separable(anything)), field("annotations", separable(anything)), field("ownerReferences", keyed(anything, "uid")))),
			field("spec", separable(anything, field("groups", keyed(separable(anything), "name")))),
		).Inlined},
	}}}
	return parsed{parser.Type(monitoring.ServiceMonitorCRD)}
}

// parsed is a fielder for unstructured objects of one type.
type parsed struct{ of typed.ParseableType }

// ObjectToTyped returns the object with the type of its fields.
func (p parsed) ObjectToTyped(object runtime.Object, options ...typed.ValidationOptions) (*typed.TypedValue, error) {
	return p.of.FromUnstructured(object.(*unstructured.Unstructured).Object, options...)
}
