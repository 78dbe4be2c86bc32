//go:build e2e

package databases

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"sigs.k8s.io/yaml"
)

// sample is a file of samples and what is different here: the nodes do not have each version.
type sample struct {
	replace, by string
	// skip is why it does not run here.
	skip string
}

// samples are all that have a database, or belong to a kind that may have one.
var samples = map[string]sample{
	"database/cache.yaml":             {replace: `version: "9"`, by: `version: "8"`},
	"database/guestbook.yaml":         {},
	"database/postgresql.yaml":        {},
	"platform/appstack.yaml":          {},
	"platform/ecommerceplatform.yaml": {replace: "spec:\n", by: "spec:\n  database: {version: \"17\"}\n  cache: {version: \"8\"}\n"},

	"database/cache-production.yaml":      {skip: "a storage class fast, and three nodes of 4 GiB and more"},
	"database/postgresql-production.yaml": {skip: "a storage class fast, and three nodes of 4 GiB and more"},
	"platform/production-store.yaml":      {skip: "images of a store, and larger nodes"},
}

// TestSamples applies each sample as it is written in a namespace of its own: its objects become
// Ready.
func TestSamples(t *testing.T) {
	folder := filepath.Join(repository, "config", "samples")
	var found []string
	for _, of := range []string{"database", "platform"} {
		files, err := filepath.Glob(filepath.Join(folder, of, "*.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			found = append(found, of+"/"+filepath.Base(file))
		}
	}
	if listed := slices.Sorted(maps.Keys(samples)); !slices.Equal(listed, found) {
		t.Errorf("the samples are %v, not %v", found, listed)
	}
	var running sync.WaitGroup // They wait, so that -parallel, which is for all tests here, is too low.
	for file, one := range samples {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		running.Go(func() {
			t.Run(name, func(t *testing.T) {
				if one.skip != "" {
					t.Logf("not tried on these nodes: it needs %s", one.skip)
					return
				}
				content, err := os.ReadFile(filepath.Join(folder, file)) //nolint:gosec // a file of this repository
				if err != nil {
					t.Fatal(err)
				}
				becomesReady(t, "sample-"+name, strings.Replace(string(content), one.replace, one.by, 1))
			})
		})
	}
	running.Wait()
}

// becomesReady applies a manifest in a namespace, and waits for each of its objects.
func becomesReady(t *testing.T, namespace, manifest string) {
	t.Helper()
	kubectl(t, "create", "namespace", namespace)
	t.Cleanup(func() { kubectlAnyway(t, "delete", "namespace", namespace, atMost) })
	apply(t, namespace, manifest)
	for document := range strings.SplitSeq(manifest, "\n---\n") {
		var object struct {
			Kind     string
			Metadata struct{ Name string }
		}
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatal(err)
		}
		kubectl(t, "-n", namespace, "wait", "--for=condition=Ready", strings.ToLower(object.Kind)+"/"+object.Metadata.Name, atMost)
	}
}
