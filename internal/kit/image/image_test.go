package image

import (
	"go/build"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/mainstay-platform/mainstay/charts"
)

const (
	sha256Digits = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
)

// table has what is an image reference, as it is read, and what is none (nil).
func table() map[string]*Reference {
	return map[string]*Reference{
		"nginx":                                       {"docker.io", "library/nginx", "", ""},
		"nginx:1.27":                                  {"docker.io", "library/nginx", "1.27", ""},
		"library/nginx":                               {"docker.io", "library/nginx", "", ""},
		"docker.io/nginx":                             {"docker.io", "library/nginx", "", ""},
		"docker.io/mainstay/demo-web:1.0":             {"docker.io", "mainstay/demo-web", "1.0", ""},
		"index.docker.io/library/nginx":               {"docker.io", "library/nginx", "", ""},
		"team/shop":                                   {"docker.io", "team/shop", "", ""},
		"localhost/shop":                              {"localhost", "shop", "", ""},
		"localhost:5000/shop:dev":                     {"localhost:5000", "shop", "dev", ""},
		"registry.example.com/a/b/c/d:v1":             {"registry.example.com", "a/b/c/d", "v1", ""},
		"registry.example.com:8443/shop":              {"registry.example.com:8443", "shop", "", ""},
		"10.0.0.1:5000/shop":                          {"10.0.0.1:5000", "shop", "", ""},
		"[2001:db8::1]:5000/shop":                     {"[2001:db8::1]:5000", "shop", "", ""},
		"Registry.Example.com/shop":                   {"Registry.Example.com", "shop", "", ""},
		"shop:V1_a-b.c":                               {"docker.io", "library/shop", "V1_a-b.c", ""},
		"shop:" + strings.Repeat("a", 128):            {"docker.io", "library/shop", strings.Repeat("a", 128), ""},
		"a_b/c__d/e-f/g--h.i":                         {"docker.io", "a_b/c__d/e-f/g--h.i", "", ""},
		"shop@sha256:" + sha256Digits:                 {"docker.io", "library/shop", "", "sha256:" + sha256Digits},
		"r.example.com/shop:1@sha256:" + sha256Digits: {"r.example.com", "shop", "1", "sha256:" + sha256Digits},

		"":                                    nil,
		" ":                                   nil,
		"nginx ":                              nil,
		" nginx":                              nil,
		"my image":                            nil,
		"nginx:":                              nil,
		"nginx:1:2":                           nil,
		"nginx:-1":                            nil,
		"nginx@":                              nil,
		"nginx@sha256:abc":                    nil,
		"Nginx":                               nil,
		"team/Shop":                           nil,
		"http://registry.example.com/shop":    nil,
		"https://registry.example.com/shop:1": nil,
		"/shop":                               nil,
		"shop/":                               nil,
		"a//b":                                nil,
		"-shop":                               nil,
		"shop-":                               nil,
		"shop:" + strings.Repeat("a", 129):    nil,
		"registry.example.com:port/shop":      nil,
		"shop?tag=1":                          nil,
		"shöp":                                nil,
		"nginx\n":                             nil,
		"../shop":                             nil,
	}
}

func TestParse(t *testing.T) {
	for text, want := range table() {
		t.Run(text, func(t *testing.T) {
			got, err := Parse(text)
			if want == nil {
				if err == nil || !strings.Contains(err.Error(), "is no image reference ([registry[:port]/]path[:tag][@digest]") {
					t.Errorf("got %+v, %v", got, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(*want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// This test's own imports link every hash, so what the package links is seen in its source only.
func TestTheHashesAreLinked(t *testing.T) {
	source, err := build.ImportDir(".", 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, hash := range []string{"crypto/sha256", "crypto/sha512"} {
		if !slices.Contains(source.Imports, hash) {
			t.Errorf("without %s a small program refuses its digests", hash)
		}
	}
}

// schemaRule is the regular expression by which the API server accepts spec.image, as it stands
// in the definition that is installed.
func schemaRule(t testing.TB) *regexp.Regexp {
	t.Helper()
	documents, err := charts.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range documents {
		var definition apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(document, &definition); err != nil {
			t.Fatal(err)
		}
		if definition.Spec.Names.Kind != "WebApp" {
			continue
		}
		for _, rule := range definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["image"].XValidations {
			if text, found := strings.CutPrefix(rule.Rule, "self.matches('"); found {
				// CEL takes RE2, as Go does; in its strings a backslash is written twice.
				return regexp.MustCompile(strings.ReplaceAll(strings.TrimSuffix(text, "')"), `\\`, `\`))
			}
		}
	}
	t.Fatal("there is no rule")
	return nil
}

func TestTheSchemaAgrees(t *testing.T) {
	rule := schemaRule(t)
	for text, want := range table() {
		if got := rule.MatchString(text); got != (want != nil) {
			t.Errorf("%q: the schema accepts it: %t", text, got)
		}
	}
	// The schema's rule is the coarser one, for a regular expression that says all of this would cost
	// more than the API server allows. What only it accepts ends in the condition InvalidSpec.
	for name, text := range map[string]string{
		"a digest of the wrong length":          "shop@sha256:" + sha256Digits[:32],
		"a digest in upper case":                "shop@sha256:" + strings.ToUpper(sha256Digits),
		"an algorithm that nobody knows":        "shop@md5:" + sha256Digits[:32],
		"three underscores":                     "a___b",
		"two dots":                              "a..b",
		"a name that could be a container's id": sha256Digits,
		"a domain label that ends in a dash":    "a-.example.com/shop",
		"a path of more than 255 characters":    "registry.example.com/" + strings.Repeat("a", 256),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Parse(text); err == nil {
				t.Error("Parse accepts it: it belongs into the table")
			}
			if !rule.MatchString(text) {
				t.Error("the schema refuses it as well: it belongs into the table")
			}
		})
	}
}

// FuzzParse: Parse never panics, what it accepts reads the same the second time, and the schema
// never refuses what it accepts.
func FuzzParse(f *testing.F) {
	rule := schemaRule(f)
	for text := range table() {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		first, err := Parse(text)
		if err != nil {
			return
		}
		if !rule.MatchString(text) {
			t.Errorf("the schema refuses %q", text)
		}
		again := first.Registry + "/" + first.Path
		if first.Tag != "" {
			again += ":" + first.Tag
		}
		if first.Digest != "" {
			again += "@" + first.Digest
		}
		if second, err := Parse(again); err != nil || second != first {
			t.Errorf("%q is %+v, and %q is %+v, %v", text, first, again, second, err)
		}
	})
}
