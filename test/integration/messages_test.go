package integration

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/test/golden"
	"github.com/mainstay-platform/mainstay/test/testenv"
)

// mistaken are the kinds of the table of mistakes, each with what a valid spec needs. A mistake
// replaces fields of it.
var mistaken = map[string]struct {
	resource  schema.GroupVersionResource
	isCluster bool
	valid     string
}{
	"WebApp":    {webapps, false, `{image: "shop:1"}`},
	"AppConfig": {configv1.GroupVersion.WithResource("appconfigs"), false, `{application: shop}`},
	"ConfigMonitor": {configv1.GroupVersion.WithResource("configmonitors"), false,
		`{configMap: settings, podSelector: {app: web}}`},
	"Instrumentation": {instrv1.GroupVersion.WithResource("instrumentations"), false,
		`{matchers: [{deployment: web}], agent: {image: "agent:1", language: java}}`},
	"PlatformPolicy": {mspolicyv1.GroupVersion.WithResource("platformpolicies"), true, `{rules: [{environment: "*", maxReplicas: 10}]}`},
}

// unfriendly are texts of programs, which no answer may have: a user can't act on them. Of kinds
// without a mutating webhook the schema refuses quantities, and its pattern can't have a message.
var unfriendly = regexp.MustCompile(`json: |unmarshal|Go struct|parsing time|[^-]time: |strconv|quantities must match|should match '\^[^(]`)

// repeated is what the API server adds to its answers: it is the same for all fields, or repeats
// what is said before.
var repeated = regexp.MustCompile(`^.* strict decoding error: |, <nil>: Invalid value: [^,\]]*|, \.spec\.replicas: [^\]]* accessor error: [^,\]]*(, expected int64)?`)

// TestMessages writes what developers plausibly write by mistake, and compares what they read then
// with testdata/messages: a line with a part of a spec, and indented below it the answer after the
// object's name, or the warnings. Nothing is accepted silently. For a further mistake add its line
// and run the test with -update, which writes the answer: check that it names the field, repeats
// the value and says what is accepted.
func TestMessages(t *testing.T) {
	t.Parallel()
	s := newGoverned(t)
	testenv.RequireKubernetes(t, s.config, 37, "older API servers word some answers differently")
	s.start(t)
	watched := rest.CopyConfig(s.config)
	watched.WarningHandler = s
	api, err := dynamic.NewForConfig(watched)
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for name, kind := range mistaken {
		var in dynamic.ResourceInterface = api.Resource(kind.resource)
		if !kind.isCluster {
			in = api.Resource(kind.resource).Namespace("elsewhere")
		}
		object := func(changes string) *unstructured.Unstructured {
			spec := map[string]any{}
			for _, text := range []string{kind.valid, changes} {
				if err := yaml.Unmarshal([]byte(text), &spec); err != nil {
					t.Fatalf("%s: %v", text, err)
				}
			}
			made := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "shop"}, "spec": spec}}
			made.SetGroupVersionKind(kind.resource.GroupVersion().WithKind(name))
			return made
		}
		if got := s.answer(t, in, object("{}")); got != silence {
			t.Fatalf("%s: the valid spec: %s", name, got)
		}
		file := filepath.Join("testdata", "messages", strings.ToLower(name)+".txt")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var answered strings.Builder
		for line := range strings.Lines(string(text)) {
			line = strings.TrimRight(line, "\n")
			if line == "" || strings.HasPrefix(line, "\t") {
				continue
			}
			got := s.answer(t, in, object(line))
			if got == silence || unfriendly.MatchString(got) || !strings.Contains(got, "spec") {
				t.Errorf("%s: %s: %s", name, line, got)
			}
			answered.WriteString(line + "\n\t" + got + "\n")
			tried++
		}
		golden.Check(t, filepath.Join("messages", strings.ToLower(name)+".txt"), []byte(answered.String()))
	}
	if tried < 100 {
		t.Errorf("%d mistakes were tried, want at least 100", tried)
	}
}

// silence is the answer to an object that is accepted without a warning.
const silence = "accepted without a word"

// answer returns what the user reads who creates an object.
func (s *governed) answer(t *testing.T, in dynamic.ResourceInterface, object *unstructured.Unstructured) string {
	t.Helper()
	s.warnings()
	_, err := in.Create(t.Context(), object,
		metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict, DryRun: []string{metav1.DryRunAll}})
	warnings := s.warnings()
	var status apierrors.APIStatus
	switch {
	case errors.As(err, &status) && !apierrors.IsInternalError(err):
		_, said, _ := strings.Cut(err.Error(), " is invalid: ")
		if said == "" {
			said = err.Error()
		}
		return sorted(strings.Join(strings.Fields(repeated.ReplaceAllString(said, "")), " "))
	case err != nil:
		t.Fatal(err)
	case len(warnings) > 0:
		return "Warning: " + strings.Join(warnings, "; ")
	}
	return silence
}

// sorted returns an answer with its problems in order: the API server checks fields in any.
func sorted(answer string) string {
	inner, isList := strings.CutPrefix(answer, "[")
	if !isList {
		return answer
	}
	const next = ", spec."
	problems := strings.Split(strings.TrimPrefix(strings.TrimSuffix(inner, "]"), "spec."), next)
	slices.Sort(problems)
	if len(problems) == 1 {
		return "spec." + problems[0]
	}
	return "[spec." + strings.Join(problems, next) + "]"
}
