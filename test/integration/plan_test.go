package integration

import (
	"context"
	"errors"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	"github.com/mainstay-platform/mainstay/internal/install/crds"
	"github.com/mainstay-platform/mainstay/internal/kit/apply"
	"github.com/mainstay-platform/mainstay/internal/kit/children"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// planner applies plans of one owner as a controller would, with the API server in the cache's
// place.
type planner struct {
	*testing.T
	owner   *msappsv1.WebApp
	applier *apply.Applier
	reader  children.Reader
}

func newPlanner(t *testing.T) planner {
	t.Helper()
	owner := newApp(namespace(t))
	owner.Name = "stack"
	create(t, owner)
	reader := children.Reader{Cached: cluster.Client, Live: cluster.Client, Scheme: cluster.Client.Scheme()}
	return planner{t, owner, apply.New(cluster.Client, reader).WithOwnKinds(crds.Converter), reader}
}

// apply carries a plan out, after it has looked for its children and for volumes that are retained.
// On a busy machine the API server may take longer to show a write than apply waits for that.
func (p planner) apply(wanted plan.Plan) plan.Result {
	p.Helper()
	result, err := p.try(wanted)
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		p.Fatal(err)
	}
	return result
}

// try does the same, and returns what can't be carried out.
func (p planner) try(wanted plan.Plan) (plan.Result, error) {
	p.Helper()
	var named []plan.Object
	for _, child := range wanted.Children {
		empty := child.Object.DeepCopyObject().(plan.Object)
		named = append(named, empty)
	}
	found, err := p.reader.Find(p.Context(), p.owner, named...)
	if err == nil {
		err = p.reader.FindRetained(p.Context(), p.owner, found, &corev1.PersistentVolumeClaimList{})
	}
	if err != nil {
		p.Fatal(err)
	}
	return p.applier.Apply(p.Context(), p.owner, "mainstay/test", wanted, found)
}

// operations returns what was done to which child.
func operations(result plan.Result) []string {
	done := []string{}
	for _, change := range result.Changes {
		done = append(done, string(change.Operation)+" "+change.Ref.Kind+" "+change.Ref.Name)
	}
	return done
}

// part is a WebApp as the child of another object. It has lists that the API server merges by key.
func part(image string) *msappsv1.WebApp {
	return &msappsv1.WebApp{
		ObjectMeta: metav1.ObjectMeta{Name: "part", Labels: map[string]string{"app": "part"}},
		Spec: msappsv1.WebAppSpec{
			Image: image, Replicas: ptr.To[int32](2),
			Env:     []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}},
			Volumes: []msappsv1.Volume{{Name: "scratch", EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		},
	}
}

// TestChildOfAnOwnKind checks that a child of one of our kinds is written once, left alone while it
// is as it should be, and mended after an edit.
func TestChildOfAnOwnKind(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	p := newPlanner(t)
	wanted := func(image string) plan.Plan { return plan.Plan{Children: []plan.Child{{Object: part(image)}}} }
	g.Expect(operations(p.apply(wanted("shop:1")))).To(gomega.Equal([]string{"Created WebApp part"}))
	g.Expect(operations(p.apply(wanted("shop:1")))).To(gomega.BeEmpty(), "nothing differs")
	g.Expect(operations(p.apply(wanted("shop:2")))).To(gomega.Equal([]string{"Updated WebApp part"}))

	live := &msappsv1.WebApp{}
	key := client.ObjectKey{Namespace: p.owner.Namespace, Name: "part"}
	g.Expect(cluster.Client.Get(t.Context(), key, live)).To(gomega.Succeed())
	live.Spec.Env[0].Value = "by hand"
	g.Expect(cluster.Client.Update(t.Context(), live)).To(gomega.Succeed())
	g.Expect(operations(p.apply(wanted("shop:2")))).To(gomega.Equal([]string{"Updated WebApp part"}))
	g.Expect(cluster.Client.Get(t.Context(), key, live)).To(gomega.Succeed())
	g.Expect(live.Spec.Env[0].Value).To(gomega.Equal("1"))
	g.Expect(operations(p.apply(wanted("shop:2")))).To(gomega.BeEmpty())
	g.Expect(operations(p.apply(plan.Plan{}))).To(gomega.BeEmpty(), "a child that was not observed is not pruned")
}

// TestCreateOnce checks that generated content is written once, whatever is generated later.
func TestCreateOnce(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	p := newPlanner(t)
	wanted := func(password string) plan.Plan {
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "database", Labels: map[string]string{"app": "stack"}},
			Data:       map[string][]byte{"password": []byte(password)},
		}
		return plan.Plan{Children: []plan.Child{{Object: secret, CreateOnce: true, Uncached: true}}}
	}
	g.Expect(operations(p.apply(wanted("first")))).To(gomega.Equal([]string{"Created Secret database"}))
	g.Expect(operations(p.apply(wanted("second")))).To(gomega.BeEmpty())
	paused := wanted("second")
	paused.Withhold = true
	g.Expect(p.apply(paused).Withheld).To(gomega.BeEmpty(), "it would not be written again")
	unknown, err := p.applier.Apply(t.Context(), p.owner, "mainstay/test", paused, plan.Children{})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(unknown.Withheld).To(gomega.BeEmpty(), "whether it exists is not known without asking")
	var live corev1.Secret
	key := client.ObjectKey{Namespace: p.owner.Namespace, Name: "database"}
	g.Expect(cluster.Client.Get(t.Context(), key, &live)).To(gomega.Succeed())
	g.Expect(live.Data).To(gomega.HaveKeyWithValue("password", []byte("first")))
	g.Expect(metav1.IsControlledBy(&live, p.owner)).To(gomega.BeTrue())

	// Two replicas that both saw none: the second gets an error, and overwrites nothing.
	g.Expect(cluster.Client.Delete(t.Context(), &live)).To(gomega.Succeed())
	none := plan.Children{plan.Ref{Kind: "Secret", Namespace: key.Namespace, Name: key.Name}: {Ownership: plan.Absent}}
	for _, password := range []string{"third", "fourth"} {
		plan := wanted(password)
		plan.Children[0].Uncached = false // it trusts what was found
		_, err := p.applier.Apply(t.Context(), p.owner, "mainstay/test", plan, none)
		if !errors.Is(err, context.DeadlineExceeded) { // It is written, and shown late.
			g.Expect(client.IgnoreAlreadyExists(err)).NotTo(gomega.HaveOccurred())
		}
		g.Expect(apierrors.IsAlreadyExists(err)).To(gomega.Equal(password == "fourth"))
	}
	g.Expect(cluster.Client.Get(t.Context(), key, &live)).To(gomega.Succeed())
	g.Expect(live.Data).To(gomega.HaveKeyWithValue("password", []byte("third")))
}

// TestRetainedChild checks that a volume outlives both the plan and its owner, and is deleted only
// when the plan says so.
func TestRetainedChild(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	p := newPlanner(t)
	claim := func() *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: "data", Labels: map[string]string{"app": "stack"}},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
				},
			},
		}
	}
	wanted := plan.Plan{Children: []plan.Child{{Object: claim(), Retain: true}}}
	g.Expect(operations(p.apply(wanted))).To(gomega.Equal([]string{"Created PersistentVolumeClaim data"}))
	g.Expect(operations(p.apply(wanted))).To(gomega.BeEmpty())
	var live corev1.PersistentVolumeClaim
	key := client.ObjectKey{Namespace: p.owner.Namespace, Name: "data"}
	g.Expect(cluster.Client.Get(t.Context(), key, &live)).To(gomega.Succeed())
	g.Expect(live.OwnerReferences).To(gomega.BeEmpty(), "the garbage collector would delete it with its owner")
	g.Expect(operations(p.apply(plan.Plan{}))).To(gomega.BeEmpty(), "it is not pruned")

	another := newApp(p.owner.Namespace)
	another.Name = "another"
	create(t, another)
	other := planner{t, another, p.applier, p.reader}
	g.Expect(other.apply(wanted).Conflicts).To(gomega.HaveLen(1), "an owner with another UID leaves it alone")

	ref := plan.Ref{Kind: "PersistentVolumeClaim", Namespace: key.Namespace, Name: key.Name}
	g.Expect(operations(other.apply(plan.Plan{Delete: []plan.Ref{ref}}))).To(gomega.BeEmpty())
	held := p.apply(plan.Plan{Delete: []plan.Ref{ref}, Withhold: true})
	g.Expect(held.Withheld).To(gomega.Equal([]plan.Ref{ref}))
	g.Expect(operations(p.apply(plan.Plan{Delete: []plan.Ref{ref}}))).To(gomega.Equal([]string{"Deleted PersistentVolumeClaim data"}))
}

// TestWaits checks that a child that needs an object which the plan waits for is left out, while
// the others are applied.
func TestWaits(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	p := newPlanner(t)
	database := plan.Ref{Group: "example.com", Kind: "Database", Namespace: p.owner.Namespace, Name: "main"}
	config := func(name string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "stack"}}}
	}
	wanted := plan.Plan{
		Waits:    []plan.Wait{{For: database, Message: "its primary is not ready"}},
		Children: []plan.Child{{Object: config("needs-it"), Needs: []plan.Ref{database}}, {Object: config("free")}},
	}
	result := p.apply(wanted)
	g.Expect(operations(result)).To(gomega.Equal([]string{"Created ConfigMap free"}))
	g.Expect(result.Waits).To(gomega.Equal(wanted.Waits))
	wanted.Waits = nil
	g.Expect(operations(p.apply(wanted))).To(gomega.Equal([]string{"Created ConfigMap needs-it"}))
}

// TestAdoptKeepingOthers checks that a bound claim is adopted as it is: its volume can't be taken
// from it.
func TestAdoptKeepingOthers(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	p := newPlanner(t)
	claim := func(size string) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: "data", Labels: map[string]string{"app": "stack"}},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse(size)}},
			},
		}
	}
	retained := claim("2Gi")
	retained.Namespace, retained.Annotations = p.owner.Namespace, map[string]string{"mainstay.dev/adopt": "WebApp/stack"}
	retained.Spec.VolumeName = "pv-1"
	create(t, retained)
	wanted := func(size string) plan.Plan {
		return plan.Plan{Children: []plan.Child{{Object: claim(size), Retain: true, KeepOthers: true}}}
	}
	g.Expect(operations(p.apply(wanted("2Gi")))).To(gomega.Equal([]string{"Adopted PersistentVolumeClaim data"}))
	_, err := p.try(wanted("1Gi"))
	g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("is invalid")), "a claim can't shrink")
	g.Expect(operations(p.apply(wanted("2Gi")))).To(gomega.BeEmpty(), "the refusal has changed nothing")
	live := &corev1.PersistentVolumeClaim{}
	g.Expect(cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(retained), live)).To(gomega.Succeed())
	g.Expect(live.Spec.VolumeName).To(gomega.Equal("pv-1"))
}
