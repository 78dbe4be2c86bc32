package setup

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/appstack"
	"github.com/mainstay-platform/mainstay/internal/kit/component"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

// TestStackTypeChanges: a component gets no other type if the objects of both would own something
// of the same name, for each pair of types.
func TestStackTypeChanges(t *testing.T) {
	specs := map[string]string{
		"webApp": `{"image":"a"}`, "postgresql": `{"version":"17"}`, "cache": `{"version":"9"}`, "appConfig": `{"application":"shop"}`,
		"configMonitor": `{"configMap":"flags"}`, "object": `{"apiVersion":"mq.example.com/v1","kind":"Queue"}`,
	}
	collide := []string{"webApp", "postgresql", "cache"}
	all := component.Kinds{component.NewExternal(schema.GroupVersionKind{Group: "mq.example.com", Version: "v1", Kind: "Queue"}, nil)}
	for _, c := range underDefaultPolicy(t, policy.Development).Components() {
		all = append(all, c.Kind)
	}
	if types := slices.Sorted(maps.Keys(specs)); !slices.Equal(types, all.Types()) {
		t.Fatalf("the types are %v, and the test has %v", all.Types(), types)
	}
	stack := func(typeName, spec string) *platformv1.AppStack {
		stack := &platformv1.AppStack{Spec: platformv1.AppStackSpec{Components: []platformv1.Component{
			{Name: "db", Type: typeName, Spec: runtime.RawExtension{Raw: []byte(spec)}},
		}}}
		stack.Name, stack.Namespace = "shop", "web"
		return stack
	}
	for from, former := range specs {
		for to, spec := range specs {
			problem := appstack.CheckType(stack(to, spec), stack(from, former), 0, all)
			if want := from != to && slices.Contains(collide, from) && slices.Contains(collide, to); (problem != nil) != want {
				t.Errorf("from %s to %s: got %v", from, to, problem)
			}
		}
	}
	// The ConfigMap of this AppConfig has the name of the database's.
	same := stack("appConfig", `{"application":"shop-db"}`)
	problem := appstack.CheckType(same, stack("postgresql", specs["postgresql"]), 0, all)
	if problem == nil || !strings.Contains(problem.Error(), "a ConfigMap shop-db-config") {
		t.Errorf("from postgresql to an appConfig of the same ConfigMap: got %v", problem)
	}
}
