package setup

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mainstay-platform/mainstay/api"
	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/database/databasecontroller"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/kinds/appconfig"
	"github.com/mainstay-platform/mainstay/internal/kinds/cache"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/injection"
	"github.com/mainstay-platform/mainstay/internal/kinds/postgresql"
	"github.com/mainstay-platform/mainstay/internal/kit/component"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/policy"
	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// someTime is when databases of these tests are looked at.
var someTime = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

// databaseEntries are the rows of the table about databases, and about what the manager and the
// instances write for each other.
func databaseEntries() map[string]entry {
	junk := strings.Repeat("x", 256<<10)
	far := func(before, after string) map[string]string {
		return map[string]string{"bytes": before + junk + after, "objects": before + `","x":` + objects(60_000) + `}`}
	}
	return map[string]entry{
		"annotation `database.mainstay.dev/instance`": {
			accepted: `{"state":"Leading","full":45}`, beyond: far(`{"state":"`, `"}`),
			read: func(_ *testing.T, text string) bool {
				report, err := contract.ParseReport(text)
				return err == nil && report.State != ""
			},
		},
		"annotation `database.mainstay.dev/record`": {
			accepted: `{"system":"s"}`, beyond: far(`{"system":"`, `"}`),
			read: func(_ *testing.T, text string) bool {
				sum := sha256.Sum256([]byte(text))
				_, err := election.Decode(hex.EncodeToString(sum[:8]) + " " + text)
				return err == nil || strings.Contains(err.Error(), "no rule")
			},
		},
		"Secret `NAME-provisions` of a PostgreSQL": {
			accepted: `{"users":[{"name":"shop","verifier":"x"}]}`,
			beyond: map[string]string{"bytes": `{"users":[{"name":"` + strings.Repeat(junk, 5) + `"}]}`, "objects": `{"users":` + objects(300_000) + `}`,
				"nulls": `{"users":[` + strings.Repeat("null,", 100_000) + `null]}`},
			read: func(_ *testing.T, text string) bool {
				provisions, err := contract.ParseProvisions([]byte(text))
				return err == nil && len(provisions.Users) > 0
			},
		},
		"Secret `NAME-certificates` of a database": {
			accepted: "", beyond: map[string]string{"authorities": "3600"},
			read: areAuthoritiesKept,
		},
		"annotation `mainstay.dev/bindings`": {
			accepted: "PostgreSQL/db/shop=r1", beyond: map[string]string{"bytes": "PostgreSQL/db/shop=r1," + junk, "items": strings.Repeat("PostgreSQL/db/shop=r,", 12_000)},
			read: func(_ *testing.T, text string) bool {
				one := appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
				one.Spec.Template.Annotations = map[string]string{api.AnnotationBindings: text}
				db := &databasev1.PostgreSQL{ObjectMeta: metav1.ObjectMeta{Name: "db"}}
				return postgresql.BoundTo(db, []appsv1.Deployment{one}, time.Time{}).Laggard("shop", "r2") != ""
			},
		},
		"annotations `mainstay.dev/grown-at`, `mainstay.dev/grown-from`": {
			accepted: "819/1024", beyond: map[string]string{"digits": strings.Repeat("0", 256<<10) + "1/1024", "a number": "819/1" + strings.Repeat("0", 256<<10)},
			read: hasGrown,
		},
		"annotation `config.mainstay.dev/failed`": {
			accepted: "2,3", beyond: map[string]string{"items": strings.Repeat("2,", 128<<10) + "3"},
			read: func(_ *testing.T, text string) bool { return len(failedRevisions(text)) > 0 },
		},
		"annotations `agent-ID.instrumentation.mainstay.dev/granted`": {
			accepted: "r 2026-11-21T08:00:00Z 1",
			beyond:   map[string]string{"bytes": junk + " 2026-11-21T08:00:00Z 1", "fields": strings.Repeat("r ", 128<<10)},
			read:     func(_ *testing.T, text string) bool { return injection.ParseGrant(text).Revision != "" },
		},
		"ConfigMap with the settings of a database's instances": {
			accepted: `{"pods":["a"]}`,
			beyond: map[string]string{"bytes": `{"pods":["a"],"version":"` + junk + `"}`, "objects": `{"pods":["a"],"x":` + objects(60_000) + `}`,
				"a duration": `{"pods":["a"],"failoverAfter":"` + strings.Repeat("1h", 10_000) + `"}`},
			read: func(_ *testing.T, text string) bool {
				_, err := contract.ParseSettings(text)
				return err == nil
			},
		},
		"passwords of databases": {
			accepted: "secret-01", beyond: map[string]string{"bytes": junk},
			read: func(_ *testing.T, text string) bool { return postgres.CheckPassword(text) == nil },
		},
	}
}

// specEntries are the rows about lists of the specs of databases and AppConfigs: a text is a spec,
// without what it must have beside.
func specEntries() map[string]entry {
	spec := func(accepted, field string, item func(int) string, read func(string) bool) entry {
		return entry{
			accepted: accepted, beyond: map[string]string{"items": longOf(`{"`+field+`":[`, "]}", item)},
			read: func(_ *testing.T, text string) bool { return read(text) },
		}
	}
	parameter := func(name string) map[string]string {
		return map[string]string{"items": longOf(`{"parameters":{`, "}}", numbered(name)), "bytes": `{"parameters":{"app.a":"` + strings.Repeat("x", 256<<10) + `"}}`}
	}
	return map[string]entry{
		"`spec.parameters` of a PostgreSQL": {accepted: `{"parameters":{"work_mem":"8MB"}}`, beyond: parameter(`"app.p%06d":"1"`),
			read: func(_ *testing.T, text string) bool { return isPostgreSQL(text) }},
		"`spec.parameters` of a Cache": {accepted: `{"parameters":{"hz":"20"}}`, beyond: parameter(`"p%06d":"1"`),
			read: func(_ *testing.T, text string) bool { return isCache(text) }},
		"`spec.pgHBA` of a PostgreSQL": spec(`{"pgHBA":["hostssl all all all reject"]}`, "pgHBA",
			numbered(`"hostssl db%06d all all reject"`), isPostgreSQL),
		"`spec.initSQL` of a PostgreSQL":   spec(`{"initSQL":[{"sql":"SELECT 1"}]}`, "initSQL", numbered(`{"sql":"SELECT %06d"}`), isPostgreSQL),
		"`spec.users` of a PostgreSQL":     spec(`{"users":[{"name":"shop"}]}`, "users", numbered(`{"name":"shop%06d"}`), isPostgreSQL),
		"`spec.databases` of a PostgreSQL": spec(`{"databases":[{"name":"shop"}]}`, "databases", numbered(`{"name":"shop%06d"}`), isPostgreSQL),
		"`spec.schema` of an AppConfig": {
			accepted: `{"required":["KEY"]}`,
			beyond: map[string]string{"bytes": `{"title":"` + strings.Repeat("x", 256<<10) + `"}`, "objects": `{"x":` + objects(60_000) + `}`,
				"levels": strings.Repeat(`{"not":`, 5000) + "true" + strings.Repeat("}", 5000), "an expression": `{"pattern":"((a{100}){100}){100}"}`},
			read: func(_ *testing.T, text string) bool {
				config := &configv1.AppConfig{Spec: configv1.AppConfigSpec{Application: "shop", Config: map[string]string{"KEY": "a"}}}
				config.Spec.Schema = &runtime.RawExtension{Raw: []byte(text)}
				appconfig.Default(config)
				return len(appconfig.Validate(config, policy.Environments{})) == 0 &&
					appconfig.RenderingIn(config, policy.None, policy.Environments{}).Problem == ""
			},
		},
	}
}

// databaseLimits are those of databaseEntries.
func databaseLimits() map[string]map[string]pair {
	const rule = `{"leader":{"name":"a","incarnation":"1"}}`
	members := numbered(`{"name":"m%d","incarnation":"1"}`)
	const settings = `{"pods":["a"],`
	return map[string]map[string]pair{
		"annotation `database.mainstay.dev/instance`": {"4 KiB": stretched(4<<10, `{"state":"`, `"}`)},
		"annotation `database.mainstay.dev/record`": {
			"16 KiB":     {`{"system":"s"` + strings.Repeat(" ", 16<<10-17-14) + "}", `{"system":"s"` + strings.Repeat(" ", 16<<10-17-13) + "}"},
			"16 rules":   listed(16, `{"rules":[`, `]}`, func(int) string { return rule }),
			"32 members": listed(32, `{"rules":[{"leader":{"name":"a","incarnation":"1"},"set":[`, `]}]}`, members),
		},
		"Secret `NAME-provisions` of a PostgreSQL": {"1 MiB": stretched(1<<20, `{"users":[{"name":"`, `"}]}`)},
		"Secret `NAME-certificates` of a database": {"32 KiB of": {"32", "33"}},
		"annotation `mainstay.dev/bindings`":       {"8,064": stretched(component.MaxBound, "PostgreSQL/db/shop=r1,", "")},
		"annotations `mainstay.dev/grown-at`, `mainstay.dev/grown-from`": {
			"25": {"2026-11-26T12:00:00.1234Z", "2026-11-26T12:00:00.12345Z"},
			"40": {strings.Repeat("0", 32) + "819/1024", strings.Repeat("0", 33) + "819/1024"},
		},
		"annotation `config.mainstay.dev/failed`":                     {"4,096": stretched(4<<10, "2,", "")},
		"annotations `agent-ID.instrumentation.mainstay.dev/granted`": {"64 each": stretched(64, "", " 2026-11-21T08:00:00Z 1")},
		"passwords of databases":                                      {"256 of": stretched(256, "", "")},
		"ConfigMap with the settings of a database's instances": {
			"64 KiB":         stretched(64<<10, settings+`"parameters":{"app.a":"`, `"}}`),
			"5 pods":         listed(5, `{"pods":[`, `]}`, numbered(`"p%d"`)),
			"216 parameters": listed(216, settings+`"parameters":{`, `}}`, numbered(`"app.p%d":"1"`)),
			"32 lines":       listed(32, settings+`"access":[`, `]}`, numbered(`"hostssl db%d all all reject"`)),
			"20 bytes":       {settings + `"failoverAfter":"` + strings.Repeat("0", 17) + `11s"}`, settings + `"failoverAfter":"` + strings.Repeat("0", 18) + `11s"}`},
		},
	}
}

// specLimits are those of specEntries.
func specLimits() map[string]map[string]pair {
	return map[string]map[string]pair{
		"`spec.parameters` of a PostgreSQL": {
			"200": listed(200, `{"parameters":{`, "}}", numbered(`"app.p%d":"1"`)),
			"8 KiB together": listed(16, `{"parameters":{"app.bc":"","x.y":"",`, "}}",
				func(i int) string { return fmt.Sprintf(`"app.p%03d":"%s"`, i, strings.Repeat("x", 502)) }),
		},
		"`spec.parameters` of a Cache": {
			"20 in": {`{"parameters":{"hz":"` + strings.Repeat("0", 18) + `20"}}`, `{"parameters":{"hz":"` + strings.Repeat("0", 19) + `20"}}`},
		},
		"`spec.pgHBA` of a PostgreSQL": {
			"32 lines": listed(32, `{"pgHBA":[`, `]}`, numbered(`"hostssl db%d all all reject"`)),
			"512 each": {`{"pgHBA":["hostssl all all all ` + strings.Repeat(" ", 512-26) + `reject"]}`, `{"pgHBA":["hostssl all all all ` + strings.Repeat(" ", 512-25) + `reject"]}`},
		},
		"`spec.initSQL` of a PostgreSQL": {
			"16":              listed(16, `{"initSQL":[`, `]}`, numbered(`{"sql":"SELECT %d"}`)),
			"64 KiB together": stretched(64<<10+len(`{"initSQL":[{"sql":""}]}`), `{"initSQL":[{"sql":"SELECT 1 --`, `"}]}`),
		},
		"`spec.users` of a PostgreSQL":     {"1,000": listed(1000, `{"users":[`, `]}`, numbered(`{"name":"shop%d"}`))},
		"`spec.databases` of a PostgreSQL": {"100": listed(100, `{"databases":[`, `]}`, numbered(`{"name":"shop%d"}`))},
		"`spec.schema` of an AppConfig": {
			"64 KiB": stretched(64<<10, `{"title":"`, `"}`), "100 levels": nested(99),
			// The object and its list count too.
			"10,000 values": listed(9998, `{"x":[`, `]}`, func(int) string { return "1" }),
		},
	}
}

// nested returns schemas of so many levels, and of one more.
func nested(count int) pair {
	text := func(depth int) string { return strings.Repeat(`{"not":`, depth) + "false" + strings.Repeat("}", depth) }
	return pair{text(count), text(count + 1)}
}

// isPostgreSQL reports whether a spec is valid, beside what each must have.
func isPostgreSQL(text string) bool {
	db := &databasev1.PostgreSQL{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}}
	if json.Unmarshal([]byte(`{"version":"17","storage":"1Gi"}`), &db.Spec) != nil || json.Unmarshal([]byte(text), &db.Spec) != nil {
		return false
	}
	postgresql.Default(db)
	return len(postgresql.Validate(db)) == 0
}

func isCache(text string) bool {
	c := &databasev1.Cache{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}}
	if json.Unmarshal([]byte(`{"version":"9","memory":"64Mi"}`), &c.Spec) != nil || json.Unmarshal([]byte(text), &c.Spec) != nil {
		return false
	}
	cache.Default(c)
	return len(cache.Validate(c)) == 0
}

// areAuthoritiesKept reports whether a Secret with so many KiB of authorities keeps them.
func areAuthoritiesKept(t *testing.T, text string) bool {
	t.Helper()
	d := &database.Database{Namespace: "shop", Name: "db"}
	stored, _, err := databasecontroller.Certificates(d, nil, someTime)
	if err != nil {
		t.Fatal(err)
	}
	var kib int
	_, _ = fmt.Sscan(text, &kib)
	one := stored[database.AuthorityKey]
	stored[database.AuthorityKey] = append(one, bytes.Repeat([]byte("\n"), max(kib<<10-len(one), 0))...)
	length := len(stored[database.AuthorityKey])
	content, _, err := databasecontroller.Certificates(d, stored, someTime)
	return err == nil && len(content[database.AuthorityKey]) == length
}

// hasGrown reports whether a claim of a database says when it grew; by a text with a slash, from
// what.
func hasGrown(_ *testing.T, text string) bool {
	says := map[string]string{api.AnnotationGrownAt: someTime.Format(time.RFC3339), api.AnnotationGrownFrom: "819/1024"}
	if strings.Contains(text, "/") {
		says[api.AnnotationGrownFrom] = text
	} else {
		says[api.AnnotationGrownAt] = text
	}
	d := &database.Database{Namespace: "shop", Name: "db", Replicas: 1,
		Volumes: []database.Volume{{Name: database.DataVolume, Claim: database.VolumeName}}}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Annotations: says}}
	d.Grow(database.State{Now: someTime, Children: plan.Children{
		d.Ref("PersistentVolumeClaim", database.VolumeName("db", 0)): plan.Found{Object: claim, Ownership: plan.Ours}}})
	return d.Volumes[0].GrownFrom.Size > 0
}

// failedRevisions returns the revisions that the ConfigMap of an AppConfig says have failed.
func failedRevisions(text string) []int64 {
	config := &configv1.AppConfig{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "shop"},
		Spec: configv1.AppConfigSpec{Application: "shop", Config: map[string]string{"A": "b"}}}
	appconfig.Default(config)
	marked := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: config.ConfigMapName(), Annotations: map[string]string{
		configv1.AnnotationRevision: "3", configv1.AnnotationFailed: text}}}
	at := plan.Ref{Kind: "ConfigMap", Namespace: "shop", Name: config.ConfigMapName()}
	return appconfig.Choose(config, appconfig.Observed{Children: plan.Children{at: {Object: marked, Ownership: plan.Ours}}}).Marks.Failed
}
