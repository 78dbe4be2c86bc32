package campaign

import (
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/mainstay-platform/mainstay/api"
)

// Snapshot has the existing objects by "Kind name", as YAML, without what differs between two
// undisturbed runs.
type Snapshot map[string]string

// without returns the snapshot without the objects whose key has the prefix.
func (s Snapshot) without(prefix string) Snapshot {
	rest := maps.Clone(s)
	maps.DeleteFunc(rest, func(name, _ string) bool { return strings.HasPrefix(name, prefix) })
	return rest
}

// chosen are fields whose value the API server chooses. Only whether they are set is compared.
var chosen = []string{"clusterIP", "clusterIPs", "nodePort"}

// snapshot makes objects comparable. In owner references, the name from who replaces the UID.
func snapshot(world World, who map[types.UID]string, namespace string, mask func(*unstructured.Unstructured)) (Snapshot, error) {
	// Managed fields contain UIDs too, and messages contain names of namespaces.
	pairs := []string{namespace, "NAMESPACE"}
	for uid, name := range who {
		pairs = append(pairs, string(uid), name)
	}
	common := strings.NewReplacer(pairs...)
	taken := Snapshot{}
	for name, object := range world {
		object = object.DeepCopy()
		if mask != nil {
			mask(object)
		}
		tidy(object, who)
		hide(object.Object)
		text, err := yaml.Marshal(object.Object)
		if err != nil {
			return nil, err
		}
		taken[name] = common.Replace(string(text))
	}
	return taken, nil
}

// tidy normalizes the metadata.
func tidy(object *unstructured.Unstructured, who map[types.UID]string) {
	owners := object.GetOwnerReferences()
	for i := range owners {
		if _, known := who[owners[i].UID]; !known {
			owners[i].UID = "nobody that was ever there"
		}
	}
	if len(owners) > 0 {
		object.SetOwnerReferences(owners)
	}
	if annotations := object.GetAnnotations(); annotations[api.AnnotationApplied] != "" {
		annotations[api.AnnotationApplied] = "set" // a hash whose input has the owner's UID
		object.SetAnnotations(annotations)
	}
	fields := object.GetManagedFields()
	for i := range fields {
		fields[i].Time = nil
	}
	slices.SortFunc(fields, func(a, b metav1.ManagedFieldsEntry) int {
		return strings.Compare(a.Manager+" "+string(a.Operation)+" "+a.Subresource, b.Manager+" "+string(b.Operation)+" "+b.Subresource)
	})
	object.SetManagedFields(fields)
	object.SetUID("")
	object.SetResourceVersion("")
}

// hide replaces times and chosen values at any depth.
func hide(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key, each := range value {
			if slices.Contains(chosen, key) && each != nil && each != "" {
				each = "set"
			}
			value[key] = hide(each)
		}
	case []any:
		for i, each := range value {
			value[i] = hide(each)
		}
	case string:
		if _, err := time.Parse(time.RFC3339, value); err == nil {
			return "a time"
		}
	}
	return value
}
