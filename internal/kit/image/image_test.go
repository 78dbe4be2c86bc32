package image

import (
	"errors"
	"go/build"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/distribution/reference"
	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-platform/mainstay/charts"
	"github.com/mainstay-platform/mainstay/test/fuzz"
)

const (
	sha256Digits = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	sha512Digits = sha256Digits + sha256Digits
)

// table has texts with the expected Reference; nil means that the text is refused.
func table() map[string]*Reference {
	all := map[string]*Reference{}
	for _, rows := range []map[string]*Reference{dockerHub(), hosts(), addresses(), paths(), tagsAndDigests(), lookalikes(), slips()} {
		maps.Copy(all, rows)
	}
	return all
}

// dockerHub has the short forms of references to Docker Hub.
func dockerHub() map[string]*Reference {
	return map[string]*Reference{
		"nginx":                           {"docker.io", "library/nginx", "", ""},
		"nginx:1.27":                      {"docker.io", "library/nginx", "1.27", ""},
		"library/nginx":                   {"docker.io", "library/nginx", "", ""},
		"team/shop":                       {"docker.io", "team/shop", "", ""},
		"docker.io/nginx":                 {"docker.io", "library/nginx", "", ""},
		"docker.io/nginx:1":               {"docker.io", "library/nginx", "1", ""},
		"docker.io/mainstay/demo-web:1.0": {"docker.io", "mainstay/demo-web", "1.0", ""},
		"index.docker.io/nginx":           {"docker.io", "library/nginx", "", ""},
		"index.docker.io/library/nginx":   {"docker.io", "library/nginx", "", ""},
		"docker.io/library":               {"docker.io", "library/library", "", ""},
		"docker.io/docker.io/nginx":       {"docker.io", "docker.io/nginx", "", ""},
		// Docker Hub's host is not its name: containerd goes there for docker.io, but nobody reads it
		// back.
		"registry-1.docker.io/library/nginx": {"registry-1.docker.io", "library/nginx", "", ""},
		"registry.hub.docker.com/nginx":      {"registry.hub.docker.com", "nginx", "", ""},
		"docker.io:443/nginx":                {"docker.io:443", "nginx", "", ""},
		// The two names are known in lower case only: containerd goes to the host itself, which is
		// no registry, and there is no library/.
		"Docker.io/nginx":       {"Docker.io", "nginx", "", ""},
		"INDEX.docker.io/nginx": {"INDEX.docker.io", "nginx", "", ""},
	}
}

// hosts: the first component is a host if it has a dot, a colon or an upper-case letter, or is
// localhost.
func hosts() map[string]*Reference {
	return map[string]*Reference{
		"localhost/shop":                  {"localhost", "shop", "", ""},
		"localhost:5000/shop:dev":         {"localhost:5000", "shop", "dev", ""},
		"registry.example.com/a/b/c/d:v1": {"registry.example.com", "a/b/c/d", "v1", ""},
		"registry.example.com:8443/shop":  {"registry.example.com:8443", "shop", "", ""},
		"Registry.Example.com/shop":       {"Registry.Example.com", "shop", "", ""},
		"registry:5000/shop":              {"registry:5000", "shop", "", ""},
		"xn--80ak6aa92e.com/shop":         {"xn--80ak6aa92e.com", "shop", "", ""},
		"my_host/shop":                    {"docker.io", "my_host/shop", "", ""},
		// Not the user TEAM of Docker Hub: paths are in lower case, so it can only be a host.
		"TEAM/shop":      {"TEAM", "shop", "", ""},
		"LOCALHOST/shop": {"LOCALHOST", "shop", "", ""},
		// Without a path there is no host: these are images of Docker Hub, the last with the tag 443.
		"localhost":            {"docker.io", "library/localhost", "", ""},
		"registry.example.com": {"docker.io", "library/registry.example.com", "", ""},
		"reg.io:443":           {"docker.io", "library/reg.io", "443", ""},
		// A port is digits, and nobody counts them.
		"reg.io:0443/shop": {"reg.io:0443", "shop", "", ""},
		// So this is no tag.
		"nginx:1/2":         {"nginx:1", "2", "", ""},
		"reg.io:99999/shop": {"reg.io:99999", "shop", "", ""},

		"registry.example.com:port/shop": nil,
		"registry.example.com:/shop":     nil,
		"reg.io:-1/shop":                 nil,
		"reg.io:443:443/shop":            nil,
		"my_host:5000/shop":              nil,
		"MY_HOST/shop":                   nil,
		"-reg.io/shop":                   nil,
		"reg.io-/shop":                   nil,
		// To DNS this is reg.io, so to an allow-list it would be a second spelling.
		"reg.io./shop":     nil,
		"reg.io.:443/shop": nil,
		".reg.io/shop":     nil,
		"localhost./shop":  nil,
	}
}

func addresses() map[string]*Reference {
	return map[string]*Reference{
		"10.0.0.1/shop":           {"10.0.0.1", "shop", "", ""},
		"10.0.0.1:5000/shop":      {"10.0.0.1:5000", "shop", "", ""},
		"[2001:db8::1]/shop":      {"[2001:db8::1]", "shop", "", ""},
		"[2001:db8::1]:5000/shop": {"[2001:db8::1]:5000", "shop", "", ""},
		"[2001:DB8::1]/shop":      {"[2001:DB8::1]", "shop", "", ""},
		// Nobody counts these digits either. Other spellings of an address are other hosts.
		"127.1/shop": {"127.1", "shop", "", ""},
		"[:]/shop":   {"[:]", "shop", "", ""},
		"10.0.0.1":   {"docker.io", "library/10.0.0.1", "", ""},

		"2001:db8::1/shop":             nil,
		"::1/shop":                     nil,
		"[2001:db8::1]":                nil,
		"[2001:db8::1/shop":            nil,
		"[fe80::1%eth0]/shop":          nil,
		"[::ffff:10.0.0.1]/shop":       nil,
		"[reg.io]/shop":                nil,
		"[2001:db8::1].evil.com/shop":  nil,
		"[2001:db8::1]@evil.com/shop":  nil,
		"[2001:db8::1]:5000:5000/shop": nil,
	}
}

func paths() map[string]*Reference {
	return map[string]*Reference{
		"a_b/c__d/e-f/g--h.i": {"docker.io", "a_b/c__d/e-f/g--h.i", "", ""},
		// 255 characters without the host, but with library/.
		"reg.io/" + strings.Repeat("a", 255): {"reg.io", strings.Repeat("a", 255), "", ""},
		strings.Repeat("a", 247):             {"docker.io", "library/" + strings.Repeat("a", 247), "", ""},
		// Alone it could be a container's id and is refused (see TestTheSchemaAgrees); with anything
		// beside it, it is a name.
		"docker.io/" + sha256Digits: {"docker.io", "library/" + sha256Digits, "", ""},
		sha256Digits + ":1":         {"docker.io", "library/" + sha256Digits, "1", ""},
		sha256Digits[:63]:           {"docker.io", "library/" + sha256Digits[:63], "", ""},

		"Nginx":            nil,
		"team/Shop":        nil,
		"reg.io/Team/shop": nil,
		"/shop":            nil,
		"//shop":           nil,
		"shop/":            nil,
		"reg.io/":          nil,
		"a//b":             nil,
		"-shop":            nil,
		"shop-":            nil,
		"_/shop":           nil,
		"../shop":          nil,
		"./shop":           nil,
		"reg.io/../shop":   nil,
		"reg.io/a/../shop": nil,
		"reg.io/./shop":    nil,
		"reg.io/*":         nil,
		"shöp":             nil,
	}
}

func tagsAndDigests() map[string]*Reference {
	return map[string]*Reference{
		"nginx:latest":                     {"docker.io", "library/nginx", "latest", ""},
		"shop:V1_a-b.c":                    {"docker.io", "library/shop", "V1_a-b.c", ""},
		"shop:_":                           {"docker.io", "library/shop", "_", ""},
		"shop:" + strings.Repeat("a", 128): {"docker.io", "library/shop", strings.Repeat("a", 128), ""},
		"shop@sha256:" + sha256Digits:      {"docker.io", "library/shop", "", "sha256:" + sha256Digits},
		"shop@sha384:" + sha512Digits[:96]: {"docker.io", "library/shop", "", "sha384:" + sha512Digits[:96]},
		"shop@sha512:" + sha512Digits:      {"docker.io", "library/shop", "", "sha512:" + sha512Digits},
		// containerd pulls the digest and never looks whether the tag is this image.
		"r.example.com/shop:1@sha256:" + sha256Digits: {"r.example.com", "shop", "1", "sha256:" + sha256Digits},
		// Without anything before it, it is the id of an image (see TestTheSchemaAgrees).
		"docker.io/library/sha256:" + sha256Digits: {"docker.io", "library/sha256", sha256Digits, ""},

		"nginx:":                                 nil,
		":latest":                                nil,
		"nginx:1:2":                              nil,
		"nginx:-1":                               nil,
		"nginx:.1":                               nil,
		"nginx:1.0+build":                        nil,
		"shop:" + strings.Repeat("a", 129):       nil,
		"nginx@":                                 nil,
		"nginx:@sha256:" + sha256Digits:          nil,
		"@sha256:" + sha256Digits:                nil,
		"nginx@sha256":                           nil,
		"nginx@sha256:":                          nil,
		"nginx@sha256:abc":                       nil,
		"nginx@" + sha256Digits:                  nil,
		"nginx@@sha256:" + sha256Digits:          nil,
		"nginx@latest":                           nil,
		"nginx@sha256:" + sha256Digits + ":1":    nil,
		"nginx@sha256:" + sha256Digits + "/x":    nil,
		"nginx@sha256:" + sha256Digits[1:] + "g": nil,
		"shop@sha256:" + sha256Digits + "@sha256:" + sha256Digits: nil,
	}
}

// lookalikes are references that a comparison of strings would take for an image of reg.io.
func lookalikes() map[string]*Reference {
	return map[string]*Reference{
		"reg.io/shop":             {"reg.io", "shop", "", ""},
		"reg.io:443/shop":         {"reg.io:443", "shop", "", ""},
		"reg.io.evil.com/shop":    {"reg.io.evil.com", "shop", "", ""},
		"reg.io-evil.com/shop":    {"reg.io-evil.com", "shop", "", ""},
		"evilreg.io/shop":         {"evilreg.io", "shop", "", ""},
		"evil.reg.io/shop":        {"evil.reg.io", "shop", "", ""},
		"evil.com/reg.io/shop":    {"evil.com", "reg.io/shop", "", ""},
		"evil/reg.io/shop":        {"docker.io", "evil/reg.io/shop", "", ""},
		"evil.com:443/reg.io":     {"evil.com:443", "reg.io", "", ""},
		"evil.com/shop:reg.io":    {"evil.com", "shop", "reg.io", ""},
		"docker.io/reg.io/shop":   {"docker.io", "reg.io/shop", "", ""},
		"docker.io.evil.com/shop": {"docker.io.evil.com", "shop", "", ""},

		"reg.io@evil.com/shop":                nil,
		"reg.io:443@evil.com/shop":            nil,
		"user:pass@reg.io/shop":               nil,
		"reg.i\u043e/shop":                    nil, // Cyrillic о
		"reg\uff0eio/shop":                    nil, // full-width dot
		"reg.io\u200b/shop":                   nil, // no width at all
		"reg.io\\evil.com/shop":               nil,
		"reg.io\\shop":                        nil,
		"evil.com#reg.io/shop":                nil,
		"evil.com?reg.io/shop":                nil,
		"reg%2eio/shop":                       nil,
		"reg.io%2fshop":                       nil,
		"reg.io/shop%00":                      nil,
		"http://registry.example.com/shop":    nil,
		"https://registry.example.com/shop:1": nil,
		"docker://nginx":                      nil,
		"oci://reg.io/shop":                   nil,
		"//reg.io/shop":                       nil,
	}
}

// slips are typical mistakes when users copy references or build them from strings.
func slips() map[string]*Reference {
	return map[string]*Reference{
		// skopeo's transports without slashes are images with a tag.
		"containers-storage:shop": {"docker.io", "library/containers-storage", "shop", ""},

		"":                  nil,
		" ":                 nil,
		"nginx ":            nil,
		" nginx":            nil,
		"my image":          nil,
		"nginx\t":           nil,
		"nginx\n":           nil,
		"nginx\r\n":         nil,
		"reg.io/shop\nevil": nil,
		"nginx\x00":         nil,
		"reg.io\x00/shop":   nil,
		"\ufeffnginx":       nil,
		"nginx\xff":         nil,
		"shop?tag=1":        nil,
		"'nginx'":           nil,
		"nginx,redis":       nil,
		"${IMAGE}":          nil,
		"{{ .image }}":      nil,
		"<none>:<none>":     nil,
	}
}

func TestParse(t *testing.T) {
	for text, want := range table() {
		t.Run(text, func(t *testing.T) {
			got, err := Parse(text)
			if want == nil {
				if err == nil || !strings.Contains(err.Error(), "must be an image reference, [registry[:port]/]path[:tag][@digest], ") {
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

// The library reference finds no registry in such an image, but containerd, which parses the host
// again, pulls from it. Parse is stricter than the grammar only for that, and for ids.
func TestParseRefusesAnUnderscoreInTheHost(t *testing.T) {
	for text, host := range map[string]string{
		"my_host.io/shop":                        "my_host.io",
		"reg.io_evil.com/shop":                   "reg.io_evil.com",
		"a__b.io/shop:1":                         "a__b.io",
		"my_host.io/shop@sha256:" + sha256Digits: "my_host.io",
	} {
		if got, err := Parse(text); !errors.Is(err, errNoHost) {
			t.Errorf("%q: got %+v, %v", text, got, err)
		}
		if got, _ := pulled(text); got != host {
			t.Errorf("%q is pulled from %q: is there still a reason to refuse it?", text, got)
		}
	}
}

// TestParseRefusesIDs: as docker images --digests prints one, without the name. containerd and
// CRI-O start the image with that id, which a pod of any namespace may have pulled.
func TestParseRefusesIDs(t *testing.T) {
	for _, text := range []string{"sha256:" + sha256Digits, "sha384:" + sha512Digits[:96], "sha512:" + sha512Digits, "sha256:1"} {
		if got, err := Parse(text); !errors.Is(err, errID) {
			t.Errorf("%q: got %+v, %v", text, got, err)
		}
	}
}

// pulled returns where containerd pulls an image from, without this package. The CRI plugin of
// containerd completes the reference with the library, and its resolver parses the result again, as
// a URL. pulled returns "" if one of them refuses.
//
// Source: https://github.com/containerd/containerd/blob/main/pkg/reference/reference.go
func pulled(text string) (host, path string) {
	named, err := reference.ParseDockerRef(text)
	if err != nil {
		return "", ""
	}
	parsed, err := url.Parse("dummy://" + named.String())
	if err != nil {
		return "", ""
	}
	path, _, _ = strings.Cut(strings.TrimPrefix(parsed.Path, "/"), "@")
	path, _, _ = strings.Cut(path, ":")
	return parsed.Host, path
}

// The imports of this test link every hash, so the test checks the imports in the source of the
// package.
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

func TestString(t *testing.T) {
	for text, want := range map[string]string{
		"nginx":                       "docker.io/library/nginx",
		"index.docker.io/team/shop:1": "docker.io/team/shop:1",
		"REG/shop":                    "REG/shop",
		"localhost:5000/shop@sha256:" + sha256Digits: "localhost:5000/shop@sha256:" + sha256Digits,
		"[::1]/shop:1@sha512:" + sha512Digits:        "[::1]/shop:1@sha512:" + sha512Digits,
	} {
		parsed, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := parsed.String(); got != want {
			t.Errorf("%q is printed as %q, not %q", text, got, want)
		}
	}
}

func TestIsFloating(t *testing.T) {
	for text, want := range map[string]bool{
		"nginx":                               true,
		"nginx:latest":                        true,
		"reg.io:443/nginx":                    true,
		"nginx:1.27":                          false,
		"nginx:Latest":                        false,
		"nginx:latest-alpine":                 false,
		"nginx@sha256:" + sha256Digits:        false,
		"nginx:latest@sha256:" + sha256Digits: false,
	} {
		parsed, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := parsed.IsFloating(); got != want {
			t.Errorf("%q: got %t", text, got)
		}
	}
}

// schemaRule is the regular expression for spec.image in the installed definition.
func schemaRule(t testing.TB) *regexp.Regexp {
	t.Helper()
	definitions, err := charts.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	for _, definition := range definitions {
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
		"the id of an image":                    "sha256:" + sha256Digits,
		"a domain label that ends in a dash":    "a-.example.com/shop",
		"a path of more than 255 characters":    "registry.example.com/" + strings.Repeat("a", 256),
		"one that library/ makes longer":        strings.Repeat("a", 248),
		"a host with two dots":                  "reg..io/shop",
		"a dot before the port":                 "reg.-io:443/shop",
		"a host with an underscore":             "my_host.io/shop",
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

// FuzzParse: Parse never panics. A parsed reference has a registry and a path, parses to the same
// after String, and is accepted by the schema.
func FuzzParse(f *testing.F) {
	rule := schemaRule(f)
	for text := range table() {
		f.Add(text)
	}
	fuzz.AddBombs(f, "reg.io:5000/team/shop:1@sha256:"+strings.Repeat("a", 64))
	f.Fuzz(func(t *testing.T, text string) {
		defer fuzz.Budget(t, text)()
		first, err := Parse(text)
		if err != nil {
			return
		}
		if !rule.MatchString(text) {
			t.Errorf("the schema refuses %q", text)
		}
		if first.Registry == "" || first.Path == "" {
			t.Errorf("%q is %+v", text, first)
		}
		again := first.String()
		if second, err := Parse(again); err != nil || second != first {
			t.Errorf("%q is %+v, and %q is %+v, %v", text, first, again, second, err)
		}
	})
}
