package postgresql

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/mainstay-platform/mainstay/api"
	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/test/golden"
)

// everything uses every field.
func everything(spec *databasev1.PostgreSQLSpec) {
	spec.Image, spec.Replicas, spec.Durability = "registry.example.com/postgresql:17.10", 3, databasev1.DurabilityPreferred
	spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}}
	spec.StorageClassName = new("fast")
	spec.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
	spec.Parameters = map[string]databasev1.ParameterValue{"work_mem": "64MB", "max_connections": "77"}
	spec.Failover = databasev1.Failover{After: "20s", AcceptLoss: 7}
	spec.TopologySpread, spec.PriorityClassName = databasev1.SpreadRequired, "high"
	spec.NodeSelector = map[string]string{"disk": "ssd"}
	spec.Tolerations = []corev1.Toleration{{Key: "database", Operator: corev1.TolerationOpExists}}
	spec.RunAsUser, spec.DeletionPolicy = 70, databasev1.DeletionDelete
	spec.RestartedAt = new(metav1.NewTime(noon))
	spec.Labels, spec.Annotations = databasev1.Labels{"team": "shop"}, databasev1.Annotations{"example.com/owner": "the shop"}
}

// withWAL puts the log on a volume of its own.
func withWAL(spec *databasev1.PostgreSQLSpec) {
	spec.WALStorage = &databasev1.WALStorage{Size: resource.MustParse("5Gi"), StorageClassName: new("fast")}
}

// TestDesired pins every byte of what is created: a change of a pod template replaces the pods of
// all databases, so it must not happen unnoticed.
func TestDesired(t *testing.T) {
	goldens := map[string]*databasev1.PostgreSQL{
		"minimal.yaml": newDatabase(), "everything.yaml": newDatabase(everything), "smallest-use.yaml": smallestUse(t),
		"wal.yaml": newDatabase(withWAL),
	}
	for name, db := range goldens {
		t.Run(name, func(t *testing.T) {
			golden.Check(t, name, []byte(text(t, Desired(db, empty(), Decide(db, empty())))))
		})
	}
	golden.CheckUnused(t, slices.Collect(maps.Keys(goldens)))
}

// smallestUse is the database of three lines, as issue 18 has it.
func smallestUse(t *testing.T) *databasev1.PostgreSQL {
	t.Helper()
	db := newDatabase()
	db.Name, db.Spec = "test-db", databasev1.PostgreSQLSpec{}
	if err := yaml.UnmarshalStrict([]byte("version: \"14\"\nstorage: \"1Gi\"\nreplicas: 1\n"), &db.Spec); err != nil {
		t.Fatal(err)
	}
	Default(db)
	if problems := Validate(db); len(problems) > 0 {
		t.Fatal(problems)
	}
	return db
}

// text returns the children of a plan in their order.
func text(t *testing.T, wanted plan.Plan) string {
	t.Helper()
	var all strings.Builder
	for _, child := range wanted.Children {
		content, err := yaml.Marshal(child.Object)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&all, "---\n# %T, create once: %t, retain: %t, uncached: %t\n", child.Object, child.CreateOnce, child.Retain, child.Uncached)
		all.Write(content)
	}
	return all.String()
}

// child returns a child of a plan.
func child[T plan.Object](t *testing.T, wanted plan.Plan, name string) T {
	t.Helper()
	for _, one := range wanted.Children {
		if object, is := one.Object.(T); is && object.GetName() == name {
			return object
		}
	}
	t.Fatalf("there is no %T %s", *new(T), name)
	return *new(T)
}

// TestInitialise: new data may be made only where there is no volume at all, not even another's.
func TestInitialise(t *testing.T) {
	db := newDatabase(replicas(3))
	for _, claim := range []string{"data-db-2", "wal-db-2"} {
		checkInitialise(t, db, claim)
	}
}

func checkInitialise(t *testing.T, db *databasev1.PostgreSQL, claim string) {
	t.Helper()
	for name, ownership := range map[string]plan.Ownership{"none": plan.Absent, "ours": plan.Ours, "foreign": plan.Foreign,
		"of an earlier one": plan.Consenting} {
		observed := empty()
		if ownership != plan.Absent {
			observed.Children[Ref(db, "PersistentVolumeClaim", claim)] = plan.Found{
				Ownership: ownership, Object: &corev1.PersistentVolumeClaim{},
			}
		}
		record, err := election.Decode(lease(db, observed).Annotations[api.AnnotationRecord])
		if err != nil || (record.Initialise == "db-0") != (ownership == plan.Absent) {
			t.Errorf("%s: got %+v, %v", name, record, err)
		}
	}
}

// TestFormerVolumes: while there are pods of an earlier database, or volumes that will be deleted
// with it, there is no Lease in which its primary could write, and nothing that needs one. The
// status says so, and it is looked again.
func TestFormerVolumes(t *testing.T) {
	db := newDatabase(replicas(1), withWAL)
	lease, claim := Ref(db, "Lease", "db"), Ref(db, "PersistentVolumeClaim", "data-db-2")
	deleted := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: time.Now()}}}
	for name, test := range map[string]struct {
		found    plan.Found
		pod      *metav1.OwnerReference
		hasLease bool
		waits    bool
	}{
		"no volume":                  {},
		"ours":                       {found: plan.Found{Ownership: plan.Ours, Object: &corev1.PersistentVolumeClaim{}}},
		"of an earlier one":          {found: plan.Found{Ownership: plan.Former, Object: &corev1.PersistentVolumeClaim{}}, waits: true},
		"retained, and deleted":      {found: plan.Found{Ownership: plan.Consenting, Object: deleted}, waits: true},
		"foreign":                    {found: plan.Found{Ownership: plan.Foreign, Object: deleted}},
		"ours, and deleted":          {found: plan.Found{Ownership: plan.Ours, Object: deleted}},
		"a former pod":               {pod: &metav1.OwnerReference{Kind: "StatefulSet", UID: "former", Controller: new(true)}, waits: true},
		"a pod of the user's":        {pod: &metav1.OwnerReference{Kind: "Job", UID: "7", Controller: new(true)}},
		"deleted beside the Lease":   {found: plan.Found{Ownership: plan.Ours, Object: deleted}, hasLease: true},
		"former, beside a new Lease": {found: plan.Found{Ownership: plan.Former, Object: deleted}, hasLease: true},
	} {
		observed := empty()
		observed.Children[claim] = test.found
		if test.pod != nil {
			observed.Pods = []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "db-0", OwnerReferences: []metav1.OwnerReference{*test.pod}}}}
		}
		if test.hasLease {
			observed.Children[lease] = plan.Found{Ownership: plan.Ours, Object: &coordinationv1.Lease{}}
		}
		wanted := Desired(db, observed, Decision{Replicas: 1})
		result := plan.Result{Waits: wanted.Waits}
		status, after := Status(db, observed, Decision{Replicas: 1}, result)
		isSaid := slices.ContainsFunc(status.Conditions, func(one metav1.Condition) bool {
			return strings.Contains(one.Message, "the database begins when what is left of an earlier one is deleted: ")
		})
		if isSaid != test.waits || test.waits && after != database.LookAgain {
			t.Errorf("%s: %+v; looked again after %s", name, status.Conditions, after)
		}
		for _, child := range wanted.Children {
			switch child.Object.(type) {
			case *coordinationv1.Lease, *corev1.PersistentVolumeClaim, *appsv1.StatefulSet:
				if result.Blocks(child.Needs) != test.waits {
					t.Errorf("%s: %T waits: %t", name, child.Object, !test.waits)
				}
			}
		}
	}
}

// TestWhatStays: an upgrade of Mainstay changes no pod, and growth does not change the template of
// claims, which can't be changed.
func TestWhatStays(t *testing.T) {
	db := newDatabase(withWAL)
	first := child[*appsv1.StatefulSet](t, Desired(db, empty(), Decision{Replicas: 1}), "db")
	observed := running(db, 1)
	observed.Children[Ref(db, "StatefulSet", db.Name)] = plan.Found{Ownership: plan.Ours, Object: first}
	observed.InstanceImage = "mainstay:2.0"
	db.Spec.Storage, db.Spec.WALStorage = resource.MustParse("2Gi"), &databasev1.WALStorage{Size: resource.MustParse("9Gi"), StorageClassName: new("fast")}
	wanted := Desired(db, observed, Decision{Replicas: 1})
	later := child[*appsv1.StatefulSet](t, wanted, "db")
	if image := later.Spec.Template.Spec.InitContainers[0].Image; image != "mainstay:1.0" {
		t.Errorf("the program is that of %s", image)
	}
	if size := later.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests.Storage(); size.String() != "1Gi" {
		t.Errorf("the template of claims has %s", size)
	}
	if size := later.Spec.VolumeClaimTemplates[1].Spec.Resources.Requests.Storage(); size.String() != "5Gi" {
		t.Errorf("the template of claims for the log has %s", size)
	}
	if size := child[*corev1.PersistentVolumeClaim](t, wanted, "wal-db-0").Spec.Resources.Requests.Storage(); size.String() != "9Gi" {
		t.Errorf("the claim for the log has %s", size)
	}
	if size := child[*corev1.PersistentVolumeClaim](t, wanted, "data-db-0").Spec.Resources.Requests.Storage(); size.String() != "2Gi" {
		t.Errorf("the claim has %s", size)
	}
}

// TestProgramComesWithItsTemplate: pods that are replaced anyway run the program of this release,
// which knows the arguments that this release gives it.
func TestProgramComesWithItsTemplate(t *testing.T) {
	db := newDatabase()
	first := child[*appsv1.StatefulSet](t, Desired(db, empty(), Decision{Replicas: 1}), "db")
	observed := running(db, 1)
	observed.InstanceImage = "mainstay:2.0"
	image := func(what, want string) *appsv1.StatefulSet {
		t.Helper()
		observed.Children[Ref(db, "StatefulSet", db.Name)] = plan.Found{Ownership: plan.Ours, Object: first}
		later := child[*appsv1.StatefulSet](t, Desired(db, observed, Decision{Replicas: 1}), "db")
		if got := later.Spec.Template.Spec.InitContainers[0].Image; got != want {
			t.Errorf("%s: the program is that of %s, want %s", what, got, want)
		}
		return later
	}
	first.Spec.Template.Spec.Containers[0].Args = append(first.Spec.Template.Spec.Containers[0].Args, "--edited")
	image("somebody edited the pods' template", "mainstay:1.0")
	first.Annotations[api.AnnotationTemplate] = "of an earlier release, with fewer arguments"
	image("this release changes the template", "mainstay:2.0")
	db.Spec.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
	first = image("a user changes the spec", "mainstay:2.0")
	observed.InstanceImage = "mainstay:3.0"
	image("the next release", "mainstay:2.0")
}

// TestEditedProgram: an edited image of the program is put back, also by a later release. Earlier
// releases did not note the image.
func TestEditedProgram(t *testing.T) {
	for name, test := range map[string]struct{ live, noted, installed, want string }{
		"as it was":                    {"mainstay:1.0", "mainstay:1.0", "mainstay:1.0", "mainstay:1.0"},
		"as it was, after an upgrade":  {"mainstay:1.0", "mainstay:1.0", "mainstay:2.0", "mainstay:1.0"},
		"of an earlier release":        {"mainstay:0.9", "", "mainstay:1.0", "mainstay:0.9"},
		"edited":                       {"edited:1.0", "mainstay:1.0", "mainstay:1.0", "mainstay:1.0"},
		"edited, after an upgrade":     {"edited:1.0", "mainstay:1.0", "mainstay:2.0", "mainstay:1.0"},
		"edited to what is installed":  {"mainstay:2.0", "mainstay:1.0", "mainstay:2.0", "mainstay:2.0"},
		"what is noted was edited":     {"mainstay:1.0", "edited:1.0", "mainstay:1.0", "mainstay:1.0"},
		"a container without an image": {"", "", "mainstay:1.0", "mainstay:1.0"},
	} {
		db := newDatabase(pooled)
		observed := withPooler(db, running(db, 1), -1)
		first := Desired(db, observed, Decision{Replicas: 1})
		set, pooler := child[*appsv1.StatefulSet](t, first, "db"), child[*appsv1.Deployment](t, first, "db-pooler")
		set.Spec.Template.Spec.InitContainers[0].Image, pooler.Spec.Template.Spec.InitContainers[0].Image = test.live, test.live
		for _, annotations := range []map[string]string{set.Annotations, pooler.Annotations} {
			if annotations[api.AnnotationProgram] = test.noted; test.noted == "" {
				delete(annotations, api.AnnotationProgram)
			}
		}
		observed.Children[Ref(db, "StatefulSet", "db")] = plan.Found{Ownership: plan.Ours, Object: set}
		observed.Children[Ref(db, "Deployment", "db-pooler")] = plan.Found{Ownership: plan.Ours, Object: pooler}
		observed.InstanceImage = test.installed
		later := Desired(db, observed, Decision{Replicas: 1})
		set, pooler = child[*appsv1.StatefulSet](t, later, "db"), child[*appsv1.Deployment](t, later, "db-pooler")
		for what, got := range map[string][2]string{
			"instances":  {set.Spec.Template.Spec.InitContainers[0].Image, set.Annotations[api.AnnotationProgram]},
			"the pooler": {pooler.Spec.Template.Spec.InitContainers[0].Image, pooler.Annotations[api.AnnotationProgram]},
		} {
			if got != [2]string{test.want, test.want} {
				t.Errorf("%s: %s have, and note, %q, want %s", name, what, got, test.want)
			}
		}
	}
}

// TestImageOfTheInstallation: another image of the installation replaces the pods of databases, and
// of poolers, that name none. docs/versioning.md says so.
func TestImageOfTheInstallation(t *testing.T) {
	for name, test := range map[string]struct {
		image     string
		isChanged bool
	}{
		"without spec.image": {"", true},
		"with spec.image":    {"registry.example.com/own:17.1", false},
	} {
		db := newDatabase(pooled)
		db.Spec.Image, db.Spec.Pooler.Image = test.image, test.image
		first, later := withPooler(db, running(db, 1), -1), withPooler(db, running(db, 1), -1)
		later.Catalogue = map[string]string{"17": "registry.example.com/postgresql:17.12"}
		later.PoolerImage = "registry.example.com/pgbouncer:1.25"
		before, after := Desired(db, first, Decision{Replicas: 1}), Desired(db, later, Decision{Replicas: 1})
		template := func(of plan.Plan) [2]string {
			return [2]string{
				child[*appsv1.StatefulSet](t, of, "db").Annotations[api.AnnotationTemplate],
				child[*appsv1.Deployment](t, of, "db-pooler").Annotations[api.AnnotationTemplate],
			}
		}
		was, is := template(before), template(after)
		if (was[0] != is[0]) != test.isChanged || (was[1] != is[1]) != test.isChanged {
			t.Errorf("%s: the templates were %q and are %q, changed is to be %t", name, was, is, test.isChanged)
		}
	}
}

// TestWithoutImage: what runs goes on, and nothing is made that could not run.
func TestWithoutImage(t *testing.T) {
	db, observed := newDatabase(), empty()
	observed.Catalogue = nil
	wanted := Desired(db, observed, Decision{Replicas: 1})
	if !slices.Contains(wanted.Keep, Ref(db, "StatefulSet", "db")) || strings.Contains(text(t, wanted), "PersistentVolumeClaim") {
		t.Errorf("got %s", text(t, wanted))
	}
}

// TestToldSettings: the instances accept the settings, and only the remaining ones are named.
func TestToldSettings(t *testing.T) {
	db := newDatabase(replicas(2))
	decided := Decision{Replicas: 3, SwitchFrom: 4, SwitchTo: "db-1"}
	told, err := contract.ParseSettings(settings(db, empty(), decided).Data[contract.SettingsKey])
	if err != nil || !slices.Equal(told.Pods, []string{"db-0", "db-1"}) || told.SwitchFrom != 4 || told.SwitchTo != "db-1" ||
		told.Durability != "Preferred" || told.FailoverAfter != "11s" {
		t.Errorf("got %+v, %v", told, err)
	}
}

// TestParameters: what the user sets counts, the rest follows from the limits, and only what needs
// a start of the server changes the pods.
func TestParameters(t *testing.T) {
	set := func(name, value string) func(*databasev1.PostgreSQLSpec) {
		return func(s *databasev1.PostgreSQLSpec) {
			s.Parameters = map[string]databasev1.ParameterValue{name: databasev1.ParameterValue(value)}
		}
	}
	all := parameters(newDatabase(limit("1Gi"), set("work_mem", "5MB")))
	if all["work_mem"] != "5MB" || all["shared_buffers"] != "256MB" {
		t.Errorf("got %v", all)
	}
	template := func(changes ...func(*databasev1.PostgreSQLSpec)) string {
		return podTemplate(newDatabase(changes...), empty()).Annotations[api.AnnotationParameters]
	}
	plain, more, fewer := template(), template(set("max_connections", "50")), template(set("max_connections", "40"))
	if plain != "" || template(set("work_mem", "5MB")) != "" || more == "" || more == fewer {
		t.Errorf("got %q, %q, %q", plain, more, fewer)
	}
	more, fewer = template(set("pg_stat_statements.max", "20000")), template(set("pg_stat_statements.max", "10000"))
	if more == "" || more == fewer || template(set("pg_stat_statements.track", "all")) != "" {
		t.Errorf("of an extension: got %q, %q", more, fewer)
	}
}

// TestPodsNeedWhatIsOurs: a foreign object under the name of anything that pods use keeps them from
// being made.
func TestPodsNeedWhatIsOurs(t *testing.T) {
	db := newDatabase(withWAL)
	var needs []plan.Ref
	wanted := Desired(db, empty(), Decision{Replicas: 1})
	for _, one := range wanted.Children {
		if _, is := one.Object.(*appsv1.StatefulSet); is {
			needs = one.Needs
		}
	}
	// What pods do without.
	others := []string{"ConfigMap db-ca", "Service db-rw", "Service db-ro", "Service db-r", "NetworkPolicy db", "StatefulSet db"}
	for _, one := range wanted.Children {
		kind := strings.TrimPrefix(fmt.Sprintf("%T", one.Object), "*v1.")
		name := kind + " " + one.Object.GetName()
		if slices.Contains(needs, Ref(db, kind, one.Object.GetName())) == slices.Contains(others, name) {
			t.Errorf("%s: pods need it: %t", name, !slices.Contains(others, name))
		}
	}
}

// TestAccessOfSettings: the instances get the lines of spec.pgHBA.
func TestAccessOfSettings(t *testing.T) {
	db := newDatabase(func(spec *databasev1.PostgreSQLSpec) { spec.PgHBA = []string{"hostssl all all all reject"} })
	observed := running(db, 1)
	parsed, err := contract.ParseSettings(settings(db, observed, Decide(db, observed)).Data[contract.SettingsKey])
	if err != nil || !slices.Equal(parsed.Access, db.Spec.PgHBA) {
		t.Errorf("got %q, %v", parsed.Access, err)
	}
}

// TestLargestSettings: the instances can read the settings of the largest spec that is accepted,
// with the parameters that follow from the limits.
func TestLargestSettings(t *testing.T) {
	many := func(count, length int) map[string]databasev1.ParameterValue {
		all := map[string]databasev1.ParameterValue{}
		for i := range count {
			all[fmt.Sprintf("a.b%d", i)] = databasev1.ParameterValue(strings.Repeat("<", length))
		}
		return all
	}
	for name, set := range map[string]map[string]databasev1.ParameterValue{"many": many(200, 35), "long": many(8, 1019)} {
		db := newDatabase(replicas(5), limit("8Gi"), func(spec *databasev1.PostgreSQLSpec) {
			spec.Parameters = set
			spec.PgHBA = slices.Repeat([]string{fmt.Sprintf("%-512s", "hostssl all all all reject")}, 32)
			spec.Resources.Limits[corev1.ResourceCPU] = resource.MustParse("8")
		})
		if problems := Validate(db); len(problems) > 0 {
			t.Fatal(problems)
		}
		observed := running(db, 5)
		parsed, err := contract.ParseSettings(settings(db, observed, Decide(db, observed)).Data[contract.SettingsKey])
		if err != nil || len(parsed.Parameters) != len(set)+9 {
			t.Errorf("%s: got %d parameters, %v", name, len(parsed.Parameters), err)
		}
	}
}

// TestAuthorityIsStored: what gives clients an authority needs the Secret with its certificates,
// which another owner may have.
func TestAuthorityIsStored(t *testing.T) {
	db := newDatabase(pooled)
	db.Spec.Users = []databasev1.User{{Name: "orders"}}
	observed := withPooler(db, running(db, 1), 1)
	observed.Provisions, observed.Users = []byte("{}"), map[string]ObservedUser{"orders": {Password: "p", Verifier: "v"}}
	certificates := Ref(db, "Secret", "db-certificates")
	var told []string
	for _, one := range Desired(db, observed, Decision{Replicas: 1}).Children {
		if slices.Contains(one.Needs, certificates) {
			told = append(told, one.Object.GetName())
		}
	}
	want := []string{"db", "db-ca", "db-config", "db-orders", "db-pooler", "db-pooler", "db-provisions"}
	if slices.Sort(told); !slices.Equal(told, want) {
		t.Errorf("these need it: %v, want %v", told, want)
	}
}
