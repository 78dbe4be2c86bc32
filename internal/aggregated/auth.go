package aggregated

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	farmv1alpha1 "github.com/mainstay-platform/mainstay/api/farm/v1alpha1"
)

// probes returns the paths that a kubelet requests without credentials.
func probes() []string { return []string{"/livez", "/readyz"} }

// known refuses requests without a user, except for probes. The library would take them for
// "system:anonymous", which a rule might allow to read. Behind an aggregator every genuine request
// has a user.
type known struct{ authenticator.Request }

// AuthenticateRequest implements authenticator.Request.
func (k known) AuthenticateRequest(request *http.Request) (*authenticator.Response, bool, error) {
	response, is, err := k.Request.AuthenticateRequest(request)
	if err != nil || !is || response.User.GetName() != user.Anonymous || slices.Contains(probes(), request.URL.Path) {
		return response, is, err
	}
	return nil, false, nil
}

// behindPods allows a request for FarmPods only to users who may also list the Pods that they show:
// a rule on our group must not bypass one on Pods.
func behindPods(next authorizer.Authorizer) authorizer.Authorizer {
	return authorizer.AuthorizerFunc(func(ctx context.Context, attributes authorizer.Attributes) (authorizer.Decision, string, error) {
		decision, reason, err := next.Authorize(ctx, attributes)
		if decision != authorizer.DecisionAllow || !isFarmPods(attributes) {
			return decision, reason, err
		}
		decision, _, err = next.Authorize(ctx, authorizer.AttributesRecord{
			User: attributes.GetUser(), Verb: "list", Namespace: attributes.GetNamespace(),
			APIVersion: corev1.SchemeGroupVersion.Version, Resource: string(corev1.ResourcePods), ResourceRequest: true,
		})
		if decision == authorizer.DecisionAllow && err == nil {
			return decision, reason, nil
		}
		where := "in the namespace " + attributes.GetNamespace()
		if attributes.GetNamespace() == "" {
			where = "in all namespaces"
		}
		return authorizer.DecisionDeny, fmt.Sprintf("farmpods show Pods: the right to list pods %s is missing", where), err
	})
}

func isFarmPods(attributes authorizer.Attributes) bool {
	return attributes.IsResourceRequest() && attributes.GetAPIGroup() == farmv1alpha1.GroupVersion.Group &&
		attributes.GetResource() == farmPods
}
