package changelog

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// podTemplates returns the pod templates in a golden file: spec.template of each object that has
// one, and each document that is one itself.
func podTemplates(content []byte) ([]any, error) {
	var found []any
	for document := range strings.SplitSeq("\n"+string(content), "\n---\n") {
		var object struct {
			Metadata, Spec map[string]any
		}
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			return nil, err
		}
		if object.Spec["containers"] != nil {
			found = append(found, map[string]any{"metadata": object.Metadata, "spec": object.Spec})
		}
		if template := object.Spec["template"]; template != nil {
			found = append(found, template)
		}
	}
	return found, nil
}

// git returns the output of a git command in the repository.
func git(t *testing.T, arguments ...string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "git", arguments...)
	command.Dir = ".."
	output, err := command.Output()
	return strings.TrimRight(string(output), "\n"), err
}

// base returns the commit before the change: the one that MAINSTAY_BASE names if it exists (what
// main was before a push of several commits), the merge base with main or, on main itself, the
// commit before the last.
func base(t *testing.T) (string, error) {
	t.Helper()
	if named := os.Getenv("MAINSTAY_BASE"); named != "" {
		if found, err := git(t, "rev-parse", "--verify", "--quiet", named+"^{commit}"); err == nil {
			return found, nil
		}
	}
	head, err := git(t, "rev-parse", "HEAD")
	if err != nil {
		return "", err
	}
	for _, main := range []string{"origin/main", "main"} {
		if found, err := git(t, "merge-base", "HEAD", main); err == nil && found != head {
			return found, nil
		}
	}
	return git(t, "rev-parse", "--verify", "--quiet", "HEAD~1")
}

// TestChangedPodTemplatesHaveAnEntry: a changed pod template replaces all pods of all applications
// when Mainstay is upgraded, so the changelog must have an entry that says so in `restarts`.
func TestChangedPodTemplatesHaveAnEntry(t *testing.T) {
	before, err := base(t)
	if err != nil {
		t.Skipf("there is no git history to compare with: %v", err)
	}
	changed, err := git(t, "diff", "--name-only", "--no-renames", "--diff-filter=M", before, "--", ":(glob)internal/**/testdata/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var replaced []string
	for file := range strings.FieldsSeq(changed) {
		old, err := git(t, "show", before+":"+file)
		if err != nil {
			t.Fatal(err)
		}
		current, err := os.ReadFile(filepath.Join("..", file)) //nolint:gosec // a file of this repository
		if err != nil {
			t.Fatal(err)
		}
		differs, err := replacesPods([]byte(old), current)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if differs {
			replaced = append(replaced, file)
		}
	}
	written, err := git(t, "diff", "--name-only", "--diff-filter=AM", before, "--", "changelog/unreleased")
	if err != nil {
		t.Fatal(err)
	}
	added, err := git(t, "ls-files", "--others", "--exclude-standard", "--", "changelog/unreleased")
	if err != nil {
		t.Fatal(err)
	}
	if len(replaced) == 0 {
		return
	}
	named, err := namesRestarts(strings.Fields(written+"\n"+added), func(file string) ([]byte, error) {
		return os.ReadFile(filepath.Join("..", file)) //nolint:gosec // a file of this repository
	})
	if err != nil {
		t.Fatal(err)
	}
	if !named {
		t.Errorf("these pod templates are not those of %.12s, and no new entry of changelog/unreleased says so in `restarts`: %s", before,
			strings.Join(replaced, ", "))
	}
}

// replacesPods reports whether a pod template of a golden file differs. An added or removed one is
// another case of the test.
func replacesPods(old, current []byte) (bool, error) {
	before, errBefore := podTemplates(old)
	after, errAfter := podTemplates(current)
	return len(before) == len(after) && !reflect.DeepEqual(before, after), errors.Join(errBefore, errAfter)
}

// namesRestarts reports whether one of the files is an entry that says which pods restart.
func namesRestarts(files []string, read func(file string) ([]byte, error)) (bool, error) {
	for _, file := range files {
		if !strings.HasSuffix(file, ".yaml") {
			continue
		}
		content, err := read(file)
		if err != nil {
			return false, err
		}
		if entry, err := Parse(content); err != nil || entry.Restarts != "" {
			return err == nil, err
		}
	}
	return false, nil
}

func TestReplacesPods(t *testing.T) {
	const deployment = "# hold: false\n---\n# Service\nspec:\n  type: ClusterIP\n---\n# Deployment\nspec:\n  replicas: 2\n  template:\n    spec:\n      containers: [{name: web}]\n"
	const template = "metadata:\n  labels: {app: web}\nspec:\n  containers: [{name: web}]\n"
	for name, c := range map[string]struct {
		old, current string
		want         bool
	}{
		"the same":                       {deployment, deployment, false},
		"replicas":                       {deployment, strings.Replace(deployment, "replicas: 2", "replicas: 3", 1), false},
		"a Service":                      {deployment, strings.Replace(deployment, "ClusterIP", "None", 1), false},
		"a container":                    {deployment, strings.Replace(deployment, "name: web", "name: app", 1), true},
		"a pod template without a kind":  {template, strings.Replace(template, "app: web", "app: shop", 1), true},
		"another order of the same keys": {template, "spec:\n  containers: [{name: web}]\nmetadata:\n  labels: {app: web}\n", false},
		"no pod template any more":       {deployment, "# hold: true\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := replacesPods([]byte(c.old), []byte(c.current))
			if err != nil {
				t.Fatal(err)
			}
			if got != c.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func TestNamesRestarts(t *testing.T) {
	contents := map[string]string{"a.yaml": plain, "b.yaml": plain + "restarts: the pods of all WebApps\n", "bad.yaml": "kind: bug"}
	read := func(file string) ([]byte, error) { return []byte(contents[file]), nil }
	for files, want := range map[string]bool{"": false, "TEMPLATE": false, "a.yaml": false, "b.yaml": true, "TEMPLATE a.yaml b.yaml": true} {
		if got, err := namesRestarts(strings.Fields(files), read); err != nil || got != want {
			t.Errorf("%q: got %t, %v", files, got, err)
		}
	}
	if _, err := namesRestarts([]string{"bad.yaml"}, read); err == nil {
		t.Error("an invalid entry is accepted")
	}
}

// TestGoldenFilesHavePodTemplates: where the golden files are, and how they are written, is what
// the test above expects.
func TestGoldenFilesHavePodTemplates(t *testing.T) {
	for pattern, least := range map[string]int{
		"../internal/kinds/webapp/testdata/*.yaml": 10, "../internal/kinds/instrumentation/injection/testdata/*.yaml": 10,
		"../internal/kinds/postgresql/testdata/*.yaml": 3, "../internal/kinds/cache/testdata/*.yaml": 3,
	} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		count := 0
		for _, file := range files {
			content, err := os.ReadFile(file) //nolint:gosec // a file of this repository
			if err != nil {
				t.Fatal(err)
			}
			templates, err := podTemplates(content)
			if err != nil {
				t.Errorf("%s: %v", file, err)
			}
			count += len(templates)
		}
		if count < least {
			t.Errorf("%s have %d pod templates, want at least %d", pattern, count, least)
		}
	}
}
