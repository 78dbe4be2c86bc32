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
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/metrics"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

// Scale is the subresource scale of a kind. kubectl scale and autoscalers write to it, and the
// webhooks of the kind itself do not see these writes.
type Scale struct {
	// Kind is the name of the kind, as in WebApp.
	Kind string
	// Resource is the resource of the kind. Versions are all its versions.
	Resource schema.GroupResource
	Versions []string
	// Field is the path of the number of replicas.
	Field *field.Path
	// Refuse returns why an object can't be scaled; "" if it can. It returns an error if it does
	// not know.
	Refuse func(ctx context.Context, key types.NamespacedName) (string, error)
	// Rules reads the rules to check; nil where there are no policies.
	Rules policy.Source
}

// Hook returns the webhook of the subresource.
func (s Scale) Hook(scheme *runtime.Scheme) Hook {
	name := "scale." + s.Resource.String()
	path := "/validate/" + name
	return Hook{
		Name: name, Path: path,
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
			Rule: admissionregistrationv1.Rule{
				APIGroups: []string{s.Resource.Group}, APIVersions: s.Versions, Resources: []string{s.Resource.Resource + "/scale"},
				Scope: new(admissionregistrationv1.NamespacedScope),
			},
		}},
		Handler: &ctrladmission.Webhook{Handler: countFailures(path, scaleHandler{s, ctrladmission.NewDecoder(scheme)})},
	}
}

type scaleHandler struct {
	scale   Scale
	decoder ctrladmission.Decoder
}

// Handle refuses objects that can't be scaled, and more replicas than the rules allow. Scaling down
// is always allowed.
func (h scaleHandler) Handle(ctx context.Context, request ctrladmission.Request) ctrladmission.Response {
	var wanted, before autoscalingv1.Scale
	if err := h.decoder.DecodeRaw(request.Object, &wanted); err != nil {
		return ctrladmission.Errored(http.StatusBadRequest, err)
	}
	if err := h.decoder.DecodeRaw(request.OldObject, &before); err != nil {
		return ctrladmission.Errored(http.StatusBadRequest, err)
	}
	reason, err := h.scale.Refuse(ctx, types.NamespacedName{Namespace: request.Namespace, Name: request.Name})
	if err != nil {
		return ctrladmission.Errored(http.StatusInternalServerError, err)
	}
	if reason != "" {
		return h.forbid(request.Name, reason)
	}
	if h.scale.Rules == nil {
		return ctrladmission.Allowed("")
	}
	rules, err := h.scale.Rules(ctx, request.Namespace)
	if err != nil {
		return ctrladmission.Errored(http.StatusInternalServerError, err)
	}
	rules = rules.For(h.scale.Kind, request.Name)
	check := func(count int32) []policy.Violation {
		return rules.CheckReplicas([]policy.Replicas{{Field: h.scale.Field, Count: count}})
	}
	worse := policy.Worse(check(wanted.Spec.Replicas), check(before.Spec.Replicas))
	if refused := policy.Enforced(worse, mspolicyv1.EnforcementDeny); len(refused) > 0 {
		metrics.Denied(h.scale.Kind, request.Namespace, metrics.ByAdmission)
		return h.forbid(request.Name, policy.Sentence(refused))
	}
	return ctrladmission.Allowed("").WithWarnings(warningsOf(worse)...)
}

func (h scaleHandler) forbid(name, reason string) ctrladmission.Response {
	status := apierrors.NewForbidden(h.scale.Resource, name, errors.New(reason)).Status()
	response := ctrladmission.Denied("")
	response.Result = &status
	return response
}
