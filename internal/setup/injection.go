package setup

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/injection"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/instrumentationcontroller"
	"github.com/mainstay-platform/mainstay/internal/kit/admission"
	"github.com/mainstay-platform/mainstay/internal/policy/policyreader"
)

// injectionKinds returns the kinds that inject into workloads of others.
func injectionKinds() []kind {
	var both []kind
	for _, scope := range instrumentationcontroller.Scopes() {
		both = append(both, kind{
			name: scope.Name, groupKind: scope.Kind.GroupKind(), plural: scope.Resource, object: scope.Object,
			setup: func(_ context.Context, w wiring) error { return scope.Setup(w.manager, w.injectionOptions()) },
			hooks: func(w wiring) []admission.Hook { return scope.Hooks(w.manager.GetScheme()) },
			needs: scope.Needs, usesWorkloads: true, usesNamespaces: true, injects: true,
		})
	}
	return both
}

func (w wiring) injectionOptions() instrumentationcontroller.Options {
	return instrumentationcontroller.Options{
		Concurrency: w.settings.Concurrency, Clock: w.settings.Clock, Reader: w.injection,
		Direct: !w.settings.Webhooks.Enabled, Sources: w.workloads.Sources,
	}
}

// haveInjection reports whether one of the kinds injects.
func haveInjection(on []kind) bool {
	return slices.ContainsFunc(on, func(k kind) bool { return k.injects })
}

// templateStrip returns what the cache keeps of pod templates in addition to what restarts need, or
// nil for nothing.
func templateStrip(on []kind) func(*corev1.PodTemplateSpec) corev1.PodSpec {
	if !haveInjection(on) {
		return nil
	}
	return injection.Strip
}

// injectionReader returns the reader for injection, or nil if none of the kinds injects. It knows
// the keys of ConfigMaps and Secrets only if another kind caches them.
func injectionReader(config *rest.Config, wired wiring) (*instrumentationcontroller.Reader, error) {
	manager := wired.manager
	if !haveInjection(wired.kinds) {
		return nil, nil //nolint:nilnil // no reader is a valid answer
	}
	asked, err := discovery.NewDiscoveryClientForConfigAndClient(config, manager.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("preparing to read the cluster's version: %w", err)
	}
	found, err := asked.ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("reading the cluster's version: %w", err)
	}
	reader := instrumentationcontroller.Reader{
		Cached: manager.GetClient(), Live: manager.GetAPIReader(), Reviewing: wired.reviewing, HasImageVolumes: hasImageVolumes(found),
		Ungoverned: policyreader.Ungoverned(wired.settings.Namespace), Rules: wired.rules,
	}
	for _, scope := range instrumentationcontroller.Scopes() {
		if !slices.ContainsFunc(wired.kinds, func(k kind) bool { return k.name == scope.Name }) {
			reader.Off = append(reader.Off, scope.Kind.Kind)
		}
	}
	if haveConfiguration(wired.kinds) {
		reader.Source = wired.workloads.Source
	}
	return instrumentationcontroller.NewReader(reader), nil
}

// imageVolumes is the minor version of Kubernetes 1 from which image volumes are on by default
// (KEP-4639).
const imageVolumes = 35

func hasImageVolumes(found *version.Info) bool {
	major, _ := strconv.Atoi(found.Major)
	minor, _ := strconv.Atoi(strings.TrimRight(found.Minor, "+"))
	return major > 1 || major == 1 && minor >= imageVolumes
}
