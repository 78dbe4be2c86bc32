package monitoring

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// PodMonitor says how Prometheus scrapes pods.
type PodMonitor struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec PodMonitorSpec `json:"spec"`
}

// PodMonitorList is a list of PodMonitors.
type PodMonitorList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []PodMonitor `json:"items"`
}

// PodMonitorSpec says what is scraped.
type PodMonitorSpec struct {
	// Selector selects pods of the PodMonitor's namespace.
	Selector            metav1.LabelSelector `json:"selector"`
	PodMetricsEndpoints []PodMetricsEndpoint `json:"podMetricsEndpoints"`
}

// PodMetricsEndpoint is a port of the selected pods, and how it is scraped.
type PodMetricsEndpoint struct {
	// Port is the name of a port of a container.
	Port      string     `json:"port,omitempty"`
	Path      string     `json:"path,omitempty"`
	Scheme    string     `json:"scheme,omitempty"`
	BasicAuth *BasicAuth `json:"basicAuth,omitempty"`
	TLSConfig *TLSConfig `json:"tlsConfig,omitempty"`
}

// BasicAuth names the keys of Secrets of the namespace with a user and a password.
type BasicAuth struct {
	Username corev1.SecretKeySelector `json:"username,omitzero"`
	Password corev1.SecretKeySelector `json:"password,omitzero"`
}

// TLSConfig is how a certificate is checked.
type TLSConfig struct {
	CA         SecretOrConfigMap `json:"ca,omitzero"`
	ServerName string            `json:"serverName,omitempty"`
}

// SecretOrConfigMap names a key of a Secret.
type SecretOrConfigMap struct {
	Secret *corev1.SecretKeySelector `json:"secret,omitempty"`
}

// DeepCopyObject returns a copy.
func (m *PodMonitor) DeepCopyObject() runtime.Object { return m.DeepCopy() }

// DeepCopy returns a copy that shares no memory with the original.
func (m *PodMonitor) DeepCopy() *PodMonitor {
	made := &PodMonitor{TypeMeta: m.TypeMeta, ObjectMeta: *m.ObjectMeta.DeepCopy()}
	made.Spec.Selector = *m.Spec.Selector.DeepCopy()
	made.Spec.PodMetricsEndpoints = slices.Clone(m.Spec.PodMetricsEndpoints)
	for i := range made.Spec.PodMetricsEndpoints {
		made.Spec.PodMetricsEndpoints[i].separate()
	}
	return made
}

// separate gives an endpoint memory of its own.
func (e *PodMetricsEndpoint) separate() {
	if e.BasicAuth != nil {
		e.BasicAuth = &BasicAuth{Username: *e.BasicAuth.Username.DeepCopy(), Password: *e.BasicAuth.Password.DeepCopy()}
	}
	if e.TLSConfig != nil {
		e.TLSConfig = new(*e.TLSConfig)
		e.TLSConfig.CA.Secret = e.TLSConfig.CA.Secret.DeepCopy()
	}
}

// DeepCopyObject returns a copy.
func (l *PodMonitorList) DeepCopyObject() runtime.Object { return l.DeepCopy() }

// DeepCopy returns a copy that shares no memory with the original.
func (l *PodMonitorList) DeepCopy() *PodMonitorList {
	made := &PodMonitorList{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy()}
	for i := range l.Items {
		made.Items = append(made.Items, *l.Items[i].DeepCopy())
	}
	return made
}
