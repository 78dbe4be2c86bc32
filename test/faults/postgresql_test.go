package faults

import (
	"context"
	"errors"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/api"
	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/test/faults/campaign"
)

// ofDatabases adds to a scenario what all scenarios of databases have in common.
func ofDatabases(scenario campaign.Scenario) campaign.Scenario {
	scenario.Owner = databasev1.GroupVersion.WithKind("PostgreSQL")
	scenario.Children = []schema.GroupVersionKind{
		corev1.SchemeGroupVersion.WithKind("Secret"),
		corev1.SchemeGroupVersion.WithKind("ConfigMap"),
		corev1.SchemeGroupVersion.WithKind("ServiceAccount"),
		rbacv1.SchemeGroupVersion.WithKind("Role"),
		rbacv1.SchemeGroupVersion.WithKind("RoleBinding"),
		coordinationv1.SchemeGroupVersion.WithKind("Lease"),
		corev1.SchemeGroupVersion.WithKind("Service"),
		discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"),
		networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"),
		corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"),
		appsv1.SchemeGroupVersion.WithKind("StatefulSet"),
		policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"),
		corev1.SchemeGroupVersion.WithKind("Pod"),
	}
	// Of several pods that change at once, the manager may see each one, or all.
	scenario.MoreStatuses = 12
	scenario.HasManyChildren = true
	scenario.IsReady, scenario.Mask = databaseIsReady, hideRandom
	return scenario
}

// postgreSQL creates a database of two instances, which start. One of them is removed, and a
// parameter changed. Then the database is deleted, with its volumes.
func postgreSQL() campaign.Scenario {
	return ofDatabases(campaign.Scenario{Name: "postgresql", Steps: []campaign.Step{
		{
			Name: "create", Do: newDatabase(appName, 2, databasev1.DeletionDelete, nil),
			Settled: databaseIs(appName, databaseState{is: "Pending Creating  0/2", pods: 2, told: "2 0> ", claims: "1Gi/1 1Gi/1 "}),
		},
		{
			Name: "start", Do: inTurn(bind(appName, 0), bind(appName, 1), observe(appName, "1"), lead(appName, 1, 0),
				startPod(appName, 0, "1", primary(1, "")), startPod(appName, 1, "1", replica(1))),
			Settled: databaseIs(appName, databaseState{
				is: "Running Available shop-0 2/2", pods: 2, told: "2 0> ", claims: "1Gi/1 1Gi/1 ",
			}),
		},
		{
			Name: "change", Do: merge(database(appName), `{"spec": {"replicas": 1, "parameters": {"work_mem": "8MB"}}}`),
			Settled: databaseIs(appName, databaseState{
				is: "Updating Scaling shop-0 2/1", pods: 1, told: "1 0> 8MB", claims: "1Gi/1 1Gi/1 ",
			}),
		},
		{
			Name: "delete", Do: inTurn(remove(database(appName)), remove(pod(appName, 0)), remove(pod(appName, 1))), Settled: campaign.IsEmpty,
		},
	}})
}

// The two databases of the long scenario: the first has three instances and leaves its volumes, the
// second has one and does not.
const (
	retained = "shop"
	deleted  = "till"
)

// growing is a class of volumes that can grow.
const growing = "growing"

// postgreSQLLife creates two databases. In the first, the primary hands over on request, a
// parameter is changed, a pod is replaced, the primary and another instance are removed, and the
// volume that is left grows. Then both are deleted.
func postgreSQLLife() campaign.Scenario {
	steps := append(startsBoth(), switchesOver()...)
	steps = append(steps, changes()...)
	steps = append(steps, scalesIn()...)
	steps = append(steps, growsAndEnds()...)
	return ofDatabases(campaign.Scenario{Name: "postgresql-life", Steps: steps, SkipsCreation: true})
}

// threeClaims are those of the first database before one grows.
const threeClaims = "1Gi/0 1Gi/0 1Gi/0 "

// first returns a step and its end in the first database.
func first(name string, do action, want databaseState) campaign.Step {
	return campaign.Step{Name: name, Do: do, Settled: databaseIs(retained, want)}
}

func startsBoth() []campaign.Step {
	both := func(first, second databaseState) func(campaign.World) error {
		return func(world campaign.World) error {
			return errors.Join(databaseIs(retained, first)(world), databaseIs(deleted, second)(world))
		}
	}
	return []campaign.Step{
		{
			Name: "create", Do: inTurn(makeGrowing, newDatabase(retained, 3, databasev1.DeletionRetain, new(growing)),
				newDatabase(deleted, 1, databasev1.DeletionDelete, nil)),
			Settled: both(databaseState{is: "Pending Creating  0/3", pods: 3, told: "3 0> ", claims: threeClaims},
				databaseState{is: "Pending Creating  0/1", pods: 1, told: "1 0> ", claims: "1Gi/1 "}),
		},
		{
			Name: "start", Do: inTurn(
				bind(retained, 0), bind(retained, 1), bind(retained, 2), observe(retained, "1"), lead(retained, 1, 0, 1, 2),
				startPod(retained, 0, "1", primary(1, "")), startPod(retained, 1, "1", replica(1)), startPod(retained, 2, "1", replica(1)),
				bind(deleted, 0), observe(deleted, "1"), lead(deleted, 1, 0), startPod(deleted, 0, "1", primary(1, "")),
			),
			Settled: both(databaseState{is: "Running Available shop-0 3/3", pods: 3, told: "3 0> ", claims: threeClaims},
				databaseState{is: "Running Available till-0 1/1", pods: 1, told: "1 0> ", claims: "1Gi/1 "}),
		},
	}
}

func switchesOver() []campaign.Step {
	return []campaign.Step{
		first("switch over", merge(database(retained), `{"spec": {"switchoverAt": "2026-11-23T12:00:00Z"}}`),
			databaseState{is: "SwitchingOver SwitchingOver shop-0 3/3", pods: 3, told: "3 1>shop-1 ", claims: threeClaims}),
		first("take over", inTurn(lead(retained, 2, 1, 0, 2), report(1, primary(2, election.HandedOver)),
			report(0, replica(2)), report(2, replica(2))),
			databaseState{is: "Running Available shop-1 3/3", pods: 3, told: "3 0> ", claims: threeClaims}),
	}
}

func changes() []campaign.Step {
	return []campaign.Step{
		first("change", merge(database(retained), `{"spec": {"parameters": {"work_mem": "8MB"}, "restartedAt": "2026-11-23T13:00:00Z"}}`),
			databaseState{is: "Running Available shop-1 3/3", pods: 3, told: "3 0> 8MB", claims: threeClaims}),
		first("replace", observe(retained, "2"),
			databaseState{is: "Updating Scaling shop-1 2/3", pods: 3, told: "3 0> 8MB", claims: threeClaims}),
		first("replaced", inTurn(renew(retained, 0, "2"), renew(retained, 1, "2"), startPod(retained, 2, "2", replica(2))),
			databaseState{is: "Running Available shop-1 3/3", pods: 3, told: "3 0> 8MB", claims: threeClaims}),
	}
}

func scalesIn() []campaign.Step {
	stopping := contract.Report{State: "Stopping", Term: 2}
	return []campaign.Step{
		first("scale in", merge(database(retained), `{"spec": {"replicas": 1}}`),
			databaseState{is: "Updating Scaling shop-1 3/1", pods: 3, told: "2 2>shop-0 8MB", claims: threeClaims}),
		first("hand over", report(1, stopping),
			databaseState{is: "SwitchingOver SwitchingOver  2/1", pods: 3, told: "3 0> 8MB", claims: threeClaims}),
		first("lead", inTurn(lead(retained, 3, 0), report(0, primary(3, election.HandedOver))),
			databaseState{is: "Updating Scaling shop-0 2/1", pods: 1, told: "1 0> 8MB", claims: threeClaims}),
		first("leave", inTurn(remove(pod(retained, 1)), remove(pod(retained, 2)), observe(retained, "2")),
			databaseState{is: "Running Available shop-0 1/1", pods: 1, told: "1 0> 8MB", claims: threeClaims}),
	}
}

func growsAndEnds() []campaign.Step {
	grown := databaseState{is: "Running Available shop-0 1/1", pods: 1, told: "1 0> 8MB", claims: "2Gi/0 1Gi/0 1Gi/0 "}
	return []campaign.Step{
		first("grow", merge(database(retained), `{"spec": {"storage": "2Gi"}}`), grown),
		first("grown", bind(retained, 0), grown),
		{Name: "retain", Do: inTurn(remove(database(retained)), remove(pod(retained, 0))), Settled: onlyClaimsOf(retained)},
		{Name: "delete", Do: inTurn(remove(database(deleted)), remove(pod(deleted, 0)), remove(claim(retained, 0)), remove(claim(retained, 1)),
			remove(claim(retained, 2))), Settled: campaign.IsEmpty},
	}
}

// makeGrowing creates the class once for all runs.
func makeGrowing(ctx context.Context, c client.Client, _ string) error {
	return client.IgnoreAlreadyExists(c.Create(ctx, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: growing}, Provisioner: "example.com/none", AllowVolumeExpansion: new(true),
	}))
}

// onlyClaimsOf returns a check that a database has left its volumes and nothing else.
func onlyClaimsOf(name string) func(campaign.World) error {
	return func(world campaign.World) error {
		if got := claimsIn(world, name); got != "2Gi/0 1Gi/0 1Gi/0 " {
			return errors.New("the claims are " + got)
		}
		for key, object := range world {
			if object.GetLabels()["app.kubernetes.io/instance"] == name && object.GetKind() != "PersistentVolumeClaim" {
				return errors.New(key + " is still there")
			}
		}
		return nil
	}
}

// databaseIsReady trusts the status of a database that is not handing over.
func databaseIsReady(owner *unstructured.Unstructured) bool {
	var db databasev1.PostgreSQL
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(owner.Object, &db); err != nil {
		return false
	}
	return db.Name == appName && db.Status.Phase == databasev1.PhaseRunning && db.Status.ObservedGeneration == db.Generation &&
		db.Status.SwitchoverFrom == 0
}

// hideRandom removes what is drawn or issued, but not the names of its keys; the length of the time
// without a primary; and hashes of what is drawn, or has the namespace's name, as dashboards have.
func hideRandom(object *unstructured.Unstructured) {
	data, has, _ := unstructured.NestedMap(object.Object, "data")
	name := object.GetName()
	if has && (object.GetKind() == "Secret" || strings.HasSuffix(name, "-ca") || strings.HasSuffix(name, "-dashboard")) {
		for key := range data {
			data[key] = "set"
		}
		_ = unstructured.SetNestedMap(object.Object, data, "data") // they are strings
	}
	unstructured.RemoveNestedField(object.Object, "status", "primaryChange", "seconds")
	if _, has, _ := unstructured.NestedString(object.Object, "status", "credentialsRevision"); has {
		_ = unstructured.SetNestedField(object.Object, "set", "status", "credentialsRevision") // it is a text
	}
	if annotations := object.GetAnnotations(); annotations[api.AnnotationTemplate] != "" {
		annotations[api.AnnotationTemplate] = "set"
		object.SetAnnotations(annotations)
	}
}
