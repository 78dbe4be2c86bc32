package postgresql

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
)

// TestValidate: each rule, refused once; what is accepted is in the golden files.
func TestValidate(t *testing.T) {
	for want, change := range map[string]func(*databasev1.PostgreSQLSpec){
		`spec.version: Unsupported value: "11": supported values: "12"`: func(s *databasev1.PostgreSQLSpec) { s.Version = "11" },
		`spec.image: Invalid value: "A:b:c"`:                            func(s *databasev1.PostgreSQLSpec) { s.Image = "A:b:c" },
		`spec.replicas: Invalid value: 6: must be from 1 to 5`:          replicas(6),
		`spec.storage: Invalid value: "1Mi": must be from 512Mi to 1Pi`: func(s *databasev1.PostgreSQLSpec) { s.Storage = resource.MustParse("1Mi") },
		`spec.walStorage.size: Invalid value: "1Mi": must be from 512Mi to 1Pi`: func(s *databasev1.PostgreSQLSpec) {
			s.WALStorage = &databasev1.WALStorage{Size: resource.MustParse("1Mi")}
		},
		`spec.failover.after: Invalid value: "4s": must be from 5s to 5m`:                     func(s *databasev1.PostgreSQLSpec) { s.Failover.After = "4s" },
		`spec.parameters[fsync]: Invalid value: "off": must not be set`:                       parameter("fsync", "off"),
		`spec.parameters[workmem]: Invalid value: "1MB": is not a parameter of PostgreSQL 17`: parameter("workmem", "1MB"),
		`spec.parameters[max_connections]: Invalid value: "many"`:                             parameter("max_connections", "many"),
		`spec.failover.acceptLoss: Invalid value: -1`:                                         func(s *databasev1.PostgreSQLSpec) { s.Failover.AcceptLoss = -1 },
		`spec.resources.limits.memory: Invalid value: "64Mi": must be at lea`:                 limit("64Mi"),
	} {
		problems := Validate(newDatabase(change))
		if len(problems) != 1 || !strings.HasPrefix(problems[0].Error(), want) {
			t.Errorf("got %v, want %s", problems, want)
		}
	}
	for _, db := range []*databasev1.PostgreSQL{newDatabase(), newDatabase(everything), newDatabase(limit("192Mi"))} {
		if problems := Validate(db); len(problems) > 0 {
			t.Error(problems)
		}
	}
}

func parameter(name string, value databasev1.ParameterValue) func(*databasev1.PostgreSQLSpec) {
	return func(s *databasev1.PostgreSQLSpec) { s.Parameters = map[string]databasev1.ParameterValue{name: value} }
}

// TestTooManyParameters: what would take long to check is refused before.
func TestTooManyParameters(t *testing.T) {
	many := newDatabase(func(s *databasev1.PostgreSQLSpec) {
		s.Parameters = map[string]databasev1.ParameterValue{}
		for i := range 201 {
			s.Parameters[strings.Repeat("a", i+1)] = "1"
		}
	})
	long := newDatabase(parameter("work_mem", databasev1.ParameterValue(strings.Repeat("1", 9000))))
	for _, db := range []*databasev1.PostgreSQL{many, long} {
		if problems := Validate(db); len(problems) != 1 || len(problems[0].Error()) > 300 {
			t.Errorf("got %.300v", problems)
		}
	}
}

func limit(memory string) func(*databasev1.PostgreSQLSpec) {
	return func(s *databasev1.PostgreSQLSpec) {
		s.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)}
	}
}

// TestDefault: the durability follows from the number of instances, and nothing is filled in twice.
func TestDefault(t *testing.T) {
	for count, want := range map[int32]databasev1.Durability{1: "Preferred", 2: "Preferred", 3: "Required", 5: "Required"} {
		db := newDatabase(replicas(count))
		if before := db.DeepCopy(); db.Spec.Durability != want {
			t.Errorf("%d: got %s", count, db.Spec.Durability)
		} else if Default(db); before.Spec.Durability != db.Spec.Durability || before.Spec.Replicas != db.Spec.Replicas {
			t.Errorf("%d: the second time, got %+v", count, db.Spec)
		}
	}
}

// TestWarn: what is legal but unwise.
func TestWarn(t *testing.T) {
	for want, change := range map[string]func(*databasev1.PostgreSQLSpec){
		"PostgreSQL 14 has had no fixes since 2026-11-12": func(s *databasev1.PostgreSQLSpec) { s.Version = "14" },
		"no write is acknowledged while one of them is away": func(s *databasev1.PostgreSQLSpec) {
			s.Replicas, s.Durability = 2, databasev1.DurabilityRequired
		},
		"so there is none to hand over to": func(s *databasev1.PostgreSQLSpec) { s.SwitchoverAt = new(metav1.Now()) },
		"a failover loses the writes that no replica has received yet": func(s *databasev1.PostgreSQLSpec) {
			s.Replicas, s.Durability = 3, databasev1.DurabilityAsynchronous
		},
	} {
		if got := Warn(newDatabase(change), empty().Catalogue); len(got) != 1 || !strings.Contains(got[0], want) {
			t.Errorf("got %q, want %s", got, want)
		}
	}
	if got := Warn(newDatabase(replicas(3)), empty().Catalogue); len(got) != 0 {
		t.Errorf("got %q", got)
	}
}

// TestWarnOfPooler: the removal of a pooler that applications use replaces their pods.
func TestWarnOfPooler(t *testing.T) {
	var all []appsv1.Deployment
	for name, text := range map[string]string{
		"shop": "Cache/cache=1,PostgreSQL/db=1:db-pooler", "orders": "PostgreSQL/db/orders=1:db-orders", "other": "PostgreSQL/db2=1", "none": "",
		"foreign": "PostgreSQL/db=" + strings.Repeat("x", 1<<20),
	} {
		one := appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}}
		one.Spec.Template.Annotations = map[string]string{"mainstay.dev/bindings": text}
		all = append(all, one)
	}
	used := newDatabase(pooled)
	used.Status.Pooler = &databasev1.PoolerStatus{SecretName: "db-pooler"}
	const warning = "spec.pooler: the pods of the WebApps that are bound to this PostgreSQL (orders, shop) are replaced, and then connect to the server itself. " +
		"The pooler is deleted after 5 minutes, or later, when all have done that"
	for name, test := range map[string]struct {
		db, before *databasev1.PostgreSQL
		all        []appsv1.Deployment
		want       string
	}{
		"it is removed":       {newDatabase(), used, all, warning},
		"it stays":            {newDatabase(pooled), used, all, ""},
		"there was none":      {newDatabase(), newDatabase(), all, ""},
		"nothing uses it yet": {newDatabase(), newDatabase(pooled), all, ""},
		"nothing is bound":    {newDatabase(), used, nil, ""},
	} {
		if got := strings.Join(WarnOfPooler(test.db, test.before, test.all), "; "); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

// TestWarnOfTheStartUpRace: a minor version that may acknowledge a commit without a replica right
// after a start is warned of, where the image shows the version and the durability depends on it.
func TestWarnOfTheStartUpRace(t *testing.T) {
	asynchronous := func(s *databasev1.PostgreSQLSpec) { s.Durability = databasev1.DurabilityAsynchronous }
	of := func(version, image string, count int32) *databasev1.PostgreSQL {
		db := newDatabase(replicas(count), func(s *databasev1.PostgreSQLSpec) { s.Version, s.Image = version, image })
		return db
	}
	lossy := of("17", "docker.io/library/postgres:17.4", 3)
	asynchronous(&lossy.Spec)
	for name, test := range map[string]struct {
		db   *databasev1.PostgreSQL
		want string
	}{
		"before the fix":              {of("17", "docker.io/library/postgres:17.4", 3), "PostgreSQL 17.4 may acknowledge a commit without waiting for a replica, which 17.5 fixes"},
		"with a suffix":               {of("15", "example.com/pg:15.12-bookworm", 2), "PostgreSQL 15.12 may"},
		"with a v and a digest":       {of("13", "example.com/pg:v13.20@sha256:"+strings.Repeat("a", 64), 3), "PostgreSQL 13.20 may"},
		"of the installation":         {of("16", "", 3), "PostgreSQL 16.8 may"},
		"never fixed":                 {of("12", "example.com/pg:12.22", 3), "PostgreSQL 12 may acknowledge a commit without waiting for a replica, which no release fixes"},
		"with the fix":                {of("17", "docker.io/library/postgres:17.5", 3), ""},
		"no minor version":            {of("17", "docker.io/library/postgres:17", 3), ""},
		"no version":                  {of("17", "example.com/pg:2026-01", 3), ""},
		"a tag of something":          {of("17", "example.com/pg:17.4.1", 3), ""},
		"never had it":                {of("18", "docker.io/library/postgres:18.0", 3), ""},
		"one instance":                {of("17", "docker.io/library/postgres:17.4", 1), ""},
		"no durability depends on it": {lossy, "a failover loses the writes"},
		"the image of a version":      {of("14", "docker.io/library/postgres:17.4", 3), ""},
	} {
		got := ""
		for _, warning := range Warn(test.db, map[string]string{"16": "docker.io/library/postgres:16.8"}) {
			if !strings.Contains(warning, "has had no fixes") {
				got += warning
			}
		}
		if (got != "") != (test.want != "") || !strings.Contains(got, test.want) {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

// TestMetadata: what Mainstay and Kubernetes set on children is no user's to set.
func TestMetadata(t *testing.T) {
	for key, accepted := range map[string]bool{
		"team": true, "app.kubernetes.io/version": true, "app": false, "app.kubernetes.io/name": false, "database.mainstay.dev/role": false,
		"controller-revision-hash": false, "statefulset.kubernetes.io/pod-name": false, "apps.kubernetes.io/pod-index": false,
		"pod-template-hash": false,
	} {
		problems := Validate(newDatabase(func(s *databasev1.PostgreSQLSpec) { s.Labels = databasev1.Labels{key: "x"} }))
		if (len(problems) == 0) != accepted || !accepted && !strings.HasPrefix(problems[0].Error(), "spec.labels["+key+"]: Forbidden: ") {
			t.Errorf("label %s: got %v", key, problems)
		}
	}
	for key, accepted := range map[string]bool{
		"example.com/owner": true, "config.mainstay.dev/reload": true, "instrumentation.mainstay.dev/inject": true,
		"mainstay.dev/adopt": false, "config.mainstay.dev/observed": false, "deployment.kubernetes.io/revision": false,
	} {
		problems := Validate(newDatabase(func(s *databasev1.PostgreSQLSpec) { s.Annotations = databasev1.Annotations{key: "x"} }))
		if (len(problems) == 0) != accepted || !accepted && !strings.HasPrefix(problems[0].Error(), "spec.annotations["+key+"]: Forbidden: ") {
			t.Errorf("annotation %s: got %v", key, problems)
		}
	}
}
