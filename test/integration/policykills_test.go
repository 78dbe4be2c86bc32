package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/api"
	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/install/crds"
	"github.com/mainstay-platform/mainstay/internal/kinds/platformpolicy"
	"github.com/mainstay-platform/mainstay/test/faults/proxy"
	"github.com/mainstay-platform/mainstay/test/testenv"
)

// TestPolicySurvivesKills kills the manager after each of its writes for a policy, from its
// creation until it governs no workloads any more, and starts another one. Whatever the write, the
// policy and its children end as without a kill, and no child's spec changes again. The campaign of
// test/faults does the same for kinds in namespaces; a policy belongs to the cluster, so that this
// test has an API server of its own.
func TestPolicySurvivesKills(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	server := ownServer(t)
	direct := clientOf(t, server.Config)
	g.Expect(crds.Install(t.Context(), definitionsOf(t, server.Config))).To(gomega.Succeed())
	g.Expect(direct.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "shops", Labels: map[string]string{api.LabelEnvironment: "staging"}}})).To(gomega.Succeed())
	undisturbed, _ := policyLife(t, server.Config, direct, 0)
	kills := 0
	for ; ; kills++ {
		states, isKilled := policyLife(t, server.Config, direct, kills+1)
		if !isKilled {
			break
		}
		g.Expect(states).To(gomega.Equal(undisturbed), "killed after write %d", kills+1)
	}
	// Two admission policies and their bindings are created, and deleted, and each step has a status.
	g.Expect(kills).To(gomega.BeNumerically(">=", 10), "kills")
}

// policyLife lets a policy govern workloads, and then not any more, while the manager is killed
// after its nth write, and replaced. It returns the state after each step, and whether there was
// such a write.
func policyLife(t *testing.T, config *rest.Config, direct client.Client, nth int) (states []string, isKilled bool) {
	t.Helper()
	g := gomega.NewWithT(t)
	policy := &mspolicyv1.PlatformPolicy{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("kills-%d", nth)}}
	policy.Spec.Workloads = mspolicyv1.WorkloadsEnforce
	policy.Spec.Rules = []mspolicyv1.Rule{{Environment: "staging", MaxReplicas: ptr.To[int32](3)},
		{Environment: "production", MaxReplicas: ptr.To[int32](3), Enforcement: mspolicyv1.EnforcementWarn}}
	var rules []proxy.Rule
	if nth > 0 {
		rules = []proxy.Rule{{Match: proxy.Match{Verb: "write", Name: "*" + policy.Name}, Nth: nth, Fault: proxy.KillAfter}}
	}
	way, err := proxy.New(config, proxy.Plan{Rules: rules})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	defer way.Close()
	running := testenv.RunManager(t, way.Connect(), testenv.ManagerOptions{Ended: func(error) {}}) // a killed one ends with an error
	defer func() { running.Stop() }()
	settle := func() {
		t.Helper()
		g.Eventually(func(ctx context.Context) error {
			select {
			case <-way.Deaths():
				running.Stop()
				running = testenv.RunManager(t, config, testenv.ManagerOptions{})
			default:
			}
			return isPolicyDone(ctx, direct, policy)
		}).WithContext(t.Context()).Should(gomega.Succeed())
		states = append(states, policyState(t, direct, policy))
	}
	g.Expect(direct.Create(t.Context(), policy)).To(gomega.Succeed())
	settle()
	off := policy.DeepCopy()
	off.Spec.Workloads = mspolicyv1.WorkloadsOff
	g.Expect(direct.Patch(t.Context(), off, client.MergeFrom(policy))).To(gomega.Succeed())
	settle()
	g.Expect(direct.Delete(t.Context(), policy)).To(gomega.Succeed())
	return states, len(way.Fired()) > 0
}

// isPolicyDone returns what is missing until a policy, which it reads, and its children are as the
// spec says; nil for nothing.
func isPolicyDone(ctx context.Context, reader client.Reader, policy *mspolicyv1.PlatformPolicy) error {
	if err := reader.Get(ctx, client.ObjectKeyFromObject(policy), policy); err != nil {
		return err
	}
	ready := meta.FindStatusCondition(policy.Status.Conditions, mspolicyv1.ConditionReady)
	if ready == nil || ready.Status != metav1.ConditionTrue || ready.ObservedGeneration != policy.Generation {
		return fmt.Errorf("it is not ready in generation %d: %+v", policy.Generation, ready)
	}
	return nil
}

// policyState returns what is compared of a policy and its children.
func policyState(t *testing.T, reader client.Reader, policy *mspolicyv1.PlatformPolicy) string {
	t.Helper()
	text := fmt.Sprintf("%s %s %d\n", policy.Status.Phase, policy.Status.Environments, policy.Status.Namespaces)
	for _, name := range platformpolicy.ChildNames(policy) {
		var rules admissionregistrationv1.ValidatingAdmissionPolicy
		var binding admissionregistrationv1.ValidatingAdmissionPolicyBinding
		for _, child := range []client.Object{&rules, &binding} {
			if err := reader.Get(t.Context(), client.ObjectKey{Name: name}, child); client.IgnoreNotFound(err) != nil {
				t.Fatal(err)
			}
			text += fmt.Sprintf("%s of generation %d, %d owners\n", child.GetName(), child.GetGeneration(), len(child.GetOwnerReferences()))
		}
		text += testenv.JSON(t, rules.Spec) + "\n" + testenv.JSON(t, binding.Spec) + "\n"
	}
	return strings.ReplaceAll(text, policy.Name, "NAME")
}
