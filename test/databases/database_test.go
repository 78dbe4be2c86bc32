//go:build e2e

package databases

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/api"
	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	instances "github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/test/programs"
)

// name is that of every database: each is in a namespace of its own.
const name = "db"

// databaseKind is what the tests must know of a kind of database.
type databaseKind struct {
	kind, resource string
	// process is the name of the processes of its server.
	process string
	// starts is how long three instances may take to be ready on an idle machine; 0 is any time. Tests
	// fail later: see allowed.
	starts time.Duration
	// look reads what the object says.
	look func(d *database) looks
	// replicates reports whether all replicas receive what the primary writes.
	replicates func(d *database, now looks) bool
}

// looks is what the objects of all kinds of databases say.
type looks struct {
	primary    string
	replicas   int
	generation int64
	conditions []metav1.Condition
}

var postgresqls = databaseKind{
	kind: "PostgreSQL", resource: "postgresqls", process: "postgres",
	look: func(d *database) looks {
		found := d.postgreSQL()
		return looks{found.Status.Primary, int(found.Spec.Replicas), found.Generation, found.Status.Conditions}
	},
	// Commits wait for one of them then.
	replicates: func(d *database, now looks) bool {
		answer, err := d.trySQL(now.primary, "postgres",
			"SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND sync_state IN ('quorum', 'sync')")
		return err == nil && answer == fmt.Sprint(now.replicas-1)
	},
}

// database is a PostgreSQL or a Cache on the cluster.
type database struct {
	databaseKind
	t         *testing.T
	namespace string
	// past are the records of the Lease as they were, the newest last.
	past []string
}

// newDatabase applies a PostgreSQL with some lines of spec, and waits until it is Ready.
func newDatabase(t *testing.T, namespace, spec string) *database {
	t.Helper()
	return newDatabaseOf(t, postgresqls, namespace, spec)
}

// newDatabaseOf is newDatabase for any kind.
func newDatabaseOf(t *testing.T, of databaseKind, namespace, spec string) *database {
	t.Helper()
	d := &database{databaseKind: of, t: t, namespace: namespace}
	made := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}
	d.must(cluster.Create(t.Context(), made))
	t.Cleanup(func() {
		if t.Failed() {
			d.log()
		}
		kubectlAnyway(t, "delete", "namespace", namespace, atMost)
	})
	apply(t, namespace, programs.Share)
	begun := time.Now()
	apply(t, namespace, "apiVersion: database.mainstay.dev/v1\nkind: "+of.kind+"\nmetadata: {name: "+name+"}\nspec:\n"+spec)
	d.awaitReady()
	took := time.Since(begun)
	t.Logf("ready %s after it was applied", took.Round(100*time.Millisecond))
	if allowed := allowed(of.starts); of.starts > 0 && took > allowed {
		t.Errorf("ready %s after it was applied: more than %s", took, allowed)
	}
	return d
}

// log prints the objects of the database.
func (d *database) log() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(d.t.Context()), time.Minute)
	defer cancel()
	for _, arguments := range [][]string{
		{"get", d.resource + ",pods,persistentvolumeclaims,leases,events", "-o", "wide"}, {"describe", d.resource},
		{"logs", "--prefix", "--tail=400", "-l", "app.kubernetes.io/instance=" + name},
	} {
		output, err := command(ctx, "", os.Getenv("KUBECTL"), append([]string{"-n", d.namespace}, arguments...)...)
		d.t.Logf("%v (%v):\n%s", arguments, err, output)
	}
}

func (d *database) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

// get reads an object of the database's namespace.
func (d *database) get(name string, object client.Object) {
	d.t.Helper()
	d.must(cluster.Get(d.t.Context(), types.NamespacedName{Namespace: d.namespace, Name: name}, object))
}

// postgreSQL reads the object.
func (d *database) postgreSQL() *databasev1.PostgreSQL {
	d.t.Helper()
	var found databasev1.PostgreSQL
	d.get(name, &found)
	return &found
}

// isReady reports whether the condition Ready is True for the object as it is.
func (d *database) isReady() bool {
	now := d.look(d)
	for _, condition := range now.conditions {
		if condition.Type == databasev1.ConditionReady {
			return condition.Status == metav1.ConditionTrue && condition.ObservedGeneration == now.generation
		}
	}
	return false
}

func (d *database) awaitReady() {
	d.t.Helper()
	eventually(d.t, d.kind+" is Ready", d.isReady)
}

// patch changes the spec with a JSON merge patch.
func (d *database) patch(spec string) {
	d.t.Helper()
	kubectl(d.t, "-n", d.namespace, "patch", d.resource, name, "--type", "merge", "-p", `{"spec":`+spec+`}`)
}

// lease reads the Lease.
func (d *database) lease() *coordinationv1.Lease {
	d.t.Helper()
	var found coordinationv1.Lease
	d.get(name, &found)
	return &found
}

// record reads what the Lease says, and reports whether it can be read.
func (d *database) record() (election.Record, bool) {
	d.t.Helper()
	var lease coordinationv1.Lease
	if err := cluster.Get(d.t.Context(), types.NamespacedName{Namespace: d.namespace, Name: name}, &lease); err != nil {
		return election.Record{}, false
	}
	text := lease.Annotations[api.AnnotationRecord]
	record, err := election.Decode(text)
	if err == nil && (len(d.past) == 0 || d.past[len(d.past)-1] != text) {
		d.past = append(d.past, text)
	}
	return record, err == nil
}

// writeRecord writes the text of a record into the Lease.
func (d *database) writeRecord(text string) {
	d.t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, api.AnnotationRecord, text)
	d.must(cluster.Patch(d.t.Context(), d.lease(), client.RawPatch(types.MergePatchType, []byte(patch))))
}

// pod reads the pod of an instance.
func (d *database) pod(pod string) *corev1.Pod {
	d.t.Helper()
	var found corev1.Pod
	d.get(pod, &found)
	return &found
}

// pods reads the pods of all instances.
func (d *database) pods() []corev1.Pod {
	d.t.Helper()
	var found corev1.PodList
	d.must(cluster.List(d.t.Context(), &found, client.InNamespace(d.namespace)))
	return slices.DeleteFunc(found.Items, func(pod corev1.Pod) bool { return instances.OrdinalOf(name, pod.Name) < 0 })
}

// sql runs statements as the superuser, in a pod.
func (d *database) sql(pod, database, statements string) {
	d.t.Helper()
	_, err := d.trySQL(pod, database, statements)
	d.must(err)
}

// trySQL runs statements as the superuser, in a pod, and returns the answer.
func (d *database) trySQL(pod, database, statements string) (string, error) {
	return command(d.t.Context(), "", os.Getenv("KUBECTL"), "-n", d.namespace, "exec", pod, "--", "psql", "-Atd", database, "-c", statements)
}
