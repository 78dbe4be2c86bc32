package admission

import (
	"context"
	"errors"
	"net/http"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/mainstay-platform/mainstay/internal/kit/metrics"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

// Scale is a kind's subresource scale: kubectl scale and autoscalers go through it, and a rule
// about the kind itself does not see them.
type Scale struct {
	// Kind is the kind's name, as in WebApp.
	Kind string
	// Resource is the kind's, with all its versions.
	Resource schema.GroupResource
	Versions []string
	// Field is where the number of replicas stands.
	Field *field.Path
	// Refuse says why an object can't be scaled; empty if it can. An error means that it is not known.
	Refuse func(ctx context.Context, key types.NamespacedName) (string, error)
	// Rules are checked; nil where there are no policies.
	Rules policy.Source
}

// Hook is the webhook of the subresource.
func (s Scale) Hook(scheme *runtime.Scheme) Hook {
	name := "scale." + s.Resource.String()
	return Hook{
		Name: name, Path: "/validate/" + name,
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
			Rule: admissionregistrationv1.Rule{
				APIGroups: []string{s.Resource.Group}, APIVersions: s.Versions, Resources: []string{s.Resource.Resource + "/scale"},
				Scope: new(admissionregistrationv1.NamespacedScope),
			},
		}},
		Handler: &admission.Webhook{Handler: scaleHandler{s, admission.NewDecoder(scheme)}},
	}
}

type scaleHandler struct {
	scale   Scale
	decoder admission.Decoder
}

// Handle refuses what can't be scaled, and more replicas than the rules allow. Fewer than there are
// is always a step in the right direction.
func (h scaleHandler) Handle(ctx context.Context, request admission.Request) admission.Response {
	var wanted, before autoscalingv1.Scale
	if err := h.decoder.DecodeRaw(request.Object, &wanted); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	if err := h.decoder.DecodeRaw(request.OldObject, &before); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	reason, err := h.scale.Refuse(ctx, types.NamespacedName{Namespace: request.Namespace, Name: request.Name})
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	if reason != "" {
		return h.forbid(request.Name, reason)
	}
	if h.scale.Rules == nil {
		return admission.Allowed("")
	}
	rules, err := h.scale.Rules(ctx, request.Namespace)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	check := func(count int32) []policy.Violation {
		return rules.CheckReplicas([]policy.Replicas{{Field: h.scale.Field, Count: count}})
	}
	if worse := policy.Worse(check(wanted.Spec.Replicas), check(before.Spec.Replicas)); len(worse) > 0 {
		metrics.Denied(h.scale.Kind, request.Namespace, metrics.ByAdmission)
		return h.forbid(request.Name, policy.Sentence(worse))
	}
	return admission.Allowed("")
}

func (h scaleHandler) forbid(name, reason string) admission.Response {
	status := apierrors.NewForbidden(h.scale.Resource, name, errors.New(reason)).Status()
	response := admission.Denied("")
	response.Result = &status
	return response
}
