package appstackcontroller

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/component"
)

// TestUnlisted: while the objects of a kind can't be listed, a stack that is being deleted and may
// have some is not released. Other stacks are not affected, whatever their own kinds are called.
func TestUnlisted(t *testing.T) {
	const problem = "mq.example.com/v1 Queue can't be listed: no webhook"
	queue := platformv1.Component{Name: "queue", Type: "object",
		Spec: runtime.RawExtension{Raw: []byte(`{"apiVersion":"mq.example.com/v1","kind":"Queue"}`)}}
	web := platformv1.Component{Name: "web", Type: "webApp", Spec: runtime.RawExtension{Raw: []byte(`{}`)}}
	own := platformv1.Component{Name: "queue", Type: "queue"}
	had := []platformv1.ComponentStatus{{Name: "queue", Kind: "Queue"}}
	others := []platformv1.ComponentStatus{{Name: "web", Kind: "WebApp"}}
	for name, test := range map[string]struct {
		problem string
		spec    []platformv1.Component
		status  []platformv1.ComponentStatus
		isGoing bool
		want    string
	}{
		"all can be listed":                {"", []platformv1.Component{queue}, had, true, ""},
		"another stack":                    {problem, []platformv1.Component{web}, others, false, ""},
		"another stack that is going":      {problem, []platformv1.Component{web}, nil, true, ""},
		"its spec has one, and is refused": {problem, []platformv1.Component{web, queue}, had, false, ""},
		"its spec had one":                 {problem, []platformv1.Component{web}, had, false, ""},
		"it is going, with one of our own": {problem, []platformv1.Component{own}, had, true, ""},
		"it is going, and had one":         {problem, nil, had, true, problem},
		"it is going, and has one":         {problem, []platformv1.Component{queue}, nil, true, problem},
	} {
		t.Run(name, func(t *testing.T) {
			kind := component.NewExternal(schema.GroupVersionKind{Group: "mq.example.com", Version: "v1", Kind: "Queue"}, nil)
			kind.Unlisted = func() string { return test.problem }
			stack := &platformv1.AppStack{Spec: platformv1.AppStackSpec{Components: test.spec}}
			stack.Status.Components = test.status
			if test.isGoing {
				stack.DeletionTimestamp = &metav1.Time{}
			}
			got := ""
			ours := component.Kind{Kind: schema.GroupVersionKind{Group: "apps.mainstay.dev", Version: "v1", Kind: "Queue"}}
			ours.Type = "queue"
			if err := unlisted(stack, kind, component.Kinds{kind, ours}); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
	going := &platformv1.AppStack{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{}}}
	if err := unlisted(going, component.Kind{}, nil); err != nil {
		t.Errorf("of a kind of our own: %v", err)
	}
}
