package integration

import (
	"context"
	"testing"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/api"
	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
)

// enough are limits as production requires them.
func enough(db *databasev1.PostgreSQL) {
	db.Spec.Resources.Limits = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi"),
	}
}

// testDatabases: the default policy's production admits a database that has limits and an allowed
// image, and refuses the others with the texts that WebApps get.
func (s *governed) testDatabases(t *testing.T) {
	g := gomega.NewWithT(t)
	for want, change := range map[string]func(*databasev1.PostgreSQL){
		`spec.resources.limits[cpu]: Required value: must be more than 0 (policy "default", rule "production.requireResourceLimits"): ` +
			`add limits: {cpu: 500m}; spec.resources.limits[memory]: Required value: `: func(db *databasev1.PostgreSQL) {
			db.Spec.Image = "docker.io/mainstay/postgresql:17.11"
		},
		`spec.version: Invalid value: "registry.example.com/postgresql:17.11": must be an image of docker.io/mainstay ` +
			`(policy "default", rule "production.allowedRegistries")`: enough,
	} {
		db := newDatabase("production")
		change(db)
		g.Expect(s.client.Create(t.Context(), db)).To(gomega.MatchError(gomega.ContainSubstring(want)))
	}
	db := newDatabase("production")
	enough(db)
	db.Spec.Image = "docker.io/mainstay/postgresql:17.11"
	s.create(t, db)
	g.Expect(db.Labels).To(gomega.HaveKeyWithValue("version", "v1"))
	g.Eventually(func(ctx context.Context) error {
		return s.client.Get(ctx, client.ObjectKeyFromObject(db), &appsv1.StatefulSet{})
	}).WithContext(t.Context()).Should(gomega.Succeed())

	policy := &mspolicyv1.PlatformPolicy{ObjectMeta: metav1.ObjectMeta{Name: "databases"}, Spec: mspolicyv1.PlatformPolicySpec{
		Rules: []mspolicyv1.Rule{{Environment: "*", MaxReplicas: ptr.To[int32](4),
			Enforced: mspolicyv1.Enforced{SecurityContext: &mspolicyv1.SecurityContext{RunAsUser: ptr.To[int64](2000)}}}},
	}}
	s.create(t, policy)
	defer func() { g.Expect(s.client.Delete(t.Context(), policy)).To(gomega.Succeed()) }()
	other := newDatabase("elsewhere")
	g.Eventually(func(ctx context.Context) (int64, error) {
		dry := other.DeepCopy()
		err := s.client.Create(ctx, dry, client.DryRunAll)
		return dry.Spec.RunAsUser, err
	}).WithContext(t.Context()).Should(gomega.BeNumerically("==", 2000), "an enforced user is taken at creation")
	scaled := func(count string) error {
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":`+count+`}}`))
		return s.client.SubResource("scale").Patch(t.Context(), db.DeepCopy(), patch)
	}
	g.Expect(scaled("5")).To(gomega.MatchError(gomega.ContainSubstring("spec.replicas: Invalid value: 5: must be at most 4")))
	g.Expect(scaled("4")).To(gomega.Succeed(), "the user of existing data is tolerated")
}

// TestDatabaseUnderPolicy: without webhooks, what breaks a rule is held back and reported; what
// runs is tolerated, and gets no worse.
func TestDatabaseUnderPolicy(t *testing.T) {
	g := gomega.NewWithT(t)
	startManagerWith(t, everywhere, nil, withImages)
	policy := stagingPolicy(t, mspolicyv1.Rule{MaxReplicas: ptr.To[int32](2)})
	inForce(t, policy)
	refused := newDatabase(staging(t))
	create(t, refused)
	reported := func(db *databasev1.PostgreSQL) func(context.Context) (string, error) {
		return func(ctx context.Context) (string, error) {
			var live databasev1.PostgreSQL
			if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(db), &live); err != nil {
				return "", err
			}
			if found := meta.FindStatusCondition(live.Status.Conditions, api.ConditionPolicyViolation); found != nil {
				return found.Reason + ": " + found.Message, nil
			}
			return "", nil
		}
	}
	g.Eventually(reported(refused)).WithContext(t.Context()).Should(gomega.Equal(
		`PolicyViolation: spec.replicas: Invalid value: 3: must be at most 2 (policy "` + policy.Name + `", rule "staging.maxReplicas")`))
	var children corev1.SecretList
	g.Expect(cluster.Client.List(t.Context(), &children, client.InNamespace(refused.Namespace))).To(gomega.Succeed())
	g.Expect(children.Items).To(gomega.BeEmpty(), "a child was made")

	runs := newDatabase(namespace(t))
	create(t, runs)
	set := &appsv1.StatefulSet{}
	g.Eventually(known(runs, "db", set, always)).WithContext(t.Context()).Should(gomega.Succeed())
	label(t, runs.Namespace, "staging")
	g.Eventually(reported(runs)).WithContext(t.Context()).Should(gomega.HavePrefix("Tolerated: spec.replicas: Invalid value: 3"))
	change(t, runs, func(db *databasev1.PostgreSQL) { db.Spec.Replicas = 4 })
	g.Eventually(reported(runs)).WithContext(t.Context()).Should(gomega.HavePrefix("PolicyViolation: spec.replicas: Invalid value: 4"))
	g.Expect(known(runs, "db", set, func() bool { return *set.Spec.Replicas == 3 })(t.Context())).To(gomega.Succeed())

	var seen mspolicyv1.PlatformPolicy
	g.Eventually(func(ctx context.Context) ([]mspolicyv1.Violator, error) {
		err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(policy), &seen)
		return seen.Status.Violating, err
	}).WithContext(t.Context()).Should(gomega.ContainElement(gomega.HaveField("Kind", "PostgreSQL")), "the policy counts it")
}
