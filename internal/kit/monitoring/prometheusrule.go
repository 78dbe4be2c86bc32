package monitoring

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// PrometheusRule has alerts.
type PrometheusRule struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec PrometheusRuleSpec `json:"spec"`
}

// PrometheusRuleList is a list of PrometheusRules.
type PrometheusRuleList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []PrometheusRule `json:"items"`
}

// PrometheusRuleSpec is the content of a rules file of Prometheus.
type PrometheusRuleSpec struct {
	Groups []RuleGroup `json:"groups,omitempty"`
}

// RuleGroup is a list of rules that are evaluated one after the other.
type RuleGroup struct {
	Name  string `json:"name"`
	Rules []Rule `json:"rules,omitempty"`
}

// Rule is an alert.
type Rule struct {
	Alert string `json:"alert"`
	Expr  string `json:"expr"`
	// For is a duration as Prometheus writes it.
	For         string            `json:"for,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// DeepCopyObject returns a copy.
func (r *PrometheusRule) DeepCopyObject() runtime.Object { return r.DeepCopy() }

// DeepCopy returns a copy that shares no memory with the original.
func (r *PrometheusRule) DeepCopy() *PrometheusRule {
	made := &PrometheusRule{TypeMeta: r.TypeMeta, ObjectMeta: *r.ObjectMeta.DeepCopy()}
	for _, group := range r.Spec.Groups {
		copied := RuleGroup{Name: group.Name}
		for _, rule := range group.Rules {
			rule.Labels, rule.Annotations = maps.Clone(rule.Labels), maps.Clone(rule.Annotations)
			copied.Rules = append(copied.Rules, rule)
		}
		made.Spec.Groups = append(made.Spec.Groups, copied)
	}
	return made
}

// DeepCopyObject returns a copy.
func (l *PrometheusRuleList) DeepCopyObject() runtime.Object { return l.DeepCopy() }

// DeepCopy returns a copy that shares no memory with the original.
func (l *PrometheusRuleList) DeepCopy() *PrometheusRuleList {
	made := &PrometheusRuleList{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy()}
	for i := range l.Items {
		made.Items = append(made.Items, *l.Items[i].DeepCopy())
	}
	return made
}
