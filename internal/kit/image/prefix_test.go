package image

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-platform/mainstay/test/fuzz"
)

// entries has entries of a list of allowed registries with the expected Prefix; nil means that the
// entry is refused.
func entries() map[string]*Prefix {
	all := allowedEntries()
	for _, text := range refusedEntries() {
		all[text] = nil
	}
	return all
}

func allowedEntries() map[string]*Prefix {
	return map[string]*Prefix{
		"registry.example.com":               {"registry.example.com", ""},
		"registry.example.com:5000":          {"registry.example.com:5000", ""},
		"registry.example.com/team":          {"registry.example.com", "team"},
		"registry.example.com/team/shop":     {"registry.example.com", "team/shop"},
		"Registry.Example.COM/team":          {"registry.example.com", "team"},
		"docker.io":                          {"docker.io", ""},
		"docker.io/library":                  {"docker.io", "library"},
		"docker.io/library/nginx":            {"docker.io", "library/nginx"},
		"docker.io/nginx":                    {"docker.io", "nginx"},
		"index.docker.io":                    {"docker.io", ""},
		"index.docker.io/library":            {"docker.io", "library"},
		"Index.Docker.io/library":            {"docker.io", "library"},
		"index.docker.io:443":                {"index.docker.io:443", ""},
		"registry-1.docker.io":               {"registry-1.docker.io", ""},
		"localhost":                          {"localhost", ""},
		"LocalHost/team":                     {"localhost", "team"},
		"localhost:5000":                     {"localhost:5000", ""},
		"registry:5000":                      {"registry:5000", ""},
		"10.0.0.1:5000/team":                 {"10.0.0.1:5000", "team"},
		"[2001:DB8::1]":                      {"[2001:db8::1]", ""},
		"[2001:db8::1]:5000/team":            {"[2001:db8::1]:5000", "team"},
		"reg.io/" + strings.Repeat("a", 255): {"reg.io", strings.Repeat("a", 255)},
		"reg.io/" + sha256Digits:             {"reg.io", sha256Digits},
	}
}

func refusedEntries() []string {
	return []string{
		"reg.io/" + strings.Repeat("a", 256),
		"",
		" ",
		"/",
		"nginx",
		"library/nginx",
		"team/shop",
		"REG",
		"REG/team",
		"reg.io ",
		" reg.io",
		"reg.io\n",
		"reg.io/",
		"reg.io//",
		"reg.io/team/",
		"reg.io//team",
		"reg.io/team//shop",
		"//reg.io",
		"/reg.io",
		"reg.io/Team",
		"reg.io/../team",
		"http://reg.io",
		"https://reg.io/team",
		"docker://reg.io",
		"*",
		"*.io",
		"*.reg.io/team",
		"reg.io/*",
		"reg.io/team*",
		"reg.io:*",
		"reg.io/team:1",
		"reg.io/team@sha256:" + sha256Digits,
		"reg.io@sha256:" + sha256Digits,
		"reg.io:latest",
		"reg.io:",
		"reg.io:443:443",
		"user:pass@reg.io",
		"reg.io.",
		"reg.io.:443",
		"reg.io./team",
		"localhost.",
		".reg.io",
		"reg..io",
		"my_host.io",
		"my_host.io/team",
		"my_host:5000",
		"reg.i\u043e",    // Cyrillic о
		"reg.\u212ao",    // the Kelvin sign, in lower case k
		"localho\u017ft", // the long s, in upper case S
		"2001:db8::1",
		"[2001:db8::1",
		"[fe80::1%eth0]",
		"registry.example.com,docker.io/team",
	}
}

func TestParsePrefix(t *testing.T) {
	for text, want := range entries() {
		t.Run(text, func(t *testing.T) {
			got, err := ParsePrefix(text)
			if want == nil {
				if err == nil || !strings.Contains(err.Error(), "must be registry[:port][/path], for example docker.io/library/nginx, ") {
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
			if again, err := ParsePrefix(got.String()); err != nil || again != got {
				t.Errorf("%s is read as %+v, %v", got, again, err)
			}
		})
	}
}

func TestParsePrefixError(t *testing.T) {
	_, err := ParsePrefix("team/shop")
	want := "must be registry[:port][/path], for example docker.io/library/nginx, with the path in lower case and without scheme, tag, digest or wildcard: " +
		"it must start with the host of a registry, which has a dot or a port or is localhost"
	if err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
}

func TestContains(t *testing.T) {
	for entry, images := range map[string]map[string]bool{
		"reg.io": {
			"reg.io/shop": true, "reg.io/a/b/c:1": true, "REG.io/shop": true, "reg.io/shop@sha256:" + sha256Digits: true,
			"reg.io:443/shop": false, "reg.io:80/shop": false, "reg.io.evil.com/shop": false, "reg.io-evil.com/shop": false,
			"evilreg.io/shop": false, "sub.reg.io/shop": false, "evil.com/reg.io/shop": false, "evil/reg.io/shop": false,
			// These are images of Docker Hub.
			"reg.io": false, "reg.io:443": false, "nginx": false,
		},
		"REG.io:443": {"reg.io:443/shop": true, "Reg.IO:443/shop": true, "reg.io/shop": false, "reg.io:0443/shop": false,
			"reg.io:4430/shop": false},
		"reg.io/team": {"reg.io/team": true, "reg.io/team:1": true, "reg.io/team/shop": true, "reg.io/teams/x": false, "reg.io/team-x": false,
			"reg.io/x/team": false, "reg.io/tea": false},
		"reg.io/a/b": {"reg.io/a/b": true, "reg.io/a/b/c": true, "reg.io/a": false, "reg.io/a/bc": false},
		"docker.io": {"nginx": true, "team/shop": true, "docker.io/nginx": true, "index.docker.io/nginx": true,
			"registry-1.docker.io/library/nginx": false, "docker.io:443/nginx": false},
		"docker.io/library": {
			"nginx": true, "library/nginx": true, "docker.io/nginx": true, "index.docker.io/nginx": true, "nginx:1@sha256:" + sha256Digits: true,
			"team/shop":      false,
			"libraryx/nginx": false, "reg.io/library/nginx": false,
			// In another case the host gets no library/ put before the path.
			"Docker.io/nginx": false,
		},
		"index.docker.io/library/nginx": {"nginx": true, "nginx/x": false, "nginxx": false, "redis": false},
		// The user nginx, which the image nginx does not belong to.
		"docker.io/nginx": {"nginx": false, "docker.io/nginx": false, "nginx/agent": true},
		"localhost:5000":  {"localhost:5000/shop": true, "localhost/shop": false, "127.0.0.1:5000/shop": false},
		"localhost":       {"localhost/shop": true, "LOCALHOST/shop": true, "localhost:5000/shop": false, "localhost": false},
		"[2001:db8::1]:5000/team": {
			"[2001:db8::1]:5000/team/shop": true, "[2001:DB8::1]:5000/team/shop": true, "[2001:db8::1]/team/shop": false,
			"[2001:db8:0::1]:5000/team/shop": false,
		},
	} {
		prefix, err := ParsePrefix(entry)
		if err != nil {
			t.Fatal(err)
		}
		for text, want := range images {
			parsed, err := Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			if got := prefix.Contains(parsed); got != want {
				t.Errorf("%s contains %s: got %t", entry, text, got)
			}
		}
	}
}

func TestNothingContainsNothing(t *testing.T) {
	if (Prefix{}).Contains(Reference{}) || (Prefix{}).Contains(Reference{Registry: "docker.io", Path: "library/nginx"}) {
		t.Error("the zero Prefix contains an image")
	}
	if (Prefix{Registry: "reg.io"}).Contains(Reference{}) {
		t.Error("a Prefix contains the zero Reference")
	}
}

// FuzzContains: an image that an entry contains is pulled from the host and path of the entry only.
// An entry parses to the same after String, and contains the image that it spells.
func FuzzContains(f *testing.F) {
	for text := range table() {
		f.Add("reg.io", text)
		f.Add("docker.io/library", text)
	}
	for entry := range entries() {
		f.Add(entry, entry+"/shop")
		f.Add(entry, strings.ToUpper(entry)+"/shop")
	}
	fuzz.AddBombs(f, "reg.io/team", "reg.io/teams/x")
	f.Fuzz(func(t *testing.T, entry, text string) {
		defer fuzz.Budget(t, entry, text)()
		prefix, err := ParsePrefix(entry)
		if err != nil {
			return
		}
		if again, err := ParsePrefix(prefix.String()); err != nil || again != prefix {
			t.Errorf("%q is %+v, and %s is %+v, %v", entry, prefix, prefix, again, err)
		}
		if prefix.Path != "" && !prefix.Contains(Reference{Registry: prefix.Registry, Path: prefix.Path}) {
			t.Errorf("%q does not contain itself", entry)
		}
		parsed, err := Parse(text)
		if err != nil || !prefix.Contains(parsed) {
			return
		}
		host, path := pulled(text)
		if host == "" {
			return
		}
		if !strings.EqualFold(host, prefix.Registry) || !strings.HasPrefix(path+"/", strings.TrimPrefix(prefix.Path+"/", "/")) {
			t.Errorf("%q contains %q, which is pulled from %s/%s", entry, text, host, path)
		}
	})
}
