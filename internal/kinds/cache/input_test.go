package cache

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/test/schema"
)

// mistake is an edit of the smallest Cache, one line of its spec, and the error that a user gets.
type mistake struct{ Edit, Field, Says string }

const (
	wantVersion  = `must be one of "8" and "9", for example "9"`
	wantMemory   = "must be a quantity from 32Mi to 1Ti, for example 256Mi"
	wantReplicas = "must be from 1 to 5"
	wantStorage  = "must be a quantity of at least 64Mi, for example 1Gi"
	wantAfter    = "must be from 5s to 5m, in whole seconds, for example 11s"
	wantPort     = "must be from 1024 to 65535, and not 6379, 8080, 8443 or 9121, which the instances use"
)

// mistakes are the edits of a new Cache.
var mistakes = []mistake{
	{`version: "7"`, "spec.version", `Invalid value: "7": ` + wantVersion},
	{`version: "10"`, "spec.version", `Invalid value: "10": ` + wantVersion},
	{`version: ""`, "spec.version", `Invalid value: "": ` + wantVersion},
	{`version: "9.1"`, "spec.version", `Invalid value: "9.1": ` + wantVersion},
	{`version: latest`, "spec.version", `Invalid value: "latest": ` + wantVersion},
	{`version: "` + strings.Repeat("9", 33) + `"`, "spec.version", "Too long: may not be more than 32 bytes"},
	{`version: 9`, "spec.version", `spec.version in body must be of type string: "integer"`},
	{`image: A B`, "spec.image", `Invalid value: "A B": must be an image reference`},
	{`image: ` + strings.Repeat("a", 513), "spec.image", "Too long: may not be more than 512 bytes"},
	{`imagePullSecrets: [pull]`, "spec.imagePullSecrets[0]", `must be of type object: "string"`},
	{`imagePullSecrets: [{name: a}, {name: a}]`, "spec.imagePullSecrets[1]", `Duplicate value: {"name":"a"}`},
	{`replicas: 0`, "spec.replicas", `Invalid value: 0: ` + wantReplicas},
	{`replicas: 6`, "spec.replicas", `Invalid value: 6: ` + wantReplicas},
	{`replicas: three`, "spec.replicas", `must be of type integer: "string"`},
	// Memory.
	{`memory: 31Mi`, "spec.memory", `Invalid value: "31Mi": ` + wantMemory},
	{`memory: 2Ti`, "spec.memory", `Invalid value: "2Ti": ` + wantMemory},
	{`memory: -1Gi`, "spec.memory", `Invalid value: "-1Gi": ` + wantMemory},
	{`memory: 256 MB`, "spec.memory", `Invalid value: "256 MB": ` + wantMemory},
	{`memory: ""`, "spec.memory", `Invalid value: "": ` + wantMemory},
	{`memory: null`, "spec.memory", `must be of type integer,string: "null"`},
	{`maxMemoryPercent: 9`, "spec.maxMemoryPercent", "should be greater than or equal to 10"},
	{`maxMemoryPercent: 0`, "spec.maxMemoryPercent", "should be greater than or equal to 10"}, // An eviction policy needs a limit.
	{`maxMemoryPercent: 91`, "spec.maxMemoryPercent", "should be less than or equal to 90"},
	{`evictionPolicy: lru`, "spec.evictionPolicy", `Unsupported value: "lru": supported values: "allkeys-lru"`},
	{`resources: {limits: {memory: 1Gi}}`, "spec.resources.limits.memory", "Forbidden: it is computed from spec.memory"},
	{`resources: {requests: {memory: 1Gi}}`, "spec.resources.requests.memory", "Forbidden: it is computed from spec.memory"},
	{`resources: {limits: {cpu: -1}}`, "spec.resources.limits.cpu", `Invalid value: "-1": must be 0 or more`},
	{`minReplicasToWrite: 1`, "spec.minReplicasToWrite", "Invalid value: 1: must be from 0 to 0, less than spec.replicas"},
	{`minReplicasToWrite: 5`, "spec.minReplicasToWrite", "should be less than or equal to 4"},
	{`minReplicasToWrite: -1`, "spec.minReplicasToWrite", "should be greater than or equal to 0"},
	// Persistence.
	{`persistence: {}`, "spec.persistence.storage", "Required value"},
	{`persistence: {storage: 63Mi}`, "spec.persistence.storage", `Invalid value: "63Mi": ` + wantStorage},
	{`persistence: {storage: much}`, "spec.persistence.storage", `Invalid value: "much": ` + wantStorage},
	{`persistence: {storage: 2Pi}`, "spec.persistence.storage", `Invalid value: "2Pi": must be from 64Mi to 1Pi, for example 1Gi`},
	{`persistence: {storage: 511Mi}`, "spec.persistence.storage", `Invalid value: "511Mi": must be at least 512Mi, twice spec.memory`},
	{`persistence: {storage: 1Gi, storageClassName: Fast SSD}`, "spec.persistence.storageClassName", "must be the name of a StorageClass"},
	// Clients.
	{`passwordSecret: My Secret`, "spec.passwordSecret", `Invalid value: "My Secret": must be the name of a Secret`},
	{`passwordSecret: sessions-app`, "spec.passwordSecret", `Invalid value: "sessions-app": must be a Secret of your own: Mainstay makes this one`},
	{`passwordSecret: ` + strings.Repeat("a", 254), "spec.passwordSecret", "Too long: may not be more than 253 bytes"},
	{`plainPort: 80`, "spec.plainPort", `Invalid value: 80: ` + wantPort},
	{`plainPort: 6379`, "spec.plainPort", `Invalid value: 6379: ` + wantPort},
	{`plainPort: 65536`, "spec.plainPort", `Invalid value: 65536: ` + wantPort},
	{`plainPort: "6380"`, "spec.plainPort", `must be of type integer: "string"`},
	{`tls: false`, "spec.plainPort", "Required value: spec.tls is false, so clients need a port without TLS, for example 6380"},
	{`tls: "off"`, "spec.tls", `must be of type boolean: "string"`},
	// Parameters that are ours, dangerous, unknown, or have a bad value.
	{`parameters: {maxmemory: 1gb}`, "spec.parameters[maxmemory]", `Invalid value: "1gb": must not be set: it is set by spec.memory and spec.maxMemoryPercent`},
	{`parameters: {maxmemory: "0"}`, "spec.parameters[maxmemory]", `Invalid value: "0": must not be set: it is set by spec.memory and spec.maxMemoryPercent`},
	{`parameters: {maxmemory-policy: noeviction}`, "spec.parameters[maxmemory-policy]", "must not be set: it is set by spec.evictionPolicy"},
	{`parameters: {appendonly: "no"}`, "spec.parameters[appendonly]", "must not be set: it is set by spec.persistence"},
	{`parameters: {appendfilename: x}`, "spec.parameters[appendfilename]", "must not be set: persistence depends on it"},
	{`parameters: {replicaof: "a 1"}`, "spec.parameters[replicaof]", "must not be set: the instances elect their primary"},
	{`parameters: {replica-read-only: "no"}`, "spec.parameters[replica-read-only]", "must not be set: replication depends on it"},
	{`parameters: {tls-port: "1"}`, "spec.parameters[tls-port]", "must not be set: the certificates are Mainstay's; see spec.tls"},
	{`parameters: {enable-debug-command: "yes"}`, "spec.parameters[enable-debug-command]", "must not be set: it lets clients run commands that endanger the server"},
	{`parameters: {loadmodule: /x.so}`, "spec.parameters[loadmodule]", "must not be set: it runs code in the server"},
	{`parameters: {requirepass: x}`, "spec.parameters[requirepass]", "must not be set: it is set by spec.passwordSecret"},
	{`parameters: {hertz: "10"}`, "spec.parameters[hertz]", "must not be set: it is not one of the parameters that can be set: see docs/spec/cache.md"},
	{`parameters: {HZ: "10"}`, "spec.parameters[HZ]", "must not be set: it is not one of the parameters"},
	{`parameters: {hz: "501"}`, "spec.parameters[hz]", `Invalid value: "501": must be from 1 to 500`},
	{`parameters: {hz: "1\nport 1"}`, "spec.parameters[hz]", `must be from 1 to 500`},
	{`parameters: {notify-keyspace-events: "E\nx"}`, "spec.parameters[notify-keyspace-events]", "must be letters out of KEg$lshzxetdmnA, or empty"},
	{`parameters: {activerehashing: "on"}`, "spec.parameters[activerehashing]", `Invalid value: "on": must be yes or no`},
	{`parameters: {maxmemory-clients: 101%}`, "spec.parameters[maxmemory-clients]", `must be a size of at most 1024gb, for example 100mb, or a percentage`},
	{`parameters: {client-query-buffer-limit: 1kb}`, "spec.parameters[client-query-buffer-limit]",
		`Invalid value: "1kb": must be a size from 1mb to 1024gb, for example 2mb`},
	{`parameters: {proto-max-bulk-len: "1048575"}`, "spec.parameters[proto-max-bulk-len]", `Invalid value: "1048575": must be a size from 1mb`},
	{`parameters: {stream-node-max-bytes: 1025gb}`, "spec.parameters[stream-node-max-bytes]", `Invalid value: "1025gb": must be a size of at most 1024gb`},
	{`parameters: {stream-node-max-bytes: 1tb}`, "spec.parameters[stream-node-max-bytes]", `Invalid value: "1tb": must be a size of at most 1024gb`},
	{`parameters: {dynamic-hz: "yes"}`, "spec.parameters[dynamic-hz]", `Invalid value: "yes": must not be set: the server no longer has this parameter`},
	{`parameters: {busy-reply-threshold: "9001"}`, "spec.parameters[busy-reply-threshold]",
		`Invalid value: "9001": must be from 1 to 9000 milliseconds, at most spec.failover.after less 2s: a server that answers nothing`},
	{`parameters: {busy-reply-threshold: "0"}`, "spec.parameters[busy-reply-threshold]", `Invalid value: "0": must be from 1 to 9000`},
	{`parameters: {lua-time-limit: "60000"}`, "spec.parameters[lua-time-limit]", `Invalid value: "60000": must be from 1 to 9000`},
	{`parameters: {hz: 10}`, "spec.parameters.hz", `must be of type string: "integer"`},
	{`parameters: {` + numbered(101) + `}`, "spec.parameters", "Too many: 101: must have at most 100 items"},
	// Failover, placement and pods.
	{`failover: {after: 4s}`, "spec.failover.after", `Invalid value: "4s": ` + wantAfter},
	{`failover: {after: 301s}`, "spec.failover.after", `Invalid value: "301s": ` + wantAfter},
	{`failover: {after: soon}`, "spec.failover.after", `Invalid value: "soon": ` + wantAfter},
	{`failover: {acceptLoss: -1}`, "spec.failover.acceptLoss", "should be greater than or equal to 0"},
	{`topologySpread: Always`, "spec.topologySpread", `Unsupported value: "Always"`},
	{`nodeSelector: {disk: my ssd}`, "spec.nodeSelector[disk]", `Invalid value: "my ssd": must be a label value`},
	{`tolerations: [{key: a, operator: Is}]`, "spec.tolerations[0].operator", `Unsupported value: "Is"`},
	{`priorityClassName: Very High`, "spec.priorityClassName", "must be the name of a PriorityClass"},
	{`labels: {app: x}`, "spec.labels", "must not set app"},
	{`annotations: {mainstay.dev/adopt: x}`, "spec.annotations", "annotation keys must be [domain/]name"},
	{`runAsUser: 0`, "spec.runAsUser", "should be greater than or equal to 1"},
	{`deletionPolicy: Keep`, "spec.deletionPolicy", `Unsupported value: "Keep": supported values: "Retain", "Delete"`},
	{`reclaim: Keep`, "spec.reclaim", `Unsupported value: "Keep": supported values: "Retain", "Delete"`},
	{`rollout: {window: {start: "22:00"}}`, "spec.rollout.window.end", "Required value"},
	{`restartedAt: now`, "spec.restartedAt", `Invalid value: "now": spec.restartedAt in body must be of type date-time: "now"`},
	{`paused: "no"`, "spec.paused", `must be of type boolean: "string"`},
	{`rollout: {window: {start: "25:00", end: "04:00"}}`, "spec.rollout.window.start", `Invalid value: "25:00"`},
	{`switchoverAt: now`, "spec.switchoverAt", "must be of type date-time"},
	{`hibernated: "no"`, "spec.hibernated", `must be of type boolean: "string"`},
}

// changes are the edits of a Cache that exists, after those before the arrow.
var changes = []mistake{
	{`version: "9" -> version: "8"`, "spec.version", "spec.version can't go back: an earlier server can't read the data of a later one"},
	{`replicas: 1 -> persistence: {storage: 1Gi}`, "spec.persistence", "spec.persistence can't be added or removed"},
	{`persistence: {storage: 1Gi} -> replicas: 1`, "spec.persistence", "spec.persistence can't be added or removed"},
	{`persistence: {storage: 2Gi} -> persistence: {storage: 1Gi}`, "spec.persistence.storage", "can't shrink: volumes only grow"},
	{`persistence: {storage: 1Gi} -> persistence: {storage: 1Gi, storageClassName: fast}`, "spec.persistence.storageClassName",
		"spec.persistence.storageClassName can't change: the volumes exist"},
	{"parameters: {busy-reply-threshold: \"5000\"} -> failover: {after: 5s}\n  parameters: {busy-reply-threshold: \"5000\"}",
		"spec.parameters[busy-reply-threshold]", `Invalid value: "5000": must be from 1 to 3000 milliseconds`},
	{`runAsUser: 1000 -> runAsUser: 70`, "spec.runAsUser", "spec.runAsUser can't change: the data belong to that user"},
}

// names are those that no Cache can have.
var names = []string{strings.Repeat("a", 51), "1cache", "my_cache", "Shop", "cache-", "shop.cache"}

// TestMistakes: what users get wrong is refused with the field, what was given and what is
// accepted, as the API server and the webhook answer it.
func TestMistakes(t *testing.T) {
	checks := schema.New(t, "Cache", func(text []byte) (field.ErrorList, error) {
		c := &databasev1.Cache{}
		if err := yaml.UnmarshalStrict(text, c); err != nil {
			return nil, err
		}
		Default(c)
		return Validate(c), nil
	})
	for _, one := range mistakes {
		checks.Check(schema.Mistake(one), nil, manifest(t, "sessions", one.Edit))
	}
	for _, one := range changes {
		before, after, _ := strings.Cut(one.Edit, " -> ")
		old := manifest(t, "sessions", before)
		if refused := checks.Refuse(nil, old); len(refused) > 0 {
			t.Errorf("%s: %v", before, refused)
		}
		checks.Check(schema.Mistake(one), old, manifest(t, "sessions", after))
	}
	for _, name := range names {
		checks.Check(schema.Mistake{Edit: name, Field: "metadata",
			Says: "metadata.name " + name + " must be a DNS label of at most 50 characters"}, nil, manifest(t, name, "replicas: 1"))
	}
	for _, right := range []string{
		"replicas: 5", "memory: 32Mi", "maxMemoryPercent: 90", "evictionPolicy: volatile-lfu", "persistence: {storage: 512Mi}", "plainPort: 6380",
		`parameters: {hz: "500", maxmemory-clients: 100%, notify-keyspace-events: "", slowlog-log-slower-than: "-1", stream-node-max-bytes: 4kb}`,
		`parameters: {client-query-buffer-limit: 1MB, proto-max-bulk-len: "1048576", stream-node-max-bytes: 1024gb}`, "reclaim: Delete",
		`parameters: {busy-reply-threshold: "9000", lua-time-limit: "1"}`,
	} {
		if problems := checks.Refuse(nil, manifest(t, "sessions", right)); len(problems) > 0 {
			t.Errorf("%s: %v", right, problems)
		}
	}
	eight, nine := manifest(t, "sessions", `version: "8"`), manifest(t, "sessions", `version: "9"`)
	if problems := append(checks.Refuse(nil, eight), checks.Refuse(eight, nine)...); len(problems) > 0 {
		t.Errorf("an upgrade: %v", problems)
	}
}

// manifest returns a Cache as a user writes it: the smallest one, with a line of its spec.
func manifest(t *testing.T, name, line string) map[string]any {
	t.Helper()
	return schema.Manifest(t, "Cache", name, line, `version: "9"`, "memory: 256Mi")
}

// numbered returns so many parameters.
func numbered(count int) string {
	var all []string
	for i := range count {
		all = append(all, fmt.Sprintf(`"p%d": "1"`, i))
	}
	return strings.Join(all, ", ")
}

// TestLengthOfParameters: names and values may have 8 KiB together. No parameters that can be set
// have so many: those of the test are refused one by one.
func TestLengthOfParameters(t *testing.T) {
	for length, want := range map[int]string{8 << 10: "must not be set", 8<<10 + 1: "Too long: may not be more than 8192 bytes"} {
		c := &databasev1.Cache{}
		c.Spec.Parameters = map[string]databasev1.ParameterValue{"a": databasev1.ParameterValue(strings.Repeat("x", length-1))}
		if err := checkParameters(c, field.NewPath("spec", "parameters")).ToAggregate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d bytes: got %.300v, want %q", length, err, want)
		}
	}
}

// TestParametersOnThePage: the page names those parameters that may be set, each once, and those
// that need a restart in the row that says so.
func TestParametersOnThePage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/spec/cache.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| what about | parameters |")
	table, _, _ = strings.Cut(table, "\n\n")
	restarts := map[string]bool{}
	for row := range strings.Lines(table) {
		about, names, _ := strings.Cut(strings.Trim(row, "|\n "), " | ")
		for _, found := range regexp.MustCompile("`([a-z-]+)`").FindAllStringSubmatch(names, -1) {
			if _, again := restarts[found[1]]; again {
				t.Errorf("%s is there twice", found[1])
			}
			restarts[found[1]] = about == "with a restart"
		}
	}
	want := map[string]bool{}
	for name, parameter := range known {
		want[name] = parameter.restarts
	}
	if diff := cmp.Diff(want, restarts); diff != "" {
		t.Error(diff)
	}
}

// TestWarn: what is legal but unwise, each once said and once not.
func TestWarn(t *testing.T) {
	roomy := func(spec *databasev1.CacheSpec) { stores(spec) }
	for field, test := range map[string]struct{ unwise, wise func(*databasev1.CacheSpec) }{
		"spec.hibernated": {hibernates, func(spec *databasev1.CacheSpec) { hibernates(spec); roomy(spec) }},
		"spec.plainPort":  {withoutTLS, roomy},
		"spec.image": {
			func(s *databasev1.CacheSpec) { s.Image = "registry.example.com/valkey:8.1.1-alpine" },
			func(s *databasev1.CacheSpec) { s.Image = "registry.example.com/own:2026-11" },
		},
		"spec.switchoverAt": {
			func(s *databasev1.CacheSpec) { s.SwitchoverAt = new(metav1.NewTime(noon)) },
			func(s *databasev1.CacheSpec) { s.Replicas, s.SwitchoverAt = 2, new(metav1.NewTime(noon)) },
		},
		"spec.minReplicasToWrite": {
			func(s *databasev1.CacheSpec) { s.Replicas, s.MinReplicasToWrite = 2, 1 },
			func(s *databasev1.CacheSpec) { s.Replicas, s.MinReplicasToWrite = 3, 1 },
		},
		"spec.persistence.storage": {func(s *databasev1.CacheSpec) {
			s.Persistence = &databasev1.CachePersistence{Storage: resource.MustParse("767Mi")}
		}, roomy},
	} {
		if warnings := Warn(newCache(test.unwise)); len(warnings) != 1 || !strings.HasPrefix(warnings[0], field+": ") {
			t.Errorf("%s: got %q", field, warnings)
		}
		if warnings := Warn(newCache(test.wise)); len(warnings) > 0 {
			t.Errorf("%s: got %q", field, warnings)
		}
	}
}
