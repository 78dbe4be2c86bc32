// Package setup wires the manager: scheme, cache, controllers, probes. Only this package may import
// all others, and only cmd imports it.
package setup

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	msappsv1beta1 "github.com/mainstay-platform/mainstay/api/apps/v1beta1"
	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
)

// Scheme returns a scheme with every type that the manager reads or writes.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme,
		gatewayv1.Install,
		apiregistrationv1.AddToScheme,
		msappsv1.AddToScheme,
		mspolicyv1.AddToScheme,
		configv1.AddToScheme,
		instrv1.AddToScheme,
		msappsv1beta1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("building the scheme: %w", err)
		}
	}
	return scheme, nil
}
