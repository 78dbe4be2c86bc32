package integration

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
)

// kstatus returns the status that Helm, Flux and Argo CD would compute for the app.
func kstatus(app *msappsv1.WebApp) func(context.Context) (status.Status, error) {
	return func(ctx context.Context) (status.Status, error) {
		var seen msappsv1.WebApp
		if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(app), &seen); err != nil {
			return "", err
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&seen)
		if err != nil {
			return "", err
		}
		result, err := status.Compute(&unstructured.Unstructured{Object: content})
		return result.Status, err
	}
}

// setDeployment edits the status of the app's Deployment, as its controller would.
func setDeployment(t *testing.T, app *msappsv1.WebApp, edit func(*appsv1.Deployment)) {
	t.Helper()
	gomega.NewWithT(t).Eventually(func() error {
		var deployment appsv1.Deployment
		if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(app), &deployment); err != nil {
			return err
		}
		deployment.Status.ObservedGeneration = deployment.Generation
		edit(&deployment)
		return cluster.Client.Status().Update(t.Context(), &deployment)
	}).Should(gomega.Succeed())
}

func TestStatusFollowsTheRollout(t *testing.T) {
	g, space, _ := managed(t)
	app := newApp(space)
	create(t, app)
	g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("False Deploying"))
	g.Eventually(kstatus(app)).WithContext(t.Context()).Should(gomega.Equal(status.InProgressStatus))

	makeAvailable(t, app)
	g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("True Available"))
	g.Eventually(kstatus(app)).WithContext(t.Context()).Should(gomega.Equal(status.CurrentStatus))
	seen := read(t, app, &msappsv1.WebApp{})
	g.Expect(seen.Status.Phase).To(gomega.Equal(msappsv1.PhaseRunning))
	g.Expect(seen.Status.ReplicaSummary).To(gomega.Equal("2/2"))
	g.Expect(seen.Status.URL).To(gomega.Equal("http://shop." + app.Namespace + ".svc:8080"))
	g.Expect(seen.Status.Selector).To(gomega.Equal("app=shop,app.kubernetes.io/component=webapp"))

	// From the change on, Ready=True must not be reported for the new generation.
	change(t, app, func(app *msappsv1.WebApp) { app.Spec.Image = "mainstay/demo-web:2.0" })
	g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("False Deploying"))

	setDeployment(t, app, func(d *appsv1.Deployment) {
		d.Status.UpdatedReplicas = 1
		d.Status.Conditions = []appsv1.DeploymentCondition{
			{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded"},
		}
	})
	g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("False RolloutFailed"))
	g.Eventually(kstatus(app)).WithContext(t.Context()).Should(gomega.Equal(status.FailedStatus))

	g.Eventually(eventsOn(app)).WithContext(t.Context()).Should(gomega.ContainElements(gomega.HavePrefix("Normal Deploying: "),
		gomega.HavePrefix("Normal Available: "), gomega.HavePrefix("Warning RolloutFailed: ")))
}

// startPod creates an app, and then a pod of its Deployment.
func startPod(t *testing.T, app *msappsv1.WebApp, image string) *corev1.Pod {
	t.Helper()
	create(t, app)
	gomega.NewWithT(t).Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("False Deploying"))
	deployment := read(t, app, &appsv1.Deployment{})
	setDeployment(t, app, func(*appsv1.Deployment) {})
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: "shop-1", Labels: deployment.Spec.Template.Labels},
		Spec:       corev1.PodSpec{ServiceAccountName: "shop", Containers: []corev1.Container{{Name: "webapp", Image: image}}},
	}
	create(t, pod)
	return pod
}

func TestPodProblemReachesStatus(t *testing.T) {
	g, space, _ := managed(t)
	app := newApp(space)
	pod := startPod(t, app, "nowhere/none:1")
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "webapp", Image: "nowhere/none:1",
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: `Back-off pulling image "nowhere/none:1": ErrImagePull: not found`}},
	}}
	g.Expect(cluster.Client.Status().Update(t.Context(), pod)).To(gomega.Succeed())
	g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("False ImagePullFailed"))
	seen := read(t, app, &msappsv1.WebApp{})
	g.Expect(seen.Status.Conditions[0].Type).To(gomega.Equal("Degraded"))
	g.Expect(seen.Status.Conditions[0].Message).To(gomega.Equal("1 of 1 pods: image nowhere/none:1 of container webapp can't be pulled: not found"))
	g.Expect(seen.Status.Phase).To(gomega.Equal(msappsv1.PhaseFailed))
}

// TestThePodsEventsReachStatus checks that the events of a pod that does not become ready are read,
// of all that there are.
func TestThePodsEventsReachStatus(t *testing.T) {
	g, space, _ := managed(t)
	app := newApp(space)
	pod := startPod(t, app, "shop:1")
	for name, message := range map[string]string{"Unhealthy": "Readiness probe failed: connection refused", "Pulled": "Readiness probe failed: no"} {
		event := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, GenerateName: "shop-"}, Reason: name, Message: message,
			Type: corev1.EventTypeWarning, LastTimestamp: metav1.Now()}
		event.InvolvedObject = corev1.ObjectReference{Kind: "Pod", Namespace: app.Namespace, Name: pod.Name, UID: pod.UID,
			FieldPath: "spec.containers{webapp}"}
		create(t, event)
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "webapp",
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(time.Now().Add(-time.Hour))}}}}
	g.Expect(cluster.Client.Status().Update(t.Context(), pod)).To(gomega.Succeed())
	g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("False PodsNotReady"))
	seen := read(t, app, &msappsv1.WebApp{})
	g.Expect(seen.Status.Conditions[0].Message).To(gomega.Equal(
		"1 of 1 pods: container webapp does not pass its readiness probe: connection refused"))
}

func TestAMissingServiceAccountIsRetried(t *testing.T) {
	g, space, _ := managed(t)
	app := newApp(space, func(spec *msappsv1.WebAppSpec) { spec.ServiceAccountName = "robot" })
	create(t, app)
	g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("False ServiceAccountNotFound"))
	g.Expect(gone(app, &appsv1.Deployment{})(t.Context())).To(gomega.Succeed())
	create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: "robot"}})
	g.Eventually(get(app, &appsv1.Deployment{})).WithContext(t.Context()).Should(gomega.Not(gomega.BeNil()))
}

func TestQuotaRefusalIsReportedInTheAPIsWords(t *testing.T) {
	g, space, _ := managed(t)
	app := newApp(space)
	forbid(t, space, "count/deployments.apps")
	create(t, app)
	g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("False Refused"))
	seen := read(t, app, &msappsv1.WebApp{})
	g.Expect(seen.Status.Conditions[0].Message).To(gomega.ContainSubstring("exceeded quota: none"))
}

func TestPausedChangesNothingAndSaysWhatWaits(t *testing.T) {
	g, space, _ := managed(t)
	app := newApp(space)
	create(t, app)
	makeAvailable(t, app)
	g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("True Available"))
	change(t, app, func(app *msappsv1.WebApp) { app.Spec.Paused = true })
	g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("True Available"))
	before := read(t, app, &appsv1.Deployment{})
	before = before.DeepCopy()
	change(t, app, func(app *msappsv1.WebApp) { app.Spec.Image = "mainstay/demo-web:2.0" })
	g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("False PausedByUser"))
	after := read(t, app, &appsv1.Deployment{})
	g.Expect(after.Generation).To(gomega.Equal(before.Generation))
	change(t, app, func(app *msappsv1.WebApp) { app.Spec.Paused = false })
	g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("False Deploying"))
}

func TestAnInvalidSpecWritesNothingAndIsNotTriedAgain(t *testing.T) {
	g, space, manager := managed(t)
	app := newApp(space, func(spec *msappsv1.WebAppSpec) {
		spec.SecurityProfile = msappsv1.SecurityRestricted
		spec.SecurityContext = &corev1.SecurityContext{RunAsUser: ptr.To[int64](0)}
	})
	create(t, app)
	g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("False InvalidSpec"))
	g.Eventually(kstatus(app)).WithContext(t.Context()).Should(gomega.Equal(status.FailedStatus))
	for _, call := range manager.Requests.Since(0, app.Namespace) {
		if !strings.HasPrefix(call, "GET ") && !strings.HasSuffix(call, "/status") {
			t.Errorf("wrote: %s", call)
		}
	}
	change(t, app, func(app *msappsv1.WebApp) { app.Spec.SecurityContext = nil })
	g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("False Deploying"))
}

// TestAStashInV1IsNoticed, and that it is gone: neither changes the spec.
func TestAStashInV1IsNoticed(t *testing.T) {
	g, space, _ := managed(t)
	app := newApp(space)
	create(t, app)
	g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("False Deploying"))
	change(t, app, func(app *msappsv1.WebApp) {
		metav1.SetMetaDataAnnotation(&app.ObjectMeta, "mainstay.dev/v1-spec", "{}")
	})
	g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("False InvalidSpec"))
	change(t, app, func(app *msappsv1.WebApp) { delete(app.Annotations, "mainstay.dev/v1-spec") })
	g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("False Deploying"))
}

func TestScaleSubresourceAndFieldSelector(t *testing.T) {
	g, space, _ := managed(t)
	app := newApp(space)
	create(t, app)
	scale := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":4}}`))
	g.Expect(cluster.Client.SubResource("scale").Patch(t.Context(), app.DeepCopy(), scale)).To(gomega.Succeed())
	g.Eventually(func() (int32, error) {
		deployment, err := get(app, &appsv1.Deployment{})(t.Context())
		return ptr.Deref(deployment.Spec.Replicas, 0), client.IgnoreNotFound(err)
	}).Should(gomega.BeEquivalentTo(4))
	var apps msappsv1.WebAppList
	g.Expect(cluster.Client.List(t.Context(), &apps, client.InNamespace(app.Namespace),
		client.MatchingFields{"spec.image": app.Spec.Image})).To(gomega.Succeed())
	g.Expect(apps.Items).To(gomega.HaveLen(1))
	g.Expect(cluster.Client.List(t.Context(), &apps, client.InNamespace(app.Namespace),
		client.MatchingFields{"spec.image": "other"})).To(gomega.Succeed())
	g.Expect(apps.Items).To(gomega.BeEmpty())
}

// gatewayCRD returns the CRD of HTTPRoute from the module of the Gateway API.
func gatewayCRD(t *testing.T) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	directory, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/gateway-api").Output()
	if err != nil {
		t.Fatal(err)
	}
	document, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(directory)),
		"config/crd/standard/gateway.networking.k8s.io_httproutes.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	definition := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal(document, definition); err != nil {
		t.Fatal(err)
	}
	return definition
}

func TestRoutesAreMadeOnceTheirAPIAppears(t *testing.T) {
	g := gomega.NewWithT(t)
	manager := startManager(t, everywhere)
	app := newApp(namespace(t), func(spec *msappsv1.WebAppSpec) {
		spec.Route = &msappsv1.Route{ParentRefs: []msappsv1.ParentReference{{Name: "public"}}, Hostnames: []msappsv1.Hostname{"shop.example.com"}}
	})
	create(t, app)
	makeAvailable(t, app)
	g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("False RouteAPIMissing"))

	scheme := runtime.NewScheme()
	g.Expect(apiextensionsv1.AddToScheme(scheme)).To(gomega.Succeed())
	extensions, err := client.New(cluster.Config, client.Options{Scheme: scheme})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	definition := gatewayCRD(t)
	g.Expect(extensions.Create(t.Context(), definition)).To(gomega.Succeed())
	g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("False RouteNotAccepted"))

	route := read(t, app, &gatewayv1.HTTPRoute{})
	accepted := metav1.Condition{Status: metav1.ConditionTrue, Reason: "Accepted", ObservedGeneration: route.Generation,
		LastTransitionTime: metav1.Now()}
	parent := gatewayv1.RouteParentStatus{ParentRef: gatewayv1.ParentReference{Name: "public"}, ControllerName: "example.com/gateway"}
	for _, kind := range []gatewayv1.RouteConditionType{gatewayv1.RouteConditionAccepted, gatewayv1.RouteConditionResolvedRefs} {
		accepted.Type = string(kind)
		parent.Conditions = append(parent.Conditions, accepted)
	}
	route.Status.Parents = []gatewayv1.RouteParentStatus{parent}
	before := manager.Requests.Count()
	g.Expect(cluster.Client.Status().Update(t.Context(), route)).To(gomega.Succeed())
	g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("True Available"))
	g.Expect(manager.Requests.Since(before, "/httproutes/")).To(gomega.BeEmpty(), "the route is recognized as unchanged")

	t.Run("a manager that finds the API writes nothing", func(t *testing.T) {
		g := gomega.NewWithT(t)
		manager.Stop()
		restarted := startManager(t, everywhere)
		other := newApp(app.Namespace)
		other.Name = "other"
		create(t, other)
		g.Eventually(ready(other)).WithContext(t.Context()).Should(gomega.Equal("False Deploying"))
		g.Expect(restarted.Requests.Since(0, app.Namespace+"/httproutes", app.Namespace+"/webapps/shop")).To(gomega.BeEmpty())
		restarted.Stop()
	})
	g.Expect(extensions.Delete(t.Context(), definition)).To(gomega.Succeed())
	g.Eventually(func() error {
		err := cluster.Client.List(t.Context(), &gatewayv1.HTTPRouteList{})
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			return nil
		}
		return errors.New("HTTPRoute is still served")
	}).Should(gomega.Succeed())
}

func TestReadinessIsUnknownWhileAWriteFails(t *testing.T) {
	g, space, manager := managed(t)
	app := newApp(space)
	create(t, app)
	makeAvailable(t, app)
	g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("True Available"))
	manager.Requests.Break("PATCH /api/v1/namespaces/" + app.Namespace + "/services")
	service := read(t, app, &corev1.Service{})
	g.Expect(cluster.Client.Delete(t.Context(), service)).To(gomega.Succeed())
	g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("Unknown ReconcileFailed"))
	g.Eventually(eventsOn(app)).WithContext(t.Context()).Should(gomega.ContainElement(gomega.And(
		gomega.HavePrefix("Warning ReconcileFailed: applying Service "+app.Namespace+"/shop:"),
		gomega.ContainSubstring("the network is broken"))))
	manager.Requests.Break("")
	g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("True Available"))
	g.Expect(get(app, &corev1.Service{})(t.Context())).NotTo(gomega.BeNil())
}
