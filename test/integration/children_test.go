package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/api"
	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
)

// gone returns a check that fails while the object exists.
func gone(app *msappsv1.WebApp, object client.Object) func(context.Context) error {
	return func(ctx context.Context) error {
		err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(app), object)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil {
			return errors.New("it is still there")
		}
		return err
	}
}

func TestHandEditsAreUndone(t *testing.T) {
	t.Parallel()
	const forgedHash = "0123456789abcdef0123456789abcdef"
	space := namespace(t)
	startManager(t, space)
	app := newApp(space)
	create(t, app)
	gomega.NewWithT(t).Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("False Deploying"))

	cases := map[string]struct {
		object client.Object
		edit   func(client.Object)
		healed func(client.Object) bool
	}{
		"replicas": {
			&appsv1.Deployment{},
			func(o client.Object) { o.(*appsv1.Deployment).Spec.Replicas = ptr.To[int32](7) },
			func(o client.Object) bool { return *o.(*appsv1.Deployment).Spec.Replicas == 2 },
		},
		"image": {
			&appsv1.Deployment{},
			func(o client.Object) { o.(*appsv1.Deployment).Spec.Template.Spec.Containers[0].Image = "evil" },
			func(o client.Object) bool {
				return o.(*appsv1.Deployment).Spec.Template.Spec.Containers[0].Image == "mainstay/demo-web:1.0"
			},
		},
		"the label that the cache selects by": {
			&corev1.Service{},
			func(o client.Object) { delete(o.GetLabels(), "app.kubernetes.io/managed-by") },
			func(o client.Object) bool { return o.GetLabels()["app.kubernetes.io/managed-by"] == "mainstay" },
		},
		"port": {
			&corev1.Service{},
			func(o client.Object) { o.(*corev1.Service).Spec.Ports[0].Port = 81 },
			func(o client.Object) bool { return o.(*corev1.Service).Spec.Ports[0].Port == 8080 },
		},
		"the hash of what was applied": {
			&corev1.Service{},
			func(o client.Object) { o.GetAnnotations()[api.AnnotationApplied] = forgedHash },
			func(o client.Object) bool { return o.GetAnnotations()[api.AnnotationApplied] != forgedHash },
		},
		"image and hash at once": {
			&appsv1.Deployment{},
			func(o client.Object) {
				o.(*appsv1.Deployment).Spec.Template.Spec.Containers[0].Image = "evil"
				o.GetAnnotations()[api.AnnotationApplied] = forgedHash
			},
			func(o client.Object) bool {
				return o.(*appsv1.Deployment).Spec.Template.Spec.Containers[0].Image == "mainstay/demo-web:1.0" &&
					o.GetAnnotations()[api.AnnotationApplied] != forgedHash
			},
		},
		"token": {
			&corev1.ServiceAccount{},
			func(o client.Object) { o.(*corev1.ServiceAccount).AutomountServiceAccountToken = new(true) },
			func(o client.Object) bool { return !*o.(*corev1.ServiceAccount).AutomountServiceAccountToken },
		},
		"budget": {
			&policyv1.PodDisruptionBudget{},
			func(o client.Object) { o.(*policyv1.PodDisruptionBudget).Spec.MaxUnavailable.IntVal = 2 },
			func(o client.Object) bool {
				return o.(*policyv1.PodDisruptionBudget).Spec.MaxUnavailable.IntVal == 1
			},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			c.object.SetNamespace(app.Namespace)
			c.object.SetName(app.Name)
			change(t, c.object, c.edit)
			g.Eventually(reading(c.object, func() bool { return c.healed(c.object) })).WithContext(t.Context()).Should(gomega.BeTrue())
		})
	}
}

func TestDeletedChildrenComeBack(t *testing.T) {
	t.Parallel()
	space := namespace(t)
	startManager(t, space)
	app := newApp(space, func(spec *msappsv1.WebAppSpec) {
		spec.Ingress = &msappsv1.Ingress{Host: "shop.example.com"}
		spec.NetworkPolicy = &msappsv1.NetworkPolicy{}
	})
	create(t, app)
	for name, object := range map[string]client.Object{
		"Deployment":          &appsv1.Deployment{},
		"Service":             &corev1.Service{},
		"ServiceAccount":      &corev1.ServiceAccount{},
		"Ingress":             &networkingv1.Ingress{},
		"NetworkPolicy":       &networkingv1.NetworkPolicy{},
		"PodDisruptionBudget": &policyv1.PodDisruptionBudget{},
	} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			g.Eventually(get(app, object)).WithContext(t.Context()).Should(gomega.Not(gomega.BeNil()))
			uid := object.GetUID()
			g.Expect(cluster.Client.Delete(t.Context(), object)).To(gomega.Succeed())
			g.Eventually(reading(object, object.GetUID)).WithContext(t.Context()).ShouldNot(gomega.Equal(uid))
		})
	}
}

func TestARemovedFeatureDeletesItsChildAndOnlyIt(t *testing.T) {
	g, space, _ := managed(t)
	app := newApp(space, func(spec *msappsv1.WebAppSpec) {
		spec.Ingress = &msappsv1.Ingress{Host: "shop.example.com"}
		spec.NetworkPolicy = &msappsv1.NetworkPolicy{}
	})
	create(t, app)
	g.Eventually(get(app, &networkingv1.Ingress{})).WithContext(t.Context()).Should(gomega.Not(gomega.BeNil()))
	policy := read(t, app, &networkingv1.NetworkPolicy{})
	foreign := &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: "by-hand",
			Labels: map[string]string{"app.kubernetes.io/managed-by": "mainstay"}},
		Spec: networkingv1.IngressSpec{DefaultBackend: &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "x",
			Port: networkingv1.ServiceBackendPort{Number: 80}}}},
	}
	create(t, foreign)

	change(t, app, func(app *msappsv1.WebApp) { app.Spec.Ingress = nil })
	g.Eventually(gone(app, &networkingv1.Ingress{})).WithContext(t.Context()).Should(gomega.Succeed())
	after := read(t, app, &networkingv1.NetworkPolicy{})
	g.Expect(after.UID).To(gomega.Equal(policy.UID))
	g.Expect(cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(foreign), foreign)).To(gomega.Succeed())
}

// foreignDeployment returns a Deployment made by hand with kubectl's classic fields and a container
// of another name.
func foreignDeployment(namespace string) *appsv1.Deployment {
	labels := map[string]string{"run": "legacy"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shop"},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](3),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "legacy:1",
					Env: []corev1.EnvVar{{Name: "A", Value: "1"}}}}},
			},
		},
	}
}

func TestAForeignObjectIsAConflictAndStaysUntouched(t *testing.T) {
	g, space, _ := managed(t)
	app := newApp(space)
	foreign := foreignDeployment(app.Namespace)
	create(t, foreign, app)
	g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("False Conflict"))
	seen := read(t, app, &msappsv1.WebApp{})
	message := seen.Status.Conditions[0].Message
	g.Expect(message).To(gomega.ContainSubstring("Deployment " + app.Namespace + "/shop exists"))
	g.Expect(message).To(gomega.ContainSubstring("mainstay.dev/adopt=WebApp/shop"))
	g.Expect(seen.Status.Phase).To(gomega.Equal(msappsv1.PhaseFailed))
	after := read(t, app, &appsv1.Deployment{})
	g.Expect(after.ResourceVersion).To(gomega.Equal(foreign.ResourceVersion))

	t.Run("deleting the WebApp's own does not touch it either", func(t *testing.T) {
		g := gomega.NewWithT(t)
		g.Expect(cluster.Client.Delete(t.Context(), foreign)).To(gomega.Succeed())
		// The conflict is checked again about every ten seconds.
		g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("False Deploying"))
	})
}

// TestACreationReadsNothing: each child is one request, and the first Deployment another one, its
// dry run. See docs/decisions/20261125-create-by-apply.md.
func TestACreationReadsNothing(t *testing.T) {
	g, space, manager := managed(t)
	create(t, newApp(space))
	g.Eventually(func() []string {
		made := manager.Requests.Since(0, "/shop")
		slices.Sort(made)
		return made
	}).WithContext(t.Context()).Should(gomega.Equal([]string{
		"PATCH /api/v1/namespaces/" + space + "/serviceaccounts/shop",
		"PATCH /api/v1/namespaces/" + space + "/services/shop",
		"PATCH /apis/apps.mainstay.dev/v1/namespaces/" + space + "/webapps/shop/status",
		"PATCH /apis/apps/v1/namespaces/" + space + "/deployments/shop",
		"PATCH /apis/apps/v1/namespaces/" + space + "/deployments/shop",
		"PATCH /apis/policy/v1/namespaces/" + space + "/poddisruptionbudgets/shop",
	}))
}

func TestConsentAdoptsWithoutASecondRollout(t *testing.T) {
	g, space, _ := managed(t)
	app := newApp(space, func(spec *msappsv1.WebAppSpec) { spec.Replicas = nil })
	foreign := foreignDeployment(app.Namespace)
	foreign.Annotations = map[string]string{"mainstay.dev/adopt": "WebApp/shop"}
	create(t, foreign)
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: "shop",
			Annotations: map[string]string{"mainstay.dev/adopt": "WebApp/shop"}},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Selector: map[string]string{"run": "legacy"},
			Ports: []corev1.ServicePort{{Port: 8080}}},
	}
	create(t, service, app)
	g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("False Deploying"))

	adopted := read(t, app, &appsv1.Deployment{})
	g.Expect(adopted.UID).To(gomega.Equal(foreign.UID))
	g.Expect(*adopted.Spec.Replicas).To(gomega.BeEquivalentTo(3), "replicas that the spec leaves out are kept")
	g.Expect(adopted.Spec.Selector.MatchLabels).To(gomega.Equal(map[string]string{"run": "legacy"}))
	g.Expect(adopted.Spec.Template.Labels).To(gomega.HaveKeyWithValue("run", "legacy"))
	g.Expect(adopted.Spec.Template.Labels).To(gomega.HaveKeyWithValue("app", "shop"))
	var names []string
	for _, container := range adopted.Spec.Template.Spec.Containers {
		names = append(names, container.Name)
	}
	g.Expect(names).To(gomega.Equal([]string{"webapp"}), "the former container is gone in the same write")
	g.Expect(adopted.Annotations).NotTo(gomega.HaveKey("mainstay.dev/adopt"), "the consent is removed")
	g.Expect(metav1.GetControllerOf(adopted).Name).To(gomega.Equal("shop"))
	g.Expect(adopted.Generation).To(gomega.BeEquivalentTo(2), "one change of the spec, so one rollout at most")

	after := read(t, app, &corev1.Service{})
	g.Expect(after.UID).To(gomega.Equal(service.UID))
	g.Expect(after.Spec.Selector).To(gomega.Equal(map[string]string{"run": "legacy"}), "old and new pods have these labels")
	g.Expect(after.Spec.ClusterIP).To(gomega.Equal(service.Spec.ClusterIP))
	g.Expect(after.Spec.Type).To(gomega.Equal(corev1.ServiceTypeNodePort))

	// A value of another client that contradicts ours is removed, with all that others have set.
	change(t, adopted, func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "DEBUG", Value: "1"}}
	})
	change(t, app, func(app *msappsv1.WebApp) {
		app.Spec.Env = []corev1.EnvVar{{Name: "DEBUG", ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"},
		}}}
	})
	g.Eventually(func() (bool, error) {
		deployment, err := get(app, &appsv1.Deployment{})(t.Context())
		env := deployment.Spec.Template.Spec.Containers[0].Env
		return len(env) == 1 && env[0].Value == "" && env[0].ValueFrom != nil, err
	}).Should(gomega.BeTrue())
	g.Expect(*read(t, app, &appsv1.Deployment{}).Spec.Replicas).To(gomega.BeEquivalentTo(3), "they are still kept")
}

// TestAnAdoptedLoadBalancerKeepsItsAddressesAndSources: of a Service, only the ports and the
// selector come from the spec. Others must not get access that they did not have.
func TestAnAdoptedLoadBalancerKeepsItsAddressesAndSources(t *testing.T) {
	g, space, _ := managed(t)
	app := newApp(space)
	foreign := foreignDeployment(app.Namespace)
	foreign.Annotations = map[string]string{"mainstay.dev/adopt": "WebApp/shop"}
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: "shop",
			Annotations: map[string]string{"mainstay.dev/adopt": "WebApp/shop"}},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, Selector: map[string]string{"run": "legacy"},
			LoadBalancerClass: new("example.com/internal"), LoadBalancerSourceRanges: []string{"10.0.0.0/8", "192.168.0.0/16"},
			ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal, AllocateLoadBalancerNodePorts: new(false),
			Ports: []corev1.ServicePort{{Port: 8080}},
		},
	}
	create(t, foreign)
	rollOut(t, foreign) // a Service is adopted once it has pods that it can switch to
	create(t, service, app)
	g.Eventually(func() (bool, error) {
		adopted, err := get(app, &corev1.Service{})(t.Context())
		return metav1.GetControllerOf(adopted) != nil, err
	}).WithContext(t.Context()).Should(gomega.BeTrue())
	after := read(t, app, &corev1.Service{})
	g.Expect(after.UID).To(gomega.Equal(service.UID))
	g.Expect(after.Spec).To(gomega.Equal(service.Spec))
	g.Expect(after.Annotations).NotTo(gomega.HaveKey("mainstay.dev/adopt"), "the consent is removed")
}

// replicasSeen records every number of replicas in the spec of a Deployment.
func replicasSeen(t *testing.T, app *msappsv1.WebApp) func() []int32 {
	t.Helper()
	watching, err := client.NewWithWatch(cluster.Config, client.Options{Scheme: cluster.Client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	stream, err := watching.Watch(t.Context(), &appsv1.DeploymentList{}, client.InNamespace(app.Namespace))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stream.Stop)
	return func() []int32 {
		var seen []int32
		for {
			select {
			case event := <-stream.ResultChan():
				deployment := event.Object.(*appsv1.Deployment)
				seen = append(seen, *deployment.Spec.Replicas)
				if deployment.Annotations["test/end"] != "" {
					return seen
				}
			case <-t.Context().Done():
				return seen
			}
		}
	}
}

func TestAutoscalingOnAndOffNeverPassesThroughOneReplica(t *testing.T) {
	g, space, _ := managed(t)
	app := newApp(space, func(spec *msappsv1.WebAppSpec) {
		spec.Replicas = ptr.To[int32](4)
		spec.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")}
	})
	seen := replicasSeen(t, app)
	create(t, app)
	g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("False Deploying"))

	change(t, app, func(app *msappsv1.WebApp) {
		app.Spec.Replicas = nil
		app.Spec.Autoscaling = &msappsv1.Autoscaling{Min: 3, Max: 6}
	})
	g.Eventually(get(app, &autoscalingv2.HorizontalPodAutoscaler{})).WithContext(t.Context()).Should(gomega.Not(gomega.BeNil()))
	owners := func() string {
		deployment := read(t, app, &appsv1.Deployment{})
		var owners []string
		for _, entry := range deployment.ManagedFields {
			if strings.Contains(entry.FieldsV1.GetRawString(), `"f:replicas"`) && entry.Subresource != "status" {
				owners = append(owners, entry.Manager)
			}
		}
		return fmt.Sprint(owners)
	}
	g.Eventually(owners).Should(gomega.Equal("[mainstay/handover]"))

	// The autoscaler scales to 5, and nothing reverts that.
	deployment := read(t, app, &appsv1.Deployment{})
	scale := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":5}}`))
	g.Expect(cluster.Client.SubResource("scale").Patch(t.Context(), deployment, scale,
		client.FieldOwner("kube-controller-manager"))).To(gomega.Succeed())
	change(t, app, func(app *msappsv1.WebApp) { app.Spec.Env = []corev1.EnvVar{{Name: "A", Value: "2"}} })
	g.Eventually(func() (int, error) {
		deployment, err := get(app, &appsv1.Deployment{})(t.Context())
		return len(deployment.Spec.Template.Spec.Containers[0].Env), err
	}).Should(gomega.Equal(1))

	change(t, app, func(app *msappsv1.WebApp) { app.Spec.Autoscaling = nil })
	g.Eventually(gone(app, &autoscalingv2.HorizontalPodAutoscaler{})).WithContext(t.Context()).Should(gomega.Succeed())
	change(t, app, func(app *msappsv1.WebApp) { app.Spec.Replicas = ptr.To[int32](3) })
	g.Eventually(func() (int32, error) {
		deployment, err := get(app, &appsv1.Deployment{})(t.Context())
		return *deployment.Spec.Replicas, err
	}).Should(gomega.BeEquivalentTo(3))

	deployment = read(t, app, &appsv1.Deployment{})
	change(t, deployment, func(d *appsv1.Deployment) { d.Annotations["test/end"] = "1" })
	g.Expect(unique(seen())).To(gomega.Equal([]int32{4, 5, 3}))
}

func TestAnAppThatBeginsAutoscaledStartsAtItsMinimum(t *testing.T) {
	g, space, _ := managed(t)
	app := newApp(space, func(spec *msappsv1.WebAppSpec) {
		spec.Replicas = nil
		spec.Autoscaling = &msappsv1.Autoscaling{Min: 3, Max: 6}
		spec.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")}
	})
	seen := replicasSeen(t, app)
	create(t, app)
	g.Eventually(get(app, &autoscalingv2.HorizontalPodAutoscaler{})).WithContext(t.Context()).Should(gomega.Not(gomega.BeNil()))
	change(t, app, func(app *msappsv1.WebApp) { app.Spec.Env = []corev1.EnvVar{{Name: "A", Value: "2"}} })
	g.Eventually(func() (int, error) {
		deployment, err := get(app, &appsv1.Deployment{})(t.Context())
		return len(deployment.Spec.Template.Spec.Containers[0].Env), err
	}).Should(gomega.Equal(1))
	deployment := read(t, app, &appsv1.Deployment{})
	change(t, deployment, func(d *appsv1.Deployment) { d.Annotations["test/end"] = "1" })
	g.Expect(unique(seen())).To(gomega.Equal([]int32{3}))
}

// unique returns the numbers without adjacent duplicates.
func unique(numbers []int32) []int32 {
	var all []int32
	for _, number := range numbers {
		if len(all) == 0 || all[len(all)-1] != number {
			all = append(all, number)
		}
	}
	return all
}
