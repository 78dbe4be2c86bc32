package injection

import (
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
)

// sideCars are the names of containers that stand beside an application: a matcher that names no container leaves them out.
var sideCars = []string{
	"aws-xray-daemon", "cloud-sql-proxy", "cloudsql-proxy", "config-reloader", "consul-connect-envoy-sidecar", "consul-dataplane",
	"consul-sidecar", "daprd", "datadog-agent", "envoy", "envoy-sidecar", "filebeat", "fluent-bit", "fluentbit", "fluentd", "istio-proxy",
	"jaeger-agent", "kube-rbac-proxy", "kuma-sidecar", "linkerd-proxy", "oauth2-proxy", "opa-istio", "otc-container", "otel-collector",
	"promtail", "queue-proxy", "vault-agent", "vector", "xray-daemon",
}

// SideCars are the names of containers that a matcher leaves out unless it names them.
func SideCars() []string { return slices.Clone(sideCars) }

// matcher is one of a spec, compiled.
type matcher struct {
	workload, container string
	labels              labels.Selector
	kinds               []instrv1.WorkloadKind
	env                 []corev1.EnvVar
}

func compileMatcher(from *instrv1.Matcher) (matcher, error) {
	compiled := matcher{workload: from.Deployment, container: from.Container, kinds: from.Kinds, env: from.Env}
	for _, pattern := range []string{from.Deployment, from.Container} {
		if _, err := path.Match(pattern, ""); err != nil {
			return compiled, fmt.Errorf("%q is no pattern of names: %w", pattern, err)
		}
	}
	selector := from.Labels
	if selector == nil {
		selector = &metav1.LabelSelector{}
	}
	var err error
	compiled.labels, err = metav1.LabelSelectorAsSelector(selector)
	return compiled, err
}

// isForAll tells that a matcher names no workload, by name or by a label that it must have.
func isForAll(from *instrv1.Matcher) bool {
	return !names(from.Labels) && isForAnyName(from.Deployment)
}

// names tells that a selector asks for some label. What only excludes leaves in nearly everything.
func names(selector *metav1.LabelSelector) bool {
	if selector == nil {
		return false
	}
	return len(selector.MatchLabels) > 0 || slices.ContainsFunc(selector.MatchExpressions, func(one metav1.LabelSelectorRequirement) bool {
		return one.Operator == metav1.LabelSelectorOpIn || one.Operator == metav1.LabelSelectorOpExists
	})
}

// isForAnyName tells that a pattern names nothing: ?* and [a-z]* match what * does, give or take a name that nobody has.
func isForAnyName(pattern string) bool {
	for first := 'a'; first <= 'z'; first++ {
		letter := string(first)
		if !fits(pattern, strings.Repeat(letter, 5)) || !fits(pattern, letter+"-"+letter) {
			return false
		}
	}
	return true
}

// fits tells whether a name matches a pattern; an empty pattern matches all. Patterns have been checked.
func fits(pattern, name string) bool {
	if pattern == "" {
		return true
	}
	matches, err := path.Match(pattern, name)
	return err == nil && matches
}

// matchesWorkload tells whether some container of the workload may be matched.
func (m *matcher) matchesWorkload(w *Workload) bool {
	return slices.Contains(m.kinds, instrv1.WorkloadKind(w.Kind)) && fits(m.workload, w.Name) && m.labels.Matches(labels.Set(w.Labels))
}

func (m *matcher) matchesContainer(name string) bool {
	if m.container == "" {
		return !slices.Contains(sideCars, name)
	}
	return fits(m.container, name)
}

// IsFor tells whether the agent matches some container of a workload.
func (a *Agent) IsFor(w *Workload) bool { return len(a.match(w)) > 0 }

// matched is a container, by its place in the template, and the variables that it is to have.
type matched struct {
	index int
	env   []corev1.EnvVar
}

// match finds the containers of a workload that the agent is for.
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

// addEnv adds variables whose names are not there yet.
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
