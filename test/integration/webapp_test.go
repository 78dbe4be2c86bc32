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

// newApp returns a WebApp named shop with a minimal spec.
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

// create creates objects, in this order.
func create(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		if err := cluster.Client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
}

// change updates an object, and retries on conflicts.
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

// get returns a function for Eventually that reads the object of into's kind with the app's name.
func get[T client.Object](app *msappsv1.WebApp, into T) func(context.Context) (T, error) {
	return func(ctx context.Context) (T, error) {
		err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(app), into)
		return into, err
	}
}

// read reads the object of into's kind with the name of another one. It must exist.
func read[T client.Object](t *testing.T, named client.Object, into T) T {
	t.Helper()
	if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(named), into); err != nil {
		t.Fatal(err)
	}
	return into
}

// reading returns a function for Eventually that reads an object, and then returns the result of.
func reading[T any](object client.Object, of func() T) func(context.Context) (T, error) {
	return func(ctx context.Context) (T, error) {
		err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(object), object)
		return of(), err
	}
}

// makeAvailable does what the Deployment controller would do once all pods run.
func makeAvailable(t *testing.T, app *msappsv1.WebApp) {
	t.Helper()
	gomega.NewWithT(t).Eventually(func() error {
		return testenv.MakeAvailable(t.Context(), cluster.Client, client.ObjectKeyFromObject(app))
	}).Should(gomega.Succeed())
}

// ready returns status and reason of the app's condition Ready, if it is of the current generation.
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

func TestAnUnchangedWebAppCausesNoCall(t *testing.T) {
	g, space, manager := managed(t)
	app := newApp(space)
	create(t, app)
	g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("False Deploying"))
	makeAvailable(t, app)
	g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("True Available"))

	before := manager.Settle(t)
	// A foreign label on a child triggers a reconcile and changes nothing of ours. (An annotation
	// would do more: the API server increases the generation of a Deployment for it.)
	deployment := read(t, app, &appsv1.Deployment{})
	change(t, deployment, func(d *appsv1.Deployment) { d.Labels["example.com/note"] = "1" })
	// A second app goes through the same queue after it. When the second is done, so is the first.
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
		"/other")).To(gomega.BeEmpty(), "a restarted manager writes and reads nothing")
}
