package apiservice

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/internal/kit/naming"
)

// fieldManager owns the fields that we write of the APIService.
var fieldManager = naming.Manager("apiservice")

// publish writes the desired APIService. It reads the owner again: if the owner is gone, so is the
// installation.
//
// +kubebuilder:rbac:part=apiservice,groups=apiregistration.k8s.io,resources=apiservices,resourceNames=v1alpha1.farm.mainstay.dev,verbs=create;patch
func (p *Publisher) publish(ctx context.Context, o *observed, d decision) error {
	if !p.writes.TryAccept() {
		return errors.New("written too often: another program may be reverting it")
	}
	if err := p.readOwner(ctx); err != nil {
		return err
	}
	wanted := desired(p.options.Namespace, p.options.Service, o.wanted.Spec.CABundle, p.owner)
	if err := p.apply(ctx, wanted, o.apiService == nil); err != nil {
		return err
	}
	ctrl.LoggerFrom(ctx).Info("Published the APIService", "because", d.why)
	if o.apiService == nil {
		p.record(ctx, published)
	}
	return nil
}

// apply writes the APIService by server-side apply. If the cache had none but one exists, it may
// not be ours, so a conflict is an error.
func (p *Publisher) apply(ctx context.Context, wanted *apiregistrationv1.APIService, isNew bool) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(wanted)
	if err != nil {
		return fmt.Errorf("rendering APIService %s: %w", Name, err)
	}
	object := &unstructured.Unstructured{Object: content}
	object.SetGroupVersionKind(apiregistrationv1.SchemeGroupVersion.WithKind("APIService"))
	unstructured.RemoveNestedField(object.Object, "status")
	// The value is explicit, so that it is corrected too.
	if err := unstructured.SetNestedField(object.Object, false, "spec", "insecureSkipTLSVerify"); err != nil {
		return fmt.Errorf("rendering APIService %s: %w", Name, err)
	}
	options := []client.ApplyOption{client.FieldOwner(fieldManager)}
	if !isNew {
		options = append(options, client.ForceOwnership)
	}
	if err := p.options.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), options...); err != nil {
		return fmt.Errorf("applying APIService %s: %w", Name, err)
	}
	return nil
}

// withdraw deletes the observed APIService.
//
// +kubebuilder:rbac:part=apiservice,groups=apiregistration.k8s.io,resources=apiservices,resourceNames=v1alpha1.farm.mainstay.dev,verbs=delete
func (p *Publisher) withdraw(ctx context.Context, o *observed, d decision) error {
	if err := remove(ctx, p.options.Client, o.apiService); err != nil {
		return err
	}
	ctrl.LoggerFrom(ctx).Info("Withdrew the APIService", "because", d.why)
	if !o.leaving { // no events can be created there
		p.record(ctx, withdrawn)
	}
	return nil
}

// remove deletes the APIService with this UID, not a later one of its name.
func remove(ctx context.Context, c client.Client, live *apiregistrationv1.APIService) error {
	if err := c.Delete(ctx, live, client.Preconditions{UID: &live.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting APIService %s: %w", Name, err)
	}
	return nil
}

// Withdraw deletes the APIService if it exists and may be changed. It is idempotent. An APIService
// that is not ours stays, without an error.
//
// +kubebuilder:rbac:part=apiservicewithdrawal;uninstall,groups=apiregistration.k8s.io,resources=apiservices,resourceNames=v1alpha1.farm.mainstay.dev,verbs=get;delete
func Withdraw(ctx context.Context, c client.Client, whose Whose) error {
	ctx, cancel := context.WithTimeout(ctx, reconcileTimeout)
	defer cancel()
	live := &apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{Name: Name}}
	if err := c.Get(ctx, client.ObjectKeyFromObject(live), live); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil
		}
		return fmt.Errorf("reading APIService %s: %w", Name, err)
	}
	if !whose(live) {
		ctrl.LoggerFrom(ctx).Info("Keeping an APIService that does not belong to this installation", "APIService", Name)
		return nil
	}
	if err := remove(ctx, c, live); err != nil {
		return err
	}
	ctrl.LoggerFrom(ctx).Info("Withdrew the APIService", "APIService", Name)
	return nil
}
