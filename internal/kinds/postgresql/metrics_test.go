package postgresql

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/kit/monitoring"
)

// TestPodMonitor: it exists only where its API is, and what it names exists: the pods, their port,
// the Secrets with their keys, and a name that the certificates of all instances have.
func TestPodMonitor(t *testing.T) {
	db, observed := newDatabase(replicas(3)), empty()
	for _, child := range Desired(db, observed, Decision{Replicas: 3}).Children {
		if _, is := child.Object.(*monitoring.PodMonitor); is {
			t.Error("it is made without its API")
		}
	}
	observed.HasMonitorAPI, observed.MonitorLabels = true, map[string]string{"release": "stack", "app": "other"}
	wanted := Desired(db, observed, Decision{Replicas: 3})
	monitor, template := child[*monitoring.PodMonitor](t, wanted, "db"), podTemplate(db, observed)
	if monitor.Labels["release"] != "stack" || monitor.Labels["app"] != "db" {
		t.Errorf("it has the labels %v", monitor.Labels)
	}
	if !labels.SelectorFromSet(monitor.Spec.Selector.MatchLabels).Matches(labels.Set(template.Labels)) {
		t.Errorf("it selects %v", monitor.Spec.Selector)
	}
	endpoint := monitor.Spec.PodMetricsEndpoints[0]
	ports := template.Spec.Containers[0].Ports
	if at := slices.IndexFunc(ports, func(p corev1.ContainerPort) bool { return p.Name == endpoint.Port }); at < 0 ||
		!slices.Contains(template.Spec.Containers[0].Args, "--metrics=:9187") || ports[at].ContainerPort != 9187 {
		t.Errorf("it scrapes %s of %v", endpoint.Port, ports)
	}
	for _, key := range []corev1.SecretKeySelector{endpoint.BasicAuth.Username, endpoint.BasicAuth.Password, *endpoint.TLSConfig.CA.Secret} {
		if len(child[*corev1.Secret](t, wanted, key.Name).Data[key.Key]) == 0 {
			t.Errorf("%s has no %s", key.Name, key.Key)
		}
	}
	for ordinal := range database.MaxReplicas {
		if !slices.Contains(Common(db, observed).CertificateNames(ordinal), endpoint.TLSConfig.ServerName) {
			t.Errorf("the certificate of instance %d is not for %s", ordinal, endpoint.TLSConfig.ServerName)
		}
	}
}
