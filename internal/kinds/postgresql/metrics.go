package postgresql

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/monitoring"
	"github.com/mainstay-platform/mainstay/internal/kit/naming"
)

const (
	metricsPortName = "metrics"
	metricsUser     = "metrics"
)

// MetricsName is the name of the Secret with which Prometheus reads the metrics.
func MetricsName(database string) string { return database + "-metrics" }

// metricsSecret is what Prometheus needs to read the metrics. It is made once: what users change in
// it counts, in the instances within a minute or two.
func metricsSecret(db *databasev1.PostgreSQL, observed Observed) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: childMeta(db, MetricsName(db.Name)), Type: corev1.SecretTypeBasicAuth,
		Data: map[string][]byte{
			corev1.BasicAuthUsernameKey: []byte(metricsUser), corev1.BasicAuthPasswordKey: []byte(observed.MetricsPassword),
		},
	}
}

// podMonitor has the Prometheus Operator scrape all instances. Each has a certificate for the name
// of the Service of all; of the Secret with the certificates, Prometheus gets the authority alone.
func podMonitor(db *databasev1.PostgreSQL, observed Observed) *monitoring.PodMonitor {
	key := func(secret, key string) corev1.SecretKeySelector {
		return corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: secret}, Key: key}
	}
	meta := childMeta(db, db.Name)
	meta.Labels = naming.Merged(observed.MonitorLabels, meta.Labels)
	return &monitoring.PodMonitor{
		ObjectMeta: meta,
		Spec: monitoring.PodMonitorSpec{
			Selector: metav1.LabelSelector{MatchLabels: part(db).Selector()},
			PodMetricsEndpoints: []monitoring.PodMetricsEndpoint{{
				Port: metricsPortName, Path: "/metrics", Scheme: "https",
				BasicAuth: &monitoring.BasicAuth{
					Username: key(MetricsName(db.Name), corev1.BasicAuthUsernameKey), Password: key(MetricsName(db.Name), corev1.BasicAuthPasswordKey),
				},
				TLSConfig: &monitoring.TLSConfig{
					CA:         monitoring.SecretOrConfigMap{Secret: new(key(CertificatesName(db.Name), AuthorityKey))},
					ServerName: db.Name + "-r." + db.Namespace + ".svc",
				},
			}},
		},
	}
}
