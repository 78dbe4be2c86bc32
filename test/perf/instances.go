package main

import (
	"context"
	"encoding/json"
	"errors"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/api"
	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/kinds/postgresql"
)

// instanceRevision is the revision of all pods.
const instanceRevision = "1"

// startDatabase does what the StatefulSet's controller, a kubelet and the program in each pod
// would: all pods run, and the first leads.
func (p *plane) startDatabase(ctx context.Context, name string) error {
	set := &appsv1.StatefulSet{}
	if err := p.client.Get(ctx, client.ObjectKey{Namespace: databaseNamespace, Name: name}, set); err != nil {
		return err
	}
	set.Status = appsv1.StatefulSetStatus{
		ObservedGeneration: set.Generation, Replicas: databaseInstances, UpdateRevision: instanceRevision,
	}
	if err := errors.Join(p.client.Status().Update(ctx, set), p.writeRecord(ctx, name)); err != nil {
		return err
	}
	for ordinal := range databaseInstances {
		report := contract.Report{Role: contract.Replica, State: "Following", Term: 1}
		if ordinal == 0 {
			report = contract.Report{Role: contract.Primary, State: "Leading", Term: 1, Timeline: 1, Provided: true}
		}
		if err := p.startInstance(ctx, name, database.PodName(name, ordinal), report); err != nil {
			return err
		}
	}
	return nil
}

// writeRecord writes who leads into the Lease.
func (p *plane) writeRecord(ctx context.Context, name string) error {
	member := func(ordinal int) election.Member {
		return election.Member{Name: database.PodName(name, ordinal), Incarnation: "1"}
	}
	text, err := election.Record{
		System: "1", Term: 1, Seq: 1, Timeline: 1, Open: true, Holder: election.Holder{Member: member(0)},
		Rules: []election.Rule{{Leader: member(0), Set: []election.Member{member(1), member(2)}, Acks: 1}},
	}.Encode()
	if err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{api.AnnotationRecord: text}}})
	if err != nil {
		return err
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: databaseNamespace, Name: name}}
	return p.client.Patch(ctx, lease, client.RawPatch(types.MergePatchType, patch))
}

// startInstance creates a pod that is ready, with what its program says.
func (p *plane) startInstance(ctx context.Context, database, name string, report contract.Report) error {
	text, err := json.Marshal(report)
	if err != nil {
		return err
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: databaseNamespace, Name: name,
			Labels: map[string]string{
				api.LabelOwnerKind: postgresql.Component, api.LabelOwner: database, api.LabelManagedBy: api.ManagedBy,
				appsv1.ControllerRevisionHashLabelKey: instanceRevision,
			},
			Annotations: map[string]string{api.AnnotationInstance: string(text)},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: postgresql.ContainerName, Image: "registry.example.com/postgresql:17.11"}}},
	}
	if err := p.client.Create(ctx, pod); err != nil {
		return err
	}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	return p.client.Status().Update(ctx, pod)
}
