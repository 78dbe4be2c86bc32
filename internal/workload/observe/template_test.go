package observe

import (
	"context"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/mainstay-platform/mainstay/internal/workload"
)

// TestTemplateTimesAreRemembered: each generation is read once, and again while the answer may
// still change.
func TestTemplateTimesAreRemembered(t *testing.T) {
	made := func(created *metav1.Time) []client.Object {
		set := &appsv1.ReplicaSet{ObjectMeta: metaOf("web-1", deploymentRevision, "1")}
		set.CreationTimestamp, set.Labels = *created, map[string]string{"app": "web"}
		set.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "uid-of-web",
			Controller: new(true)}}
		return []client.Object{set}
	}
	type look struct {
		uid              types.UID
		generation, seen int64
		sets             []client.Object
	}
	first := look{"uid-of-web", 1, 1, made(at(3))}
	for name, test := range map[string]struct {
		looks  []look
		forget bool
		asked  int
		// want is nil if the time is not known yet.
		want *time.Time
	}{
		"the same":                              {[]look{first, first, first}, false, 1, &at(3).Time},
		"nothing is to be remembered":           {[]look{first, first}, true, 2, &at(3).Time},
		"another generation":                    {[]look{first, {"uid-of-web", 2, 2, made(at(5))}}, false, 2, &at(5).Time},
		"a generation that is not observed yet": {[]look{first, {"uid-of-web", 2, 1, made(at(3))}}, false, 2, nil},
		"one that has been observed since": {[]look{{"uid-of-web", 2, 1, made(at(3))}, {"uid-of-web", 2, 2, made(at(5))}}, false, 2,
			&at(5).Time},
		"one that was never observed":       {[]look{{"uid-of-web", 1, 0, nil}}, false, 1, new(time.Time{})},
		"no pod was ever started":           {[]look{{"uid-of-web", 1, 1, nil}, first}, false, 2, &at(3).Time},
		"another of its name":               {[]look{first, {"another", 1, 1, nil}}, false, 2, new(time.Time{})},
		"another came since it was decided": {[]look{{"another", 1, 1, made(at(3))}, {"another", 1, 1, made(at(5))}}, false, 2, &at(5).Time},
	} {
		t.Run(name, func(t *testing.T) {
			asked, templates := 0, NewTemplateTimes()
			if test.forget {
				templates = nil
			}
			var got *time.Time
			for _, look := range test.looks {
				web := deployment("web")
				web.UID, web.Generation, web.Status.ObservedGeneration = look.uid, look.generation, look.seen
				live := fake.NewClientBuilder().WithScheme(newScheme(t)).WithObjects(look.sets...).WithInterceptorFuncs(interceptor.Funcs{
					List: func(ctx context.Context, under client.WithWatch, into client.ObjectList, options ...client.ListOption) error {
						asked++
						return under.List(ctx, into, options...)
					},
				}).Build()
				var err error
				got, err = Reader{Cached: cached(t, web), Live: live, Templates: templates}.TemplateTime(t.Context(), "shop",
					&workload.Target{Ref: workload.TargetRef{Kind: "Deployment", Name: "web"}, UID: "uid-of-web"})
				if err != nil {
					t.Fatal(err)
				}
			}
			isSame := got == test.want || got != nil && test.want != nil && got.Equal(*test.want)
			if asked != test.asked || !isSame {
				t.Errorf("asked %d times, got %s; want %d, %s", asked, got, test.asked, test.want)
			}
		})
	}
}

// TestReadTemplates: each target that is asked for is read, also after one that can't be.
func TestReadTemplates(t *testing.T) {
	target := func(name string) workload.Target {
		return workload.Target{Ref: workload.TargetRef{Kind: "Deployment", Name: name}, UID: types.UID("uid-of-" + name)}
	}
	seen, unseen := deployment("web"), deployment("api")
	seen.UID, unseen.UID, unseen.Generation = "uid-of-web", "uid-of-api", 2
	set := &appsv1.ReplicaSet{ObjectMeta: metaOf("api-1", deploymentRevision, "1")}
	set.CreationTimestamp, set.Labels = *at(3), map[string]string{"app": "api"}
	set.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "api", UID: "uid-of-api",
		Controller: new(true)}}
	read := Reader{Cached: cached(t, seen, unseen), Live: fake.NewClientBuilder().WithScheme(newScheme(t)).WithObjects(set).Build()}
	for name, test := range map[string]struct {
		asked              []int
		isPending, isKnown bool
		fails              bool
	}{
		"nothing":                       {},
		"one that is not observed yet":  {asked: []int{1}, isPending: true},
		"one that never had pods":       {asked: []int{2}, isKnown: true},
		"one that is not there, others": {asked: []int{0, 1, 2}, isPending: true, isKnown: true, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			all := []workload.Target{target("gone"), target("api"), target("web")}
			isPending, err := read.ReadTemplates(t.Context(), "shop", all, test.asked)
			if isPending != test.isPending || (err != nil) != test.fails || (all[2].Template != nil) != test.isKnown {
				t.Errorf("pending: %t, known: %v, %v", isPending, all[2].Template, err)
			}
		})
	}
}
