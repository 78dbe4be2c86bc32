package integration

import (
	"context"
	"testing"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	"github.com/mainstay-platform/mainstay/test/testenv"
)

// newApp is a WebApp of the least spec, named shop.
func newApp(namespace string, change ...func(*msappsv1.WebAppSpec)) *msappsv1.WebApp {
	app := &msappsv1.WebApp{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shop"},
		Spec:       msappsv1.WebAppSpec{Image: "mainstay/demo-web:1.0", Replicas: ptr.To[int32](2)},
	}
	for _, apply := range change {
		apply(&app.Spec)
	}
	return app
}

func create(t *testing.T, object client.Object) {
	t.Helper()
	if err := cluster.Client.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

// change updates an object until no one else interferes.
func change[T client.Object](t *testing.T, object T, edit func(T)) {
	t.Helper()
	gomega.NewWithT(t).Eventually(func() error {
		if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		edit(object)
		return cluster.Client.Update(t.Context(), object)
	}).Should(gomega.Succeed())
}

// get is an object of app's name and kind of into; a function for Eventually.
func get[T client.Object](app *msappsv1.WebApp, into T) func(context.Context) (T, error) {
	return func(ctx context.Context) (T, error) {
		err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(app), into)
		return into, err
	}
}

// makeAvailable does what the Deployment controller would, once all pods run.
func makeAvailable(t *testing.T, app *msappsv1.WebApp) {
	t.Helper()
	gomega.NewWithT(t).Eventually(func() error {
		return testenv.MakeAvailable(t.Context(), cluster.Client, client.ObjectKeyFromObject(app))
	}).Should(gomega.Succeed())
}

// ready is status and reason of the app's condition Ready, with what generation it describes.
func ready(app *msappsv1.WebApp) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		var seen msappsv1.WebApp
		if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(app), &seen); err != nil {
			return "", err
		}
		if seen.Status.ObservedGeneration != seen.Generation {
			return "stale", nil
		}
		for _, condition := range seen.Status.Conditions {
			if condition.Type == msappsv1.ConditionReady {
				return string(condition.Status) + " " + condition.Reason, nil
			}
		}
		return "unset", nil
	}
}

func TestAnUnchangedWebAppCostsNoCall(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	space := namespace(t)
	manager := startManager(t, space)
	app := newApp(space)
	create(t, app)
	g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("False Deploying"))
	makeAvailable(t, app)
	g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("True Available"))

	before := manager.Settle(t)
	// A foreign label on a child wakes the reconciler, and changes nothing that is ours. (An
	// annotation would do more: the API server counts it as a new generation of a Deployment.)
	deployment, err := get(app, &appsv1.Deployment{})(t.Context())
	g.Expect(err).NotTo(gomega.HaveOccurred())
	change(t, deployment, func(d *appsv1.Deployment) { d.Labels["example.com/note"] = "1" })
	// A second app goes through the same queue after it: when it is done, so is the first.
	other := newApp(app.Namespace)
	other.Name = "other"
	create(t, other)
	g.Eventually(ready(other)).WithContext(t.Context()).Should(gomega.Equal("False Deploying"))
	g.Expect(manager.Requests.Since(before, "/shop")).To(gomega.BeEmpty())
	makeAvailable(t, other)
	g.Eventually(ready(other)).WithContext(t.Context()).Should(gomega.Equal("True Available"))

	manager.Stop()
	restarted := startManager(t, space)
	third := newApp(app.Namespace)
	third.Name = "third"
	create(t, third)
	g.Eventually(ready(third)).WithContext(t.Context()).Should(gomega.Equal("False Deploying"))
	g.Expect(restarted.Requests.Since(0, app.Namespace+"/deployments/shop", app.Namespace+"/services/shop", app.Namespace+"/webapps/shop",
		"/other")).To(gomega.BeEmpty(), "a restart writes and asks nothing")
}
