package faults

import (
	"context"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/api"
	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/test/faults/campaign"
)

// What the scenarios of databases do as others would: the controllers of StatefulSets and volumes,
// and the program in each pod.

func pod(database string, ordinal int) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", database, ordinal)}}
}

func claim(database string, ordinal int) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("data-%s-%d", database, ordinal)}}
}

func database(name string) *databasev1.PostgreSQL {
	return &databasev1.PostgreSQL{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// bind gives a claim a volume of the size that it asks for. No controller here would ever take away
// the finalizer that the API server adds.
func bind(database string, ordinal int) action {
	return func(ctx context.Context, c client.Client, namespace string) error {
		bound := claim(database, ordinal)
		if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: bound.Name}, bound); err != nil {
			return err
		}
		if len(bound.Finalizers) > 0 {
			bound.Finalizers = nil
			if err := c.Update(ctx, bound); err != nil {
				return err
			}
		}
		bound.Status.Phase = corev1.ClaimBound
		bound.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: bound.Spec.Resources.Requests[corev1.ResourceStorage]}
		return c.Status().Update(ctx, bound)
	}
}

// observe lets a StatefulSet say that it has seen its template, as a revision.
func observe(database, revision string) action {
	return func(ctx context.Context, c client.Client, namespace string) error {
		var set appsv1.StatefulSet
		if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: database}, &set); err != nil {
			return err
		}
		set.Status = appsv1.StatefulSetStatus{ObservedGeneration: set.Generation, Replicas: *set.Spec.Replicas, UpdateRevision: revision}
		return c.Status().Update(ctx, &set)
	}
}

// startPod creates the pod of an instance, which takes connections and says what it is.
func startPod(database string, ordinal int, revision string, report contract.Report) action {
	return func(ctx context.Context, c client.Client, namespace string) error {
		made := pod(database, ordinal)
		made.Namespace = namespace
		made.Labels = map[string]string{
			api.LabelOwnerKind: "postgresql", api.LabelOwner: database, api.LabelManagedBy: api.ManagedBy,
			appsv1.ControllerRevisionHashLabelKey: revision,
		}
		made.Annotations = map[string]string{api.AnnotationInstance: encoded(report)}
		made.Spec.Containers = []corev1.Container{{Name: "postgres", Image: "registry.example.com/postgresql:17.11"}}
		if err := c.Create(ctx, made); err != nil {
			return err
		}
		made.Status.Phase = corev1.PodRunning
		made.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		return c.Status().Update(ctx, made)
	}
}

// report lets an instance of the retained database say something else.
func report(ordinal int, said contract.Report) action {
	annotations := map[string]string{api.AnnotationInstance: encoded(said)}
	return merge(pod(retained, ordinal), encoded(map[string]any{"metadata": map[string]any{"annotations": annotations}}))
}

// renew gives the pod of an instance another revision, as if it had been replaced.
func renew(database string, ordinal int, revision string) action {
	labels := map[string]string{appsv1.ControllerRevisionHashLabelKey: revision}
	return merge(pod(database, ordinal), encoded(map[string]any{"metadata": map[string]any{"labels": labels}}))
}

// lead writes the record of a leader into the Lease. A commit waits for one of the others.
func lead(database string, term uint64, leader int, others ...int) action {
	return func(ctx context.Context, c client.Client, namespace string) error {
		member := func(ordinal int) election.Member {
			return election.Member{Name: pod(database, ordinal).Name, Incarnation: "1"}
		}
		rule := election.Rule{Leader: member(leader), Acks: min(1, len(others))}
		for _, other := range others {
			rule.Set = append(rule.Set, member(other))
		}
		text, err := election.Record{
			System: "1", Term: term, Seq: term, Timeline: 1, Open: true, Holder: election.Holder{Member: member(leader)},
			Rules: []election.Rule{rule},
		}.Encode()
		if err != nil {
			return err
		}
		annotations := map[string]string{api.AnnotationRecord: text}
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: database}}
		return merge(lease, encoded(map[string]any{"metadata": map[string]any{"annotations": annotations}}))(ctx, c, namespace)
	}
}

func primary(term uint64, cause election.Cause) contract.Report {
	return contract.Report{Role: contract.Primary, State: "Leading", Term: term, Timeline: 1, Provided: true, Cause: string(cause)}
}

func replica(term uint64) contract.Report {
	return contract.Report{Role: contract.Replica, State: "Following", Term: term}
}

// encoded returns JSON of what can be encoded.
func encoded(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// databaseState is the expected state of a database after a step.
type databaseState struct {
	// is is phase, reason of Ready, primary and instances of the status, of the present generation.
	is string
	// pods is the number of replicas of the StatefulSet. With several there is a PodDisruptionBudget.
	pods int32
	// told is what the instances are told: of whom there are, who hands over to whom, and work_mem.
	told string
	// claims has the size of each claim, and how many owners it has.
	claims string
}

// databaseIs returns a check that everything of a database is as in want.
func databaseIs(name string, want databaseState) func(campaign.World) error {
	return func(world campaign.World) error {
		var db databasev1.PostgreSQL
		if err := world.Read("PostgreSQL", name, &db); err != nil {
			return err
		}
		var set appsv1.StatefulSet
		if err := world.Read("StatefulSet", name, &set); err != nil {
			return err
		}
		_, hasBudget := world["PodDisruptionBudget "+name]
		told, err := toldIn(world, name)
		if err != nil {
			return err
		}
		got := databaseState{pods: *set.Spec.Replicas, told: told, claims: claimsIn(world, name)}
		status := &db.Status
		for _, condition := range status.Conditions {
			if condition.Type == databasev1.ConditionReady {
				got.is = fmt.Sprintf("%s %s %s %s", status.Phase, condition.Reason, status.Primary, status.InstanceSummary)
			}
		}
		if status.ObservedGeneration != db.Generation || got != want || hasBudget != (want.pods > 1) {
			return fmt.Errorf("%s is %+v, of generation %d of %d, with a budget: %t", name, got, status.ObservedGeneration, db.Generation, hasBudget)
		}
		return nil
	}
}

func toldIn(world campaign.World, database string) (string, error) {
	var config corev1.ConfigMap
	if err := world.Read("ConfigMap", contract.SettingsName(database), &config); err != nil {
		return "", err
	}
	told, err := contract.ParseSettings(config.Data[contract.SettingsKey])
	return fmt.Sprintf("%d %d>%s %s", len(told.Pods), told.SwitchFrom, told.SwitchTo, told.Parameters["work_mem"]), err
}

func claimsIn(world campaign.World, database string) string {
	found := ""
	for ordinal := range 3 {
		var existing corev1.PersistentVolumeClaim
		if world.Read("PersistentVolumeClaim", claim(database, ordinal).Name, &existing) == nil {
			size := existing.Spec.Resources.Requests[corev1.ResourceStorage]
			found += fmt.Sprintf("%s/%d ", size.String(), len(existing.OwnerReferences))
		}
	}
	return found
}

// newDatabase returns an action that creates a database.
func newDatabase(name string, replicas int32, policy databasev1.DeletionPolicy, class *string) action {
	return create(&databasev1.PostgreSQL{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: databasev1.PostgreSQLSpec{
		Version: "17", Storage: resource.MustParse("1Gi"), Replicas: replicas, DeletionPolicy: policy, StorageClassName: class,
	}})
}
