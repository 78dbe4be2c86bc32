package webhooks

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/api"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/version"
)

// remedy says how to change the configurations for good.
const remedy = "Mainstay writes it: change the values webhook and watchNamespaces of the chart instead"

// writersOnly is a cache's transform that keeps who wrote an object and when, but not which fields.
func writersOnly(object any) (any, error) {
	if written, ok := object.(client.Object); ok {
		entries := slices.Clone(written.GetManagedFields())
		for i := range entries {
			entries[i].FieldsV1 = nil
		}
		written.SetManagedFields(entries)
	}
	return object, nil
}

// lastDesired is a configuration as it was when it was last in the desired state.
type lastDesired struct {
	webhooks []admissionregistrationv1.MutatingWebhook
	// written is the time of our manager's last write; nil until the cache shows it.
	written *metav1.Time
}

// undone returns what another client changed in the configurations since this replica saw them in
// the desired state, and what the next write puts back. Only the leader reports it. Publish asks at
// its very start, because another replica may put it back meanwhile.
func (p *Publisher) undone(ctx context.Context) ([]plan.Revert, error) {
	if p.options.Recorder == nil || !p.options.Leads() {
		return nil, nil
	}
	var reverts []plan.Revert
	for _, kind := range kinds {
		before, isKnown := p.lastDesired[kind]
		if !isKnown {
			continue
		}
		live, err := p.read(ctx, kind)
		if err != nil {
			return nil, err
		}
		if revert, changed := revertOf(kind, before, live, p.options.Release); changed {
			reverts = append(reverts, revert)
		}
	}
	return reverts, nil
}

// revertOf compares a configuration with what it was in the desired state. What another replica
// wrote, perhaps of a later release, is no revert. A change that left no field manager, such as the
// removal of a webhook, is recognized by the time of our manager's last write.
func revertOf(kind kind, last lastDesired, live *admissionregistrationv1.MutatingWebhookConfiguration, release string) (plan.Revert, bool) {
	revert := plan.Revert{
		Ref:        plan.Ref{Group: admissionregistrationv1.GroupName, Kind: string(kind), Name: Name},
		APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), UID: live.UID, Version: live.ResourceVersion,
	}
	if live.ResourceVersion == "" {
		return revert, true
	}
	if version.IsLater(live.Annotations[api.AnnotationRelease], release) {
		return revert, false
	}
	by, before, after := lastWriter(live), byName(last.webhooks), byName(live.Webhooks)
	if by == "" && (last.written == nil || !last.written.Equal(ourWrite(live))) {
		return revert, false
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		path := fmt.Sprintf("webhooks[name=%q]", name)
		if _, exists := after[name]; !exists {
			revert.Fields = append(revert.Fields, plan.RevertedField{Path: path, Change: plan.FieldRemoved, By: by})
			continue
		}
		revert.Fields = append(revert.Fields, changedFields(path, before[name], after[name], by)...)
	}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if _, isDesired := before[name]; !isDesired {
			revert.Fields = append(revert.Fields, plan.RevertedField{Path: fmt.Sprintf("webhooks[name=%q]", name), Change: plan.FieldAdded, By: by})
		}
	}
	return revert, len(revert.Fields) > 0
}

// changedFields compares the fields of one webhook. It shows the values of those that are a word or
// a number.
func changedFields(path string, before, after map[string]any, by string) []plan.RevertedField {
	both := maps.Clone(before)
	maps.Copy(both, after)
	var fields []plan.RevertedField
	for _, name := range slices.Sorted(maps.Keys(both)) {
		if reflect.DeepEqual(before[name], after[name]) {
			continue
		}
		field := plan.RevertedField{Path: path + "." + name, Change: plan.FieldChanged, By: by}
		switch before[name].(type) {
		case string, int64:
			field.From, field.To = fmt.Sprint(before[name]), fmt.Sprint(after[name])
		}
		fields = append(fields, field)
	}
	return fields
}

// byName returns the fields of webhooks by the webhook's name.
func byName(webhooks []admissionregistrationv1.MutatingWebhook) map[string]map[string]any {
	fields := map[string]map[string]any{}
	for i := range webhooks {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&webhooks[i])
		if err == nil { // the type is Kubernetes' own: there is no error
			fields[webhooks[i].Name] = content
		}
	}
	return fields
}

// ourWrite returns when one of our replicas wrote a configuration last; nil if none did.
func ourWrite(object client.Object) *metav1.Time {
	for _, entry := range object.GetManagedFields() {
		if entry.Manager == fieldManager {
			return entry.Time
		}
	}
	return nil
}

// lastWriter returns the field manager that wrote a configuration last, of those with the time of
// our last write or a later one; empty if there is none but ours.
func lastWriter(object client.Object) string {
	var last metav1.ManagedFieldsEntry
	for _, entry := range object.GetManagedFields() {
		if entry.Manager != fieldManager && entry.Time != nil && !entry.Time.Before(last.Time) {
			last = entry
		}
	}
	if last.Time.Before(ourWrite(object)) {
		return ""
	}
	return last.Manager
}

// report records that changes were undone.
//
// +kubebuilder:rbac:part=webhooks,groups=events.k8s.io,namespace=default,resources=events,verbs=create;patch
func (p *Publisher) report(reverts []plan.Revert) {
	for _, revert := range reverts {
		reason := api.ReasonReverted
		if revert.IsDeletion() {
			reason = api.ReasonRecreated
		}
		about := &corev1.ObjectReference{APIVersion: revert.APIVersion, Kind: revert.Ref.Kind, Name: revert.Ref.Name, UID: revert.UID}
		version := &corev1.ObjectReference{APIVersion: revert.APIVersion, Kind: revert.Ref.Kind, Name: revert.Ref.Name,
			ResourceVersion: revert.Version}
		p.options.Recorder.Eventf(about, version, corev1.EventTypeWarning, reason, "Publish", "%s", revert.Message(remedy))
	}
}
