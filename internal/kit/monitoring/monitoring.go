// Package monitoring has what Mainstay writes of the Prometheus Operator's API
// (monitoring.coreos.com/v1), pure. The operator's own package has many times as many fields, and
// no schema for server-side apply.
package monitoring

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// GroupVersion is the version of the API.
var GroupVersion = schema.GroupVersion{Group: "monitoring.coreos.com", Version: "v1"}

// ServiceMonitorCRD is the name of the definition of ServiceMonitor.
const ServiceMonitorCRD = "servicemonitors.monitoring.coreos.com"

// PodMonitorCRD is the name of the definition of PodMonitor.
const PodMonitorCRD = "podmonitors.monitoring.coreos.com"

// PrometheusRuleCRD is the name of the definition of PrometheusRule.
const PrometheusRuleCRD = "prometheusrules.monitoring.coreos.com"

// AddToScheme adds the types to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &ServiceMonitor{}, &ServiceMonitorList{}, &PodMonitor{}, &PodMonitorList{}, &PrometheusRule{},
		&PrometheusRuleList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// ServiceMonitor says how Prometheus scrapes the pods of Services.
type ServiceMonitor struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec ServiceMonitorSpec `json:"spec"`
}

// ServiceMonitorList is a list of ServiceMonitors.
type ServiceMonitorList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []ServiceMonitor `json:"items"`
}

// ServiceMonitorSpec says what is scraped.
type ServiceMonitorSpec struct {
	// Selector selects Services of the ServiceMonitor's namespace.
	Selector  metav1.LabelSelector `json:"selector"`
	Endpoints []Endpoint           `json:"endpoints"`
}

// Endpoint is a port of the selected Services, and how it is scraped.
type Endpoint struct {
	// Port is the name of a port of the Service. TargetPort is that of a container instead.
	Port       string              `json:"port,omitempty"`
	TargetPort *intstr.IntOrString `json:"targetPort,omitempty"`
	Path       string              `json:"path,omitempty"`
	// Interval is a duration as Prometheus writes it; empty means that of Prometheus.
	Interval    string       `json:"interval,omitempty"`
	Relabelings []Relabeling `json:"relabelings,omitempty"`
}

// Relabeling replaces a label of a target before it is scraped.
type Relabeling struct {
	SourceLabels []string `json:"sourceLabels,omitempty"`
	Regex        string   `json:"regex,omitempty"`
	Replacement  string   `json:"replacement,omitempty"`
	TargetLabel  string   `json:"targetLabel,omitempty"`
	Action       string   `json:"action,omitempty"`
}

// DeepCopyObject returns a copy.
func (m *ServiceMonitor) DeepCopyObject() runtime.Object { return m.DeepCopy() }

// DeepCopy returns a copy that shares no memory with the original.
func (m *ServiceMonitor) DeepCopy() *ServiceMonitor {
	made := &ServiceMonitor{TypeMeta: m.TypeMeta, ObjectMeta: *m.ObjectMeta.DeepCopy()}
	made.Spec.Selector = *m.Spec.Selector.DeepCopy()
	for _, endpoint := range m.Spec.Endpoints {
		made.Spec.Endpoints = append(made.Spec.Endpoints, endpoint.deepCopy())
	}
	return made
}

func (e Endpoint) deepCopy() Endpoint {
	if e.TargetPort != nil {
		e.TargetPort = new(*e.TargetPort)
	}
	e.Relabelings = slices.Clone(e.Relabelings)
	for i := range e.Relabelings {
		e.Relabelings[i].SourceLabels = slices.Clone(e.Relabelings[i].SourceLabels)
	}
	return e
}

// DeepCopyObject returns a copy.
func (l *ServiceMonitorList) DeepCopyObject() runtime.Object { return l.DeepCopy() }

// DeepCopy returns a copy that shares no memory with the original.
func (l *ServiceMonitorList) DeepCopy() *ServiceMonitorList {
	made := &ServiceMonitorList{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy()}
	for i := range l.Items {
		made.Items = append(made.Items, *l.Items[i].DeepCopy())
	}
	return made
}
