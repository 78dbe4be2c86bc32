// Command manifest turns Helm's output into dist/install.yaml: one file for kubectl apply, with its
// namespace and without what only Helm understands.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// maxObject bounds the compact JSON of an object. Client-side kubectl apply keeps it in an
// annotation, and all annotations of an object together have at most 262144 bytes
// (k8s.io/apimachinery/pkg/api/validation.TotalAnnotationSizeLimitB).
const maxObject = 250_000

const header = `# Made by "make gen" from charts/mainstay. Never edited.
#
#   kubectl apply -f install.yaml
#
# kubectl delete -f install.yaml deletes the kinds too, and with them ALL objects of these kinds.
`

func main() {
	namespace := flag.String("namespace", "", "namespace that the chart was rendered for")
	flag.Parse()
	if err := run(*namespace, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "manifest:", err)
		os.Exit(1)
	}
}

// run reads YAML documents and writes the manifest. If one is invalid it writes nothing.
func run(namespace string, in io.Reader, out io.Writer) error {
	if namespace == "" {
		return errors.New("--namespace is required")
	}
	objects, err := decode(in)
	if err != nil {
		return err
	}
	objects = append([]*unstructured.Unstructured{namespaceObject(namespace)}, objects...)
	// Definitions come first, because other objects may use them; otherwise Helm's own order stays.
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int { return cmp.Compare(order(a), order(b)) })
	buffer := bytes.NewBufferString(header)
	for _, object := range objects {
		strip(object)
		if err := checkSize(object); err != nil {
			return err
		}
		document, err := yaml.Marshal(object.Object)
		if err != nil {
			return fmt.Errorf("rendering %s: %w", describe(object), err)
		}
		buffer.WriteString("---\n")
		buffer.Write(document)
	}
	if _, err := out.Write(buffer.Bytes()); err != nil {
		return fmt.Errorf("writing the manifest: %w", err)
	}
	return nil
}

func decode(in io.Reader) ([]*unstructured.Unstructured, error) {
	decoder := utilyaml.NewYAMLOrJSONDecoder(in, 4096)
	var objects []*unstructured.Unstructured
	for {
		var content map[string]any
		err := decoder.Decode(&content)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("reading document %d: %w", len(objects)+1, err)
		}
		if len(content) > 0 {
			objects = append(objects, &unstructured.Unstructured{Object: content})
		}
	}
	if len(objects) == 0 {
		return nil, errors.New("the input is empty")
	}
	return objects, nil
}

// namespaceObject returns the Namespace. It enforces the strictest pod security, which our own pods
// satisfy.
func namespaceObject(name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
	object.SetName(name)
	object.SetLabels(map[string]string{
		"app.kubernetes.io/name":             "mainstay",
		"pod-security.kubernetes.io/enforce": "restricted",
	})
	return object
}

func order(object *unstructured.Unstructured) int {
	switch object.GetKind() {
	case "Namespace":
		return 0
	case "CustomResourceDefinition":
		return 1
	default:
		return 2
	}
}

// helmOnly are the labels and annotations that mark an object as Helm's, or control Helm.
var helmOnly = []string{"app.kubernetes.io/managed-by", "helm.sh/chart", "helm.sh/resource-policy"}

func strip(object *unstructured.Unstructured) {
	paths := [][]string{
		{"metadata", "labels"}, {"metadata", "annotations"},
		{"spec", "template", "metadata", "labels"}, {"spec", "template", "metadata", "annotations"},
	}
	for _, path := range paths {
		for _, key := range helmOnly {
			unstructured.RemoveNestedField(object.Object, append(slices.Clone(path), key)...)
		}
		if left, found, _ := unstructured.NestedMap(object.Object, path...); found && len(left) == 0 {
			unstructured.RemoveNestedField(object.Object, path...)
		}
	}
}

func checkSize(object *unstructured.Unstructured) error {
	compact, err := json.Marshal(object.Object)
	if err != nil {
		return fmt.Errorf("measuring %s: %w", describe(object), err)
	}
	if len(compact) > maxObject {
		return fmt.Errorf("%s has %d bytes, more than %d: kubectl apply would fail", describe(object), len(compact), maxObject)
	}
	return nil
}

func describe(object *unstructured.Unstructured) string {
	return object.GetKind() + " " + object.GetName()
}
