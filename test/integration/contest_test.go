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

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/setup"
)

// TestContestedChildren checks that a controller that changes a child after each of our writes does
// not make us write for ever: the writes are slowed, and an event names the other field manager.
func TestContestedChildren(t *testing.T) {
	g, space, manager := managed(t)
	app := newApp(space)
	create(t, app)
	g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("False Deploying"))
	before := manager.Settle(t)

	stop := fight(t, app, func(live *appsv1.Deployment) bool {
		changes := live.Spec.MinReadySeconds != 7
		live.Spec.MinReadySeconds = 7
		return changes
	})
	g.Eventually(eventsOn(app)).WithContext(t.Context()).Should(gomega.ContainElement(gomega.ContainSubstring(
		"Deployment " + space + "/shop is changed again and again by fighter")))
	g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("False Contested"), "it is not as its spec says")
	stop()
	g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("False Deploying"))
	// Ten at once, and one or two after pauses of 1 and 2 s, until the event is seen.
	g.Expect(len(manager.Requests.Since(before, space+"/deployments/shop"))).To(gomega.BeNumerically("<", 30))
	manager.Settle(t)
}

// TestContestedPatches checks the same of what we write on objects of other owners: a controller
// that replaces our annotation on a workload each time is not followed for ever.
func TestContestedPatches(t *testing.T) {
	g, space, manager := managed(t)
	setData(t, space, "flags", "a", "1")
	web := user(space, "web", "flags", auto())
	create(t, web)
	g.Eventually(observedOn(web)).WithContext(t.Context()).ShouldNot(gomega.BeEmpty())
	before := manager.Settle(t)

	stop := fight(t, web, func(live *appsv1.Deployment) bool {
		changes := live.Annotations[configv1.AnnotationObserved] != "mine"
		live.Annotations[configv1.AnnotationObserved] = "mine"
		return changes
	})
	g.Eventually(eventsOn(web)).WithContext(t.Context()).Should(gomega.ContainElement(gomega.HaveSuffix(
		": " + configv1.AnnotationObserved + " is put back at most once a minute: it is changed again and again by fighter")))
	stop()
	g.Expect(len(manager.Requests.Since(before, space+"/deployments/web"))).To(gomega.BeNumerically("<", 30))
	manager.Settle(t)
}

// TestContestedSecrets checks the same of a Secret of which each content is new: certificates that
// are spoiled again and again are not issued again and again.
func TestContestedSecrets(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	own, db := namespace(t), newDatabase(namespace(t))
	manager := startManagerWith(t, db.Namespace, nil, func(settings *setup.Settings) {
		withImages(settings)
		settings.Namespace, settings.SecretNamespaces = own, []string{db.Namespace}
	})
	create(t, db)
	certificates := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: db.Namespace, Name: "db-certificates"}}
	g.Eventually(known(db, certificates.Name, certificates, always)).WithContext(t.Context()).Should(gomega.Succeed())
	manager.Settle(t)

	stop := fight(t, certificates, func(live *corev1.Secret) bool {
		changes := string(live.Data["0.crt"]) != "mine"
		live.Data["0.crt"] = []byte("mine")
		return changes
	})
	g.Eventually(eventsOn(db)).WithContext(t.Context()).Should(gomega.ContainElement(gomega.ContainSubstring(
		"Secret " + db.Namespace + "/db-certificates is changed again and again by fighter")))
	stop()
	manager.Settle(t)
}

// fight runs another controller, which edits the object of a type that has another one's name, as
// fast as it can, whenever edit reports a change. It returns a function that stops it.
func fight[T any, P interface {
	*T
	client.Object
}](t *testing.T, object client.Object, edit func(P) bool) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			live := P(new(T))
			if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(object), live); err != nil || !edit(live) {
				continue
			}
			err := cluster.Client.Update(ctx, live, client.FieldOwner("fighter"))
			if err != nil && !apierrors.IsConflict(err) && ctx.Err() == nil {
				t.Error(err)
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// observedOn returns our annotation on a workload.
func observedOn(web *appsv1.Deployment) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		var live appsv1.Deployment
		err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(web), &live)
		return live.Annotations[configv1.AnnotationObserved], err
	}
}
