package injection

import (
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
)

// sideCars are names of well-known sidecar containers. A matcher without a container name skips
// them.
var sideCars = []string{
	"aws-xray-daemon", "cloud-sql-proxy", "cloudsql-proxy", "config-reloader", "consul-connect-envoy-sidecar", "consul-dataplane",
	"consul-sidecar", "daprd", "datadog-agent", "envoy", "envoy-sidecar", "filebeat", "fluent-bit", "fluentbit", "fluentd", "istio-proxy",
	"jaeger-agent", "kube-rbac-proxy", "kuma-sidecar", "linkerd-proxy", "oauth2-proxy", "opa-istio", "otc-container", "otel-collector",
	"promtail", "queue-proxy", "vault-agent", "vector", "xray-daemon",
}

// matcher is a compiled matcher of a spec.
type matcher struct {
	workload, container string
	labels              labels.Selector
	kinds               []instrv1.WorkloadKind
	env                 []corev1.EnvVar
}

func compileMatcher(from *instrv1.Matcher) (matcher, error) {
	selector, err := selectorOf(from.Labels)
	return matcher{workload: from.Deployment, container: from.Container, labels: selector, kinds: from.Kinds, env: from.Env}, err
}

// selectorOf returns a compiled selector. None selects everything.
func selectorOf(selector *metav1.LabelSelector) (labels.Selector, error) {
	if selector == nil {
		return labels.Everything(), nil
	}
	return metav1.LabelSelectorAsSelector(selector)
}

// fits reports whether a name matches a valid pattern. An empty pattern matches every name.
func fits(pattern, name string) bool {
	if pattern == "" {
		return true
	}
	matches, err := path.Match(pattern, name)
	return err == nil && matches
}

// matchesWorkload reports whether containers of the workload may be matched.
func (m *matcher) matchesWorkload(w *Workload) bool {
	return slices.Contains(m.kinds, instrv1.WorkloadKind(w.Kind)) && fits(m.workload, w.Name) && m.labels.Matches(labels.Set(w.Labels))
}

func (m *matcher) matchesContainer(name string) bool {
	if m.container == "" {
		return !slices.Contains(sideCars, name)
	}
	return fits(m.container, name)
}

// IsFor reports whether the agent matches some container of a workload.
func (a *Agent) IsFor(w *Workload) bool { return len(a.match(w)) > 0 }

// Concerns reports whether the agent matches a workload, or is in it.
func (a *Agent) Concerns(w *Workload) bool {
	return InjectedBy(w.Template.Annotations, a.ID) != nil || a.IsFor(w)
}

// matched is a container, by its index in the template, and the variables to set in it.
type matched struct {
	index int
	env   []corev1.EnvVar
}

// match returns the containers of a workload that the agent matches.
func (a *Agent) match(w *Workload) []matched {
	if !a.isOn || a.Invalid != nil {
		return nil
	}
	var mine []*matcher
	for i := range a.matchers {
		if a.matchers[i].matchesWorkload(w) {
			mine = append(mine, &a.matchers[i])
		}
	}
	if len(mine) == 0 {
		return nil
	}
	var found []matched
	for index := range w.Template.Spec.Containers {
		one := matched{index: index}
		isMatched := false
		for _, matcher := range mine {
			if matcher.matchesContainer(w.Template.Spec.Containers[index].Name) {
				isMatched = true
				one.env = addEnv(one.env, matcher.env)
			}
		}
		if isMatched {
			one.env = addEnv(one.env, a.Spec.Agent.Env)
			found = append(found, one)
		}
	}
	return found
}

// addEnv appends the variables whose names are not present yet.
func addEnv(to, more []corev1.EnvVar) []corev1.EnvVar {
	for _, variable := range more {
		if !hasVariable(to, variable.Name) {
			to = append(to, variable)
		}
	}
	return to
}

func hasVariable(variables []corev1.EnvVar, name string) bool { return indexOf(variables, name) >= 0 }

func indexOf(variables []corev1.EnvVar, name string) int {
	return slices.IndexFunc(variables, func(one corev1.EnvVar) bool { return one.Name == name })
}
