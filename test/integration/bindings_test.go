package integration

import (
	"context"
	"testing"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/api"
	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/setup"
	"github.com/mainstay-platform/mainstay/test/testenv"
)

// bindTo binds an app to the PostgreSQL db.
func bindTo(spec *msappsv1.WebAppSpec) {
	spec.Bindings = []msappsv1.Binding{{Kind: "PostgreSQL", Name: "db"}}
}

// boundPods returns what the pods of an app are bound to, and their environment variables from
// Secrets.
func boundPods(app *msappsv1.WebApp) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		var deployment appsv1.Deployment
		err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(app), &deployment)
		return deployment.Spec.Template.Annotations[api.AnnotationBindings], err
	}
}

// TestBindingWaits: an app starts once its database takes writes, keeps its pods when the database
// goes, and replaces them when the credentials change.
func TestBindingWaits(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	own, space := namespace(t), namespace(t)
	manager := startManagerWith(t, space, nil, func(settings *setup.Settings) {
		withImages(settings)
		settings.Namespace, settings.SecretNamespaces = own, []string{space}
	})
	app, db := newApp(space, bindTo), newDatabase(space)
	db.Spec.Replicas = 1
	create(t, app)
	g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("False WaitingForBinding"))
	seen := &msappsv1.WebApp{}
	g.Expect(cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(app), seen)).To(gomega.Succeed())
	g.Expect(seen.Status.Conditions).To(gomega.ContainElement(gomega.HaveField("Message",
		"spec.bindings: waiting for PostgreSQL db, which does not exist")))
	manager.Settle(t)
	_, err := boundPods(app)(t.Context())
	g.Expect(apierrors.IsNotFound(err)).To(gomega.BeTrue(), "the Deployment exists before the database: %v", err)

	create(t, db)
	observedRevision(t, db, "db-1")
	runs(t, db, 0, contract.Report{Role: contract.Primary, State: "Leading", Term: 2, Timeline: 3, Provided: true})
	g.Eventually(boundPods(app)).WithContext(t.Context()).Should(gomega.HavePrefix("PostgreSQL/db="))
	first, err := boundPods(app)(t.Context())
	g.Expect(err).NotTo(gomega.HaveOccurred())
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: app.Name}}
	g.Expect(cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(deployment), deployment)).To(gomega.Succeed())
	g.Expect(deployment.Spec.Template.Spec.Containers[0].Env).To(gomega.ContainElement(corev1.EnvVar{Name: "DATABASE_URL",
		ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "db-app"}, Key: "uri"}}}))
	rollOut(t, deployment)
	g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("True Available"))
	manager.Settle(t)

	secret := &corev1.Secret{}
	g.Expect(known(db, "db-app", secret, always)(t.Context())).To(gomega.Succeed())
	metav1.SetMetaDataAnnotation(&secret.ObjectMeta, "example.com/note", "1")
	g.Expect(cluster.Client.Update(t.Context(), secret)).To(gomega.Succeed())
	manager.Settle(t)
	g.Expect(boundPods(app)(t.Context())).To(gomega.Equal(first), "an annotation of the Secret is no other password")
	secret.Data["password"] = []byte("another")
	g.Expect(cluster.Client.Update(t.Context(), secret)).To(gomega.Succeed())
	g.Eventually(boundPods(app)).WithContext(t.Context()).ShouldNot(gomega.Equal(first))
	second, err := boundPods(app)(t.Context())
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(second).To(gomega.HavePrefix("PostgreSQL/db="))

	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "db-0"}}
	g.Expect(cluster.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0))).To(gomega.Succeed())
	g.Eventually(func(ctx context.Context) (string, error) {
		stored := &databasev1.PostgreSQL{}
		err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(db), stored)
		return stored.Status.Primary, err
	}).WithContext(t.Context()).Should(gomega.BeEmpty())
	manager.Settle(t)
	g.Expect(boundPods(app)(t.Context())).To(gomega.Equal(second), "a database without a primary changes nothing")
	g.Expect(cluster.Client.Delete(t.Context(), db)).To(gomega.Succeed())
	manager.Settle(t)
	g.Expect(boundPods(app)(t.Context())).To(gomega.Equal(second), "a database that is gone changes nothing")
}

// TestBindingRefused: by the schema, and by what the installation has.
func TestBindingRefused(t *testing.T) {
	g, space, _ := managed(t)
	refused := func(value string) string { return testenv.InvalidValue(t, cluster.Config, value, "string") }
	for want, binding := range map[string]msappsv1.Binding{
		"spec.bindings[0].kind: " + refused(`"postgresql"`) + ": must be the name of a kind, for example PostgreSQL": {Kind: "postgresql", Name: "db"},
		"spec.bindings[0].name: " + refused(`"a.b"`) + ": must be a DNS label":                                       {Kind: "PostgreSQL", Name: "a.b"},
		"spec.bindings[0].prefix: " + refused(`"1"`) + ": must be letters":                                           {Kind: "PostgreSQL", Name: "db", Prefix: "1"},
	} {
		err := cluster.Client.Create(t.Context(), newApp(space, func(s *msappsv1.WebAppSpec) { s.Bindings = []msappsv1.Binding{binding} }))
		g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring(want)))
	}
	app := newApp(space, func(s *msappsv1.WebAppSpec) { s.Bindings = []msappsv1.Binding{{Kind: "Shop", Name: "db"}} })
	create(t, app)
	g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("False InvalidSpec"))
}
