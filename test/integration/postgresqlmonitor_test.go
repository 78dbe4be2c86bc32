package integration

import (
	"context"
	"testing"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/monitoring"
	"github.com/mainstay-platform/mainstay/internal/setup"
	"github.com/mainstay-platform/mainstay/test/testenv"
)

// TestPodMonitors: a database is scraped from when the operator's API is there; an edit is undone,
// and nothing is written at rest.
func TestPodMonitors(t *testing.T) {
	g := gomega.NewWithT(t)
	definition, extensions := definitionIn(t, "testdata/podmonitors.yaml"), definitionsOf(t, cluster.Config)
	db := newDatabase(namespace(t))
	manager := testenv.StartManager(t, cluster.Config, testenv.ManagerOptions{
		Namespace: db.Namespace, Ended: func(error) {}, Settings: func(settings *setup.Settings) {
			withImages(settings)
			settings.ServiceMonitorLabels = map[string]string{"release": "stack"}
		},
	})
	create(t, db)
	g.Eventually(known(db, "db", &appsv1.StatefulSet{}, always)).WithContext(t.Context()).Should(gomega.Succeed())
	g.Expect(extensions.Create(t.Context(), definition)).To(gomega.Succeed())
	monitor := &monitoring.PodMonitor{}
	g.Eventually(known(db, "db", monitor, func() bool { return monitor.Labels["release"] == "stack" })).WithContext(t.Context()).
		Should(gomega.Succeed())
	change(t, monitor, func(m *monitoring.PodMonitor) { m.Spec.PodMetricsEndpoints[0].Scheme = "http" })
	g.Eventually(known(db, "db", monitor, func() bool { return monitor.Spec.PodMetricsEndpoints[0].Scheme == "https" })).
		WithContext(t.Context()).Should(gomega.Succeed())
	before := manager.Settle(t)
	change(t, db, func(db *databasev1.PostgreSQL) { metav1.SetMetaDataLabel(&db.ObjectMeta, "touched", "true") })
	manager.Settle(t)
	g.Expect(testenv.In(db.Namespace, manager.Requests.Since(before, "PATCH ", "/podmonitors"))).To(gomega.BeEmpty())

	g.Expect(extensions.Delete(t.Context(), definition)).To(gomega.Succeed())
	g.Eventually(manager.Done).Should(gomega.BeClosed(), "it can't stop watching what is gone")
	manager.Stop()
	g.Eventually(func(ctx context.Context) bool {
		err := cluster.Client.List(ctx, &monitoring.PodMonitorList{})
		return meta.IsNoMatchError(err) || apierrors.IsNotFound(err)
	}).WithContext(t.Context()).Should(gomega.BeTrue())
}
