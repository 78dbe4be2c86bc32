package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
)

// databaseInput is a spec that the API server must refuse, and a similar one that it must accept.
// The field and the message are parts of the answer.
type databaseInput struct{ bad, good, field, message string }

var databaseInputs = map[string]databaseInput{
	"an unknown version":    {`version: "11"`, `version: "12"`, "spec.version", `for example "17"`},
	"a minor version":       {`version: "17.2"`, `version: "17"`, "spec.version", `must be one of "12"`},
	"a number as version":   {`version: 17`, `version: "17"`, "spec.version", "must be of type string"},
	"a malformed size":      {`storage: 10 GB`, `storage: 10G`, "spec.storage", "must be a quantity of at least 512Mi, for example 10Gi"},
	"a size that is a word": {`storage: large`, `storage: 1Ti`, "spec.storage", "must be a quantity of at least 512Mi, for example 10Gi"},
	"a size below the least": {`storage: 511Mi`, `storage: 512Mi`, "spec.storage",
		"must be a quantity of at least 512Mi, for example 10Gi"},
	"a small log": {`walStorage: {size: 1Mi}`, `walStorage: {size: 512Mi}`, "spec.walStorage.size", "must be a quantity of at least 512Mi, for example 5Gi"},
	"a log without a size": {`walStorage: {storageClassName: fast}`, `walStorage: {size: 5Gi, storageClassName: fast}`, "spec.walStorage.size",
		"Required value"},
	"no instances":       {`replicas: 0`, `replicas: 1`, "spec.replicas", "must be from 1 to 5"},
	"too many instances": {`replicas: 6`, `replicas: 5`, "spec.replicas", "must be from 1 to 5"},
	"too short a failover": {`failover: {after: 4s}`, `failover: {after: 5s}`, "spec.failover.after",
		"must be from 5s to 5m, in whole seconds, for example 11s"},
	"too long a failover":   {`failover: {after: 5m1s}`, `failover: {after: 5m}`, "spec.failover.after", "must be from 5s to 5m"},
	"a failover of no time": {`failover: {after: soon}`, `failover: {after: 1m30s}`, "spec.failover.after", "must be from 5s to 5m"},
	"a term below 0": {`failover: {acceptLoss: -1}`, `failover: {acceptLoss: 1}`, "spec.failover.acceptLoss",
		"greater than or equal to 0"},
	"an unknown durability": {`durability: Quorum`, `durability: Required`, "spec.durability", `supported values: "Required"`},
	"an image with a space": {`image: A B`, `image: a:b`, "spec.image", "must be an image reference"},
	"a label of ours":       {`labels: {app: x}`, `labels: {team: x}`, "spec.labels", "they are set by Mainstay"},
	"a label of a StatefulSet's": {`labels: {controller-revision-hash: x}`, `labels: {revision: x}`, "spec.labels",
		"they are set by Mainstay"},
	"a label's value": {`labels: {team: my team}`, `labels: {team: my-team}`, "spec.labels", "must be a label value"},
	"an annotation of ours": {`annotations: {mainstay.dev/adopt: x}`, `annotations: {example.com/a: x y}`, "spec.annotations",
		"annotation keys must be"},
	"a schedule that is none": {`backup: {schedule: nightly}`, `backup: {schedule: 0 2 * * *}`, "spec.backup.schedule",
		"for example 0 2 * * *"},
	"a schedule of another kind": {`backup: {schedule: '@every 1h'}`, `backup: {schedule: '@daily'}`, "spec.backup.schedule",
		"must be five fields"},
	"a retention without unit": {`backup: {retention: "30"}`, `backup: {retention: 30d}`, "spec.backup.retention", "for example 30d"},
	"a retention that is too long": {`backup: {retention: 3651d}`, `backup: {retention: 3650d}`, "spec.backup.retention",
		"must be from 1d to 3650d"},
	"an unknown field": {`replcas: 3`, `replicas: 3`, "spec.replcas", "unknown field"},
}

// databaseManifest returns a PostgreSQL as a user would write it.
func databaseManifest(t *testing.T, name, line string) *unstructured.Unstructured {
	t.Helper()
	spec := ""
	for _, given := range []string{line, `version: "17"`, "storage: 1Gi"} {
		if key, _, _ := strings.Cut(given, ":"); !strings.Contains(spec, "\n  "+key+":") {
			spec += "\n  " + given
		}
	}
	object := &unstructured.Unstructured{}
	text := "apiVersion: database.mainstay.dev/v1\nkind: PostgreSQL\nmetadata:\n  name: " + name + "\nspec:" + spec + "\n"
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		t.Fatalf("the case is not valid YAML: %v\n%s", err, text)
	}
	return object
}

// TestDatabaseInput: the answer names the field and what is accepted. No manager runs: the API
// server does all of it.
func TestDatabaseInput(t *testing.T) {
	t.Parallel()
	api, err := dynamic.NewForConfig(cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	in := api.Resource(databasev1.GroupVersion.WithResource("postgresqls")).Namespace(namespace(t))
	how := metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict, DryRun: []string{metav1.DryRunAll}}
	refused := func(name, line, field, message string) {
		_, err := in.Create(t.Context(), databaseManifest(t, name, line), how)
		if err == nil || !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), field) ||
			!strings.Contains(err.Error(), message) {
			t.Errorf("%.60s: the answer lacks %q or %q: %v", line, field, message, err)
		}
	}
	accepted := func(name, line string) {
		if _, err := in.Create(t.Context(), databaseManifest(t, name, line), how); err != nil {
			t.Errorf("%.60s: %v", line, err)
		}
	}
	for name, test := range databaseInputs {
		t.Run(name, func(*testing.T) {
			refused("db", test.bad, test.field, test.message)
			accepted("db", test.good)
		})
	}
	refused(strings.Repeat("a", 51), "replicas: 1", "metadata", "must be a DNS label of at most 50 characters")
	accepted(strings.Repeat("a", 50), "replicas: 1")
}

// TestDatabaseChange: what can't be changed is refused, and what can is not.
func TestDatabaseChange(t *testing.T) {
	t.Parallel()
	db, apart := newDatabase(namespace(t)), newDatabase(namespace(t))
	apart.Spec.WALStorage = &databasev1.WALStorage{Size: resource.MustParse("5Gi")}
	create(t, db)
	create(t, apart)
	for want, change := range map[string]func(*databasev1.PostgreSQL){
		"spec.walStorage can't be added or removed: the log is where it was made": func(db *databasev1.PostgreSQL) { db.Spec.WALStorage = nil },
		"spec.walStorage.size can't shrink":                                       func(db *databasev1.PostgreSQL) { db.Spec.WALStorage.Size = resource.MustParse("4Gi") },
		"spec.walStorage.storageClassName can't change":                           func(db *databasev1.PostgreSQL) { db.Spec.WALStorage.StorageClassName = new("fast") },
	} {
		changed := apart.DeepCopy()
		change(changed)
		if err := cluster.Client.Update(t.Context(), changed); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	for want, change := range map[string]func(*databasev1.PostgreSQL){
		"spec.version can't change: another major version needs a dump": func(db *databasev1.PostgreSQL) { db.Spec.Version = "18" },
		"spec.storage can't shrink": func(db *databasev1.PostgreSQL) {
			db.Spec.Storage = resource.MustParse("600Mi")
		},
		"spec.storageClassName can't change": func(db *databasev1.PostgreSQL) { db.Spec.StorageClassName = new("fast") },
		"spec.walStorage can't be added or removed": func(db *databasev1.PostgreSQL) {
			db.Spec.WALStorage = &databasev1.WALStorage{Size: resource.MustParse("5Gi")}
		},
		"spec.runAsUser can't change": func(db *databasev1.PostgreSQL) { db.Spec.RunAsUser = 70 },
	} {
		changed := db.DeepCopy()
		change(changed)
		if err := cluster.Client.Update(t.Context(), changed); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	grown := db.DeepCopy()
	grown.Spec.Storage = resource.MustParse("2Gi")
	if err := cluster.Client.Update(t.Context(), grown); err != nil {
		t.Error(err)
	}
	grown = apart.DeepCopy()
	grown.Spec.WALStorage.Size = resource.MustParse("6Gi")
	if err := cluster.Client.Update(t.Context(), grown); err != nil {
		t.Error(err)
	}
}

// says returns the status, the reason and the message of a condition of a database.
func says(db *databasev1.PostgreSQL, kind string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		live := &databasev1.PostgreSQL{}
		if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(db), live); err != nil {
			return "", err
		}
		found := meta.FindStatusCondition(live.Status.Conditions, kind)
		if found == nil {
			return "", nil
		}
		return fmt.Sprintf("%s %s %s", found.Status, found.Reason, found.Message), nil
	}
}

// forbid sets a quota that allows none of a resource. There is no controller that counts.
func forbid(t *testing.T, namespace, counted string) {
	t.Helper()
	hard := corev1.ResourceList{corev1.ResourceName(counted): resource.MustParse("0")}
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "none"}, Spec: corev1.ResourceQuotaSpec{Hard: hard},
	}
	create(t, quota)
	quota.Status = corev1.ResourceQuotaStatus{Hard: hard, Used: hard}
	if err := cluster.Client.Status().Update(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	var counts client.Object = plainDeployment(namespace, "counted", "nginx", 1)
	if counted == "persistentvolumeclaims" {
		counts = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "counted"}, Spec: claimOf("1Gi", nil)}
	}
	gomega.NewWithT(t).Eventually(func() bool {
		return apierrors.IsForbidden(cluster.Client.Create(t.Context(), counts, client.DryRunAll))
	}).Should(gomega.BeTrue(), "the API server's admission watches quotas")
}

// TestDatabaseInTheWay: what stands in a database's way is told, and no pod is made meanwhile.
func TestDatabaseInTheWay(t *testing.T) {
	t.Parallel()
	named := func(db *databasev1.PostgreSQL, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: db.Namespace, Name: name}
	}
	for name, test := range map[string]struct {
		obstruct func(t *testing.T, db *databasev1.PostgreSQL)
		says     []string
	}{
		"a foreign object of a child's name": {func(t *testing.T, db *databasev1.PostgreSQL) {
			t.Helper()
			create(t, &appsv1.StatefulSet{ObjectMeta: named(db, "db"), Spec: foreignSet()})
		}, []string{"False Conflict", "StatefulSet", "was not created by this PostgreSQL", "mainstay.dev/adopt=PostgreSQL/db"}},
		"a volume of another PostgreSQL": {func(t *testing.T, db *databasev1.PostgreSQL) {
			t.Helper()
			claim := &corev1.PersistentVolumeClaim{ObjectMeta: named(db, "data-db-1"), Spec: claimOf("1Gi", nil)}
			claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: databasev1.GroupVersion.String(), Kind: "PostgreSQL", Name: "other",
				UID: "uid-of-other", Controller: new(true)}}
			create(t, claim)
		}, []string{"False Conflict", "PersistentVolumeClaim", "data-db-1", "was not created by this PostgreSQL"}},
		"a quota of claims": {func(t *testing.T, db *databasev1.PostgreSQL) {
			t.Helper()
			forbid(t, db.Namespace, "persistentvolumeclaims")
		}, []string{"False Refused", "data-db-0", "exceeded quota: none"}},
		"a parameter that is ours": {func(_ *testing.T, db *databasev1.PostgreSQL) {
			db.Spec.Parameters = map[string]databasev1.ParameterValue{"fsync": "off"}
		}, []string{"False InvalidSpec", `spec.parameters[fsync]: Invalid value: "off": must not be set`}},
		"a schedule that never comes": {func(_ *testing.T, db *databasev1.PostgreSQL) {
			db.Spec.Backup.Schedule = "0 0 30 2 *"
		}, []string{"False InvalidSpec", `spec.backup.schedule: Invalid value: "0 0 30 2 *": never occurs`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := gomega.NewWithT(t)
			db := newDatabase(namespace(t))
			test.obstruct(t, db)
			startManagerWith(t, db.Namespace, nil, withImages)
			create(t, db)
			for _, part := range test.says {
				g.Eventually(says(db, databasev1.ConditionReady)).WithContext(t.Context()).Should(gomega.ContainSubstring(part))
			}
			set := &appsv1.StatefulSet{}
			if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(db), set); !apierrors.IsNotFound(err) {
				g.Expect(err).NotTo(gomega.HaveOccurred())
				g.Expect(set.Spec.Template.Spec.Containers[0].Name).To(gomega.Equal("foreign"), "pods are made")
			}
		})
	}
}

func foreignSet() appsv1.StatefulSetSpec {
	labels := map[string]string{"app": "foreign"}
	return appsv1.StatefulSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "foreign", Image: "foreign:1"}}},
	}}
}

func claimOf(size string, class *string) corev1.PersistentVolumeClaimSpec {
	return corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: class,
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}},
	}
}

// TestDatabaseThatCantGrow: a storage class without expansion refuses a larger volume; the database
// says so in the API server's words, and nothing else changes.
func TestDatabaseThatCantGrow(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	db := newDatabase(namespace(t))
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fixed-" + db.Namespace}, Provisioner: "example.com/fixed"}
	create(t, class)
	db.Spec.StorageClassName, db.Spec.Replicas = new(class.Name), 1
	startManagerWith(t, db.Namespace, nil, withImages)
	create(t, db)
	claim := &corev1.PersistentVolumeClaim{}
	g.Eventually(known(db, "data-db-0", claim, always)).WithContext(t.Context()).Should(gomega.Succeed())
	claim.Status.Phase, claim.Status.Capacity = corev1.ClaimBound, claim.Spec.Resources.Requests
	g.Expect(cluster.Client.Status().Update(t.Context(), claim)).To(gomega.Succeed())
	change(t, db, func(db *databasev1.PostgreSQL) { db.Spec.Storage = resource.MustParse("2Gi") })
	for _, part := range []string{"False CantGrow", "the volume of db-0 can't grow from 1Gi to 2Gi", "must support resize"} {
		g.Eventually(says(db, databasev1.ConditionStorageHealthy)).WithContext(t.Context()).Should(gomega.ContainSubstring(part))
	}
	g.Expect(known(db, "data-db-0", claim, always)(t.Context())).To(gomega.Succeed())
	g.Expect(claim.Spec.Resources.Requests.Storage().String()).To(gomega.Equal("1Gi"))
}
