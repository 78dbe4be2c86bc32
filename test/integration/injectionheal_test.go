package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/injection"
	"github.com/mainstay-platform/mainstay/test/testenv"
)

// space creates a namespace.
func (s *governed) space(t *testing.T, name string) string {
	t.Helper()
	s.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	return name
}

// merge changes an object with a merge patch.
func (s *governed) merge(t *testing.T, object client.Object, patch string) {
	t.Helper()
	if err := s.client.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		t.Fatal(err)
	}
}

// annotateSpace applies a merge patch to the metadata of a namespace.
func (s *governed) annotateSpace(t *testing.T, name, metadata string) {
	t.Helper()
	s.merge(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, `{"metadata":`+metadata+`}`)
}

// bare creates Deployments, and returns the first as stored.
func (s *governed) bare(t *testing.T, namespace string, names ...string) *appsv1.Deployment {
	t.Helper()
	var first *appsv1.Deployment
	for _, name := range names {
		made := bareDeployment(namespace, name, corev1.EnvVar{Name: javaOptions, Value: "-Xmx1g"})
		s.create(t, made)
		if first == nil {
			first = made
		}
	}
	return first
}

// with returns the Deployments of a namespace that have agents, each with its Instrumentations, in
// one string.
func (s *governed) with(t *testing.T, namespace string) func() (string, error) {
	return func() (string, error) {
		var list appsv1.DeploymentList
		err := s.client.List(t.Context(), &list, client.InNamespace(namespace))
		var found []string
		for i := range list.Items {
			var by []string
			for _, one := range injection.Injected(list.Items[i].Spec.Template.Annotations) {
				by = append(by, one.By)
			}
			if by != nil {
				found = append(found, list.Items[i].Name+": "+strings.Join(by, " "))
			}
		}
		slices.Sort(found)
		return strings.Join(found, ", "), err
	}
}

// finish reports that all pods of the Deployments of a namespace have been replaced.
func (s *governed) finish(t *testing.T, namespace string, names ...string) {
	t.Helper()
	gomega.NewWithT(t).Eventually(func() error {
		var list appsv1.DeploymentList
		if err := s.client.List(t.Context(), &list, client.InNamespace(namespace)); err != nil {
			return err
		}
		for i := range list.Items {
			one := &list.Items[i]
			if len(names) > 0 && !slices.Contains(names, one.Name) {
				continue
			}
			one.Status = appsv1.DeploymentStatus{
				ObservedGeneration: one.Generation,
				Conditions: []appsv1.DeploymentCondition{{
					Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable", LastUpdateTime: metav1.Now(),
				}},
			}
			if err := s.client.Status().Update(t.Context(), one); err != nil {
				return err
			}
		}
		return nil
	}).Should(gomega.Succeed())
}

// agentStatus returns the status of an Instrumentation in one string, such as "True Injected 2/2".
func (s *governed) agentStatus(t *testing.T, agent interface {
	client.Object
	GetStatus() *instrv1.InstrumentationStatus
},
) func() (string, error) {
	return func() (string, error) {
		if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(agent), agent); err != nil {
			return "", err
		}
		status := agent.GetStatus()
		found := meta.FindStatusCondition(status.Conditions, instrv1.ConditionReady)
		if found == nil || status.ObservedGeneration != agent.GetGeneration() {
			return "", nil
		}
		return fmt.Sprintf("%s %s %d/%d", found.Status, found.Reason, status.Injected, status.Matched), nil
	}
}

// agentFor returns an Instrumentation with a name.
func agentFor(namespace, name, pattern string) *instrv1.Instrumentation {
	agent := javaAgent(namespace, pattern)
	agent.Name = name
	return agent
}

// clusterAgent returns a ClusterInstrumentation for Deployments "web-*" in namespaces with a label.
func clusterAgent(name, label string) *instrv1.ClusterInstrumentation {
	agent := &instrv1.ClusterInstrumentation{ObjectMeta: metav1.ObjectMeta{Name: name}}
	agent.Spec.InstrumentationSpec = javaAgent("", "web-*").Spec
	agent.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{label: "yes"}}
	return agent
}

// patched returns the number of writes to Deployments of a namespace after the first n calls.
func (s *governed) patched(n int, namespace string) int {
	return len(slices.DeleteFunc(s.calls.Done(n, "/namespaces/"+namespace+"/deployments/"),
		func(call string) bool { return strings.HasPrefix(call, "GET ") }))
}

// TestInjectionWhileTheWebhookIsDown checks that changes made while the webhook does not run are
// corrected with one write each.
func TestInjectionWhileTheWebhookIsDown(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	s := newGoverned(t)
	s.start(t)
	healed, deleted, forced := s.space(t, "healed"), s.space(t, "deleted"), s.space(t, "forced")
	agents := map[string]*instrv1.Instrumentation{}
	var first *appsv1.Deployment
	for _, space := range []string{healed, deleted, forced} {
		first = s.bare(t, space, "web-1", "web-2")
		agents[space] = javaAgent(space, "web-*")
		s.create(t, agents[space])
		g.Eventually(s.with(t, space)).Should(gomega.Equal("web-1: Instrumentation/java, web-2: Instrumentation/java"))
		s.finish(t, space)
	}
	s.calls.Settle(t)
	s.stop()

	s.bare(t, healed, "web-3")
	edited := bareDeployment(healed, "web-2")
	s.merge(t, edited, `{"spec":{"template":{"spec":{"initContainers":null,"volumes":null,"containers":[{"name":"app","image":"app:2"}]}}}}`)
	taken := bareDeployment(healed, "web-1")
	s.merge(t, taken, `{"spec":{"template":{"metadata":{"annotations":null}}}}`)
	g.Expect(s.client.Delete(t.Context(), agents[deleted])).To(gomega.Succeed())
	s.merge(t, agents[forced], `{"metadata":{"finalizers":null}}`)
	g.Expect(s.client.Delete(t.Context(), agents[forced])).To(gomega.Succeed())

	s.start(t)
	g.Eventually(s.with(t, healed)).Should(gomega.Equal("web-1: Instrumentation/java, web-2: Instrumentation/java, web-3: Instrumentation/java"))
	g.Eventually(s.with(t, deleted)).Should(gomega.BeEmpty())
	g.Eventually(s.with(t, forced)).Should(gomega.BeEmpty())
	g.Eventually(func() bool {
		return apierrors.IsNotFound(s.client.Get(t.Context(), client.ObjectKeyFromObject(agents[deleted]), agents[deleted]))
	}).Should(gomega.BeTrue())
	s.finish(t, healed)
	s.calls.Settle(t)
	for space, writes := range map[string]int{healed: 3, deleted: 2, forced: 2} {
		g.Expect(s.patched(0, space)).To(gomega.Equal(writes), "%s: %v", space, s.calls.Since(0, "/namespaces/"+space+"/deployments"))
	}
	for _, space := range []string{deleted, forced} {
		for _, name := range []string{"web-1", "web-2"} {
			var found appsv1.Deployment
			g.Expect(s.client.Get(t.Context(), client.ObjectKey{Namespace: space, Name: name}, &found)).To(gomega.Succeed())
			g.Expect(found.Annotations).To(gomega.BeEmpty())
			found.Spec.Template.Labels = first.Spec.Template.Labels
			g.Expect(equality.Semantic.DeepEqual(found.Spec.Template, first.Spec.Template)).To(gomega.BeTrue(), "%s/%s: %v", space, name,
				found.Spec.Template)
		}
	}
	s.removed(t, agents[healed])
	var found appsv1.Deployment
	g.Expect(s.client.Get(t.Context(), client.ObjectKey{Namespace: healed, Name: "web-1"}, &found)).To(gomega.Succeed())
	g.Expect(found.Spec.Template.Spec.Containers[0].Env).To(gomega.Equal([]corev1.EnvVar{{Name: javaOptions, Value: "-Xmx1g"}}),
		"it is restored although the record was lost")
}

// injectionFollows checks that matchers, opt-outs and other inputs may change at any time.
func injectionFollows(t *testing.T, s *governed) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, *governed, string){
		"opt-out": testOptOut, "matchers": testMatchers, "kinds": testKinds, "namespaces": testNamespaces, "precedence": testPrecedence,
		"hand-edits": testHandEdits, "refused": testRefused, "undo": testUndo, "image-volumes": testImageVolume, "sources": testSources,
		"unmade": testUnmade,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, s, s.space(t, name))
		})
	}
}

const both = "web-1: Instrumentation/java, web-2: Instrumentation/java"

func testOptOut(t *testing.T, s *governed, space string) {
	g := gomega.NewWithT(t)
	first := s.bare(t, space, "web-1", "web-2")
	agent := javaAgent(space, "web-*")
	s.create(t, agent)
	g.Eventually(s.with(t, space)).Should(gomega.Equal(both))
	const no, yes = `{"metadata":{"annotations":{"` + instrv1.AnnotationInject + `":"false"}}}`, `{"metadata":{"annotations":{"` + instrv1.AnnotationInject + `":null}}}`
	workload := bareDeployment(space, "web-1")
	s.merge(t, workload, no)
	g.Expect(s.with(t, space)()).To(gomega.Equal("web-2: Instrumentation/java"), "in the same write")
	g.Expect(equality.Semantic.DeepEqual(workload.Spec.Template, first.Spec.Template)).To(gomega.BeTrue(), "%v", workload.Spec.Template)
	g.Eventually(s.agentStatus(t, agent)).Should(gomega.HaveSuffix("/1"))
	s.merge(t, workload, yes)
	g.Expect(s.with(t, space)()).To(gomega.Equal(both))
	s.merge(t, workload, `{"spec":{"template":`+no+`}}`)
	g.Expect(s.with(t, space)()).To(gomega.Equal("web-2: Instrumentation/java"))
	s.merge(t, workload, `{"spec":{"template":`+yes+`}}`)
	g.Expect(s.with(t, space)()).To(gomega.Equal(both))
	s.annotateSpace(t, space, `{"annotations":{"`+instrv1.AnnotationInject+`":"false"}}`)
	g.Eventually(s.with(t, space)).Should(gomega.BeEmpty())
	g.Eventually(s.agentStatus(t, agent)).Should(gomega.Equal("False NothingMatched 0/0"))
	s.annotateSpace(t, space, `{"annotations":{"`+instrv1.AnnotationInject+`":null}}`)
	g.Eventually(s.with(t, space)).Should(gomega.Equal(both))
}

func testMatchers(t *testing.T, s *governed, space string) {
	g := gomega.NewWithT(t)
	s.bare(t, space, "web-1", "web-2", "api")
	agent := javaAgent(space, "web-?")
	s.create(t, agent)
	g.Eventually(s.with(t, space)).Should(gomega.Equal(both))
	s.finish(t, space)
	g.Eventually(s.agentStatus(t, agent)).Should(gomega.Equal("True Injected 2/2"))
	s.merge(t, agent, `{"spec":{"matchers":[{"deployment":"api"}]}}`)
	g.Eventually(s.with(t, space)).Should(gomega.Equal("api: Instrumentation/java"))
	s.merge(t, agent, `{"spec":{"matchers":[{"labels":{"matchLabels":{"runtime":"java"}}}]}}`)
	g.Eventually(s.with(t, space)).Should(gomega.BeEmpty())
	s.merge(t, bareDeployment(space, "web-2"), `{"metadata":{"labels":{"runtime":"java"}}}`)
	g.Expect(s.with(t, space)()).To(gomega.Equal("web-2: Instrumentation/java"))
	s.merge(t, bareDeployment(space, "web-2"), `{"metadata":{"labels":null}}`)
	g.Expect(s.with(t, space)()).To(gomega.BeEmpty())
	g.Eventually(s.agentStatus(t, agent)).Should(gomega.Equal("False NothingMatched 0/0"))
}

func testKinds(t *testing.T, s *governed, space string) {
	g := gomega.NewWithT(t)
	template := s.bare(t, space, "web-1")
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "web-1"},
		Spec: appsv1.StatefulSetSpec{Replicas: new(int32(0)), Selector: template.Spec.Selector,
			Template: *template.Spec.Template.DeepCopy()},
	}
	s.create(t, set)
	daemons := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "web-1"},
		Spec:       appsv1.DaemonSetSpec{Selector: template.Spec.Selector, Template: *template.Spec.Template.DeepCopy()},
	}
	s.create(t, daemons)
	firstSet, firstDaemons := set.Spec.Template.DeepCopy(), daemons.Spec.Template.DeepCopy()
	agent := javaAgent(space, "web-*")
	agent.Spec.Matchers[0].Kinds = []instrv1.WorkloadKind{instrv1.KindStatefulSet, instrv1.KindDaemonSet}
	s.create(t, agent)
	records := func() (int, error) {
		if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(set), set); err != nil {
			return 0, err
		}
		err := s.client.Get(t.Context(), client.ObjectKeyFromObject(daemons), daemons)
		return len(injection.Injected(set.Spec.Template.Annotations)) + 10*len(injection.Injected(daemons.Spec.Template.Annotations)), err
	}
	g.Eventually(records).Should(gomega.Equal(11))
	g.Expect(s.with(t, space)()).To(gomega.BeEmpty())
	s.merge(t, agent, `{"spec":{"matchers":[{"deployment":"web-*","kinds":["Deployment","DaemonSet"]}]}}`)
	g.Eventually(records).Should(gomega.Equal(10))
	g.Eventually(s.with(t, space)).Should(gomega.Equal("web-1: Instrumentation/java"))
	s.removed(t, agent)
	g.Expect(records()).To(gomega.BeZero())
	g.Expect(equality.Semantic.DeepEqual(set.Spec.Template, *firstSet)).To(gomega.BeTrue())
	g.Expect(equality.Semantic.DeepEqual(daemons.Spec.Template, *firstDaemons)).To(gomega.BeTrue())
}

func testNamespaces(t *testing.T, s *governed, space string) {
	g := gomega.NewWithT(t)
	s.bare(t, space, "web-1")
	agent := clusterAgent("everywhere", "traced")
	s.create(t, agent)
	g.Eventually(s.agentStatus(t, agent)).Should(gomega.Equal("False NothingMatched 0/0"))
	s.annotateSpace(t, space, `{"labels":{"traced":"yes"}}`)
	g.Eventually(s.with(t, space)).Should(gomega.Equal("web-1: ClusterInstrumentation/everywhere"))
	g.Eventually(func() ([]instrv1.WorkloadStatus, error) {
		_, err := s.agentStatus(t, agent)()
		return agent.Status.Workloads, err
	}).Should(gomega.ConsistOf(gomega.HaveField("Namespace", space)))
	s.annotateSpace(t, space, `{"labels":{"traced":null}}`)
	g.Eventually(s.with(t, space)).Should(gomega.BeEmpty())
	s.annotateSpace(t, space, `{"labels":{"traced":"yes"}}`)
	g.Eventually(s.with(t, space)).Should(gomega.Equal("web-1: ClusterInstrumentation/everywhere"))
	s.removed(t, agent)
	g.Expect(s.with(t, space)()).To(gomega.BeEmpty())
}

func testPrecedence(t *testing.T, s *governed, space string) {
	g := gomega.NewWithT(t)
	s.bare(t, space, "web-1")
	s.annotateSpace(t, space, `{"labels":{"precedence":"yes"}}`)
	cluster := clusterAgent("precedence", "precedence")
	s.create(t, cluster)
	g.Eventually(s.with(t, space)).Should(gomega.Equal("web-1: ClusterInstrumentation/precedence"))
	first := agentFor(space, "zz-first", "web-*")
	s.create(t, first)
	g.Eventually(s.with(t, space)).Should(gomega.Equal("web-1: Instrumentation/zz-first"), "it takes precedence in its namespace")
	g.Eventually(s.agentStatus(t, cluster)).Should(gomega.Equal("False Overruled 0/1"))
	overruled := meta.FindStatusCondition(cluster.Status.Conditions, instrv1.ConditionOverruled)
	g.Expect(overruled).NotTo(gomega.BeNil())
	g.Expect(overruled.Message).To(gomega.And(gomega.ContainSubstring("Deployment/web-1"),
		gomega.ContainSubstring("Instrumentation/zz-first")))
	second := agentFor(space, "aa-second", "web-*")
	nextSecond(t, first)
	s.create(t, second)
	g.Eventually(s.agentStatus(t, second)).Should(gomega.Equal("False Overruled 0/1"), "the older one takes precedence")
	g.Expect(s.with(t, space)()).To(gomega.Equal("web-1: Instrumentation/zz-first"))
	s.removed(t, first)
	g.Eventually(s.with(t, space)).Should(gomega.Equal("web-1: Instrumentation/aa-second"), "the next one takes over")
	s.removed(t, second)
	g.Eventually(s.with(t, space)).Should(gomega.Equal("web-1: ClusterInstrumentation/precedence"))
	s.finish(t, space)
	g.Eventually(s.agentStatus(t, cluster)).Should(gomega.Equal("True Injected 1/1"))
	g.Expect(meta.FindStatusCondition(cluster.Status.Conditions, instrv1.ConditionOverruled)).To(gomega.BeNil())
	s.removed(t, cluster)
}

// testHandEdits checks that the webhook repairs a hand edit within the same write.
func testHandEdits(t *testing.T, s *governed, space string) {
	g := gomega.NewWithT(t)
	s.create(t, javaAgent(space, "web-*"))
	g.Eventually(func() (string, error) {
		made := bareDeployment(space, "web-1", corev1.EnvVar{Name: javaOptions, Value: "-Xmx1g"})
		err := s.client.Create(t.Context(), made, client.DryRunAll)
		return made.Spec.Template.Annotations[instrv1.AnnotationInjected], err
	}).ShouldNot(gomega.BeEmpty())
	made := s.bare(t, space, "web-1")
	want := made.Spec.Template.DeepCopy()
	for _, edit := range []string{
		`{"spec":{"template":{"spec":{"initContainers":null}}}}`,
		`{"spec":{"template":{"spec":{"volumes":null}}}}`,
		`{"spec":{"template":{"metadata":{"annotations":null}}}}`,
		`{"spec":{"template":{"metadata":{"annotations":{"` + instrv1.AnnotationInjected + `":"[]"}}}}}`,
		`{"spec":{"template":{"metadata":{"annotations":{"` + instrv1.AnnotationInjected + `":"nonsense"}}}}}`,
	} {
		s.merge(t, made, edit)
		g.Expect(testenv.JSON(t, made.Spec.Template)).To(gomega.Equal(testenv.JSON(t, want)), edit)
	}
	for _, edit := range []string{
		`{"spec":{"template":{"spec":{"containers":[{"name":"app","env":[{"name":"JAVA_TOOL_OPTIONS","value":"-Xmx1g"}]}]}}}}`,
		`{"spec":{"template":{"spec":{"containers":[{"name":"app","env":[{"name":"TEAM","$patch":"delete"}]}]}}}}`,
		`{"spec":{"template":{"spec":{"containers":[{"name":"app","volumeMounts":[{"$patch":"replace"}]}]}}}}`,
	} {
		g.Expect(s.client.Patch(t.Context(), made, client.RawPatch(types.StrategicMergePatchType, []byte(edit)))).To(gomega.Succeed(), edit)
		g.Expect(testenv.JSON(t, made.Spec.Template)).To(gomega.Equal(testenv.JSON(t, want)), edit)
	}
}

// testRefused checks that a refused write is reported, and that all other workloads are injected.
func testRefused(t *testing.T, s *governed, space string) {
	g := gomega.NewWithT(t)
	s.bare(t, space, "web-1", "web-2")
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: space},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}},
				}}},
			},
			Validations: []admissionregistrationv1.Validation{{Expression: "object.metadata.namespace != '" + space +
				"' || object.metadata.name != 'web-1'", Message: "web-1 may not be changed"}},
		},
	}
	s.create(t, policy)
	s.create(t, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: space},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: space, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	})
	g.Eventually(func() error {
		return s.client.Patch(t.Context(), bareDeployment(space, "web-1"), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`)), client.DryRunAll)
	}).Should(gomega.MatchError(gomega.ContainSubstring("may not be changed")))
	agent := javaAgent(space, "web-*")
	s.create(t, agent)
	g.Eventually(s.with(t, space)).Should(gomega.Equal("web-2: Instrumentation/java"))
	s.finish(t, space, "web-2")
	g.Eventually(s.agentStatus(t, agent)).Should(gomega.Equal("False NotInjected 1/2"))
	g.Expect(agent.Status.Workloads).To(gomega.HaveLen(1))
	g.Expect(agent.Status.Workloads[0]).To(gomega.And(gomega.HaveField("Name", "Deployment/web-1"),
		gomega.HaveField("Reason", instrv1.WorkloadRefused),
		gomega.HaveField("State", instrv1.StateFailed), gomega.HaveField("Message", gomega.ContainSubstring("web-1 may not be changed"))))
}

// testUndo checks kubectl rollout undo, which brings back the earlier template and also annotations
// of the Deployment.
func testUndo(t *testing.T, s *governed, space string) {
	g := gomega.NewWithT(t)
	made := s.bare(t, space, "web-1")
	agent := javaAgent(space, "web-*")
	undo := func(to *appsv1.Deployment) {
		patch := testenv.JSON(t, []map[string]any{
			{"op": "replace", "path": "/spec/template", "value": to.Spec.Template}, {"op": "add", "path": "/metadata/annotations",
				"value": to.Annotations},
		})
		g.Expect(s.client.Patch(t.Context(), made, client.RawPatch(types.JSONPatchType, []byte(patch)))).To(gomega.Succeed())
	}
	bare := made.DeepCopy()
	s.create(t, agent)
	g.Eventually(s.with(t, space)).Should(gomega.Equal("web-1: Instrumentation/java"))
	g.Expect(s.client.Get(t.Context(), client.ObjectKeyFromObject(made), made)).To(gomega.Succeed())
	old := made.DeepCopy()
	s.merge(t, agent, `{"spec":{"agent":{"image":"registry.example/agent:2","options":"new"}}}`)
	image := func() (string, error) {
		err := s.client.Get(t.Context(), client.ObjectKeyFromObject(made), made)
		return made.Spec.Template.Spec.InitContainers[0].Image, err
	}
	g.Eventually(image).Should(gomega.HaveSuffix(":2"))
	present := made.DeepCopy()
	for name, to := range map[string]*appsv1.Deployment{"with an older agent": old, "without": bare} {
		undo(to)
		g.Expect(testenv.JSON(t, made.Spec.Template)).To(gomega.Equal(testenv.JSON(t, present.Spec.Template)), "to a template "+name)
	}
	s.removed(t, agent)
	undo(old)
	g.Eventually(s.with(t, space)).Should(gomega.BeEmpty())
	g.Expect(s.client.Get(t.Context(), client.ObjectKeyFromObject(made), made)).To(gomega.Succeed())
	g.Expect(testenv.JSON(t, made.Spec.Template)).To(gomega.Equal(testenv.JSON(t, bare.Spec.Template)),
		"a restored agent of a deleted Instrumentation is removed")
}

func testImageVolume(t *testing.T, s *governed, space string) {
	testenv.RequireKubernetes(t, cluster.Config, 35, "image volumes are on")
	g := gomega.NewWithT(t)
	first := s.bare(t, space, "web-1")
	agent := javaAgent(space, "web-*")
	agent.Spec.Agent.VolumeMode = instrv1.VolumeImage
	s.create(t, agent)
	g.Eventually(s.with(t, space)).Should(gomega.Equal("web-1: Instrumentation/java"))
	made := first.DeepCopy()
	g.Expect(s.client.Get(t.Context(), client.ObjectKeyFromObject(made), made)).To(gomega.Succeed())
	g.Expect(made.Spec.Template.Spec.InitContainers).To(gomega.BeEmpty())
	g.Expect(made.Spec.Template.Spec.Volumes[0].Image).To(gomega.HaveField("Reference", "registry.example/agent:1"))
	g.Expect(made.Spec.Template.Spec.Containers[0].VolumeMounts[0]).To(gomega.HaveField("SubPath", "agent"))
	s.merge(t, made, `{"metadata":{"annotations":{"a":"b"}}}`)
	g.Expect(made.Generation).To(gomega.BeEquivalentTo(3), "only the annotation has changed")
	s.merge(t, agent, `{"spec":{"agent":{"volumeMode":"InitContainer"}}}`)
	g.Eventually(func() (int, error) {
		err := s.client.Get(t.Context(), client.ObjectKeyFromObject(made), made)
		return len(made.Spec.Template.Spec.InitContainers), err
	}).Should(gomega.Equal(1))
	s.removed(t, agent)
	g.Expect(s.client.Get(t.Context(), client.ObjectKeyFromObject(made), made)).To(gomega.Succeed())
	g.Expect(testenv.JSON(t, made.Spec.Template)).To(gomega.Equal(testenv.JSON(t, first.Spec.Template)))
}

// testSources checks that a ConfigMap used with envFrom may gain or lose the variable.
func testSources(t *testing.T, s *governed, space string) {
	g := gomega.NewWithT(t)
	made := bareDeployment(space, "web-1")
	made.Spec.Template.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: "options"},
	}}}
	s.create(t, made)
	agent := javaAgent(space, "web-*")
	s.create(t, agent)
	g.Eventually(s.agentStatus(t, agent)).Should(gomega.Equal("False NotInjected 0/1"), "the content of the ConfigMap is unknown")
	value := func() (string, error) {
		err := s.client.Get(t.Context(), client.ObjectKeyFromObject(made), made)
		for _, variable := range made.Spec.Template.Spec.Containers[0].Env {
			if variable.Name == javaOptions {
				return variable.Value, err
			}
		}
		return "", err
	}
	options := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "options"}, Data: map[string]string{"COLOUR": "red"}}
	s.create(t, options)
	g.Eventually(value).Should(gomega.Equal(javaSuffix))
	s.merge(t, options, `{"data":{"JAVA_TOOL_OPTIONS":"-Xmx1g"}}`)
	g.Eventually(value).Should(gomega.Equal("$(JAVA_TOOL_OPTIONS) " + javaSuffix))
	s.merge(t, options, `{"data":{"JAVA_TOOL_OPTIONS":null},"binaryData":{"JAVA_TOOL_OPTIONS":"/w=="}}`)
	g.Eventually(value).Should(gomega.Equal(javaSuffix), "the kubelet makes no variables of binary data")
	g.Expect(s.client.Delete(t.Context(), options)).To(gomega.Succeed())
	g.Eventually(value).Should(gomega.BeEmpty())
	g.Eventually(s.agentStatus(t, agent)).Should(gomega.Equal("False NotInjected 0/1"))
}
