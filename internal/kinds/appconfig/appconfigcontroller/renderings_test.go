package appconfigcontroller

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/appconfig"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

// counted returns a cache that records what is rendered.
func counted(value string) (*renderings, *[]string) {
	rendered := &[]string{}
	all := newRenderings(policy.Environments{})
	all.render = func(config *configv1.AppConfig, environment policy.Environment) appconfig.Rendering {
		*rendered = append(*rendered, fmt.Sprintf("%s/%d/%s", config.UID, config.Generation, environment))
		return appconfig.Rendering{Content: map[string]string{"KEY": value}, Hash: "hash"}
	}
	return all, rendered
}

func numbered(uid string, generation int64) *configv1.AppConfig {
	return &configv1.AppConfig{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Generation: generation}}
}

func TestRenderings(t *testing.T) {
	all, rendered := counted("value")
	for range 2 {
		all.of(numbered("a", 1), policy.Production)
		all.of(numbered("b", 1), policy.Production)
	}
	all.of(numbered("a", 2), policy.Production)
	all.of(numbered("a", 2), policy.Staging)
	all.of(numbered("", 0), policy.Staging)
	all.of(numbered("", 0), policy.Staging)
	want := []string{"a/1/production", "b/1/production", "a/2/production", "a/2/staging", "/0/staging", "/0/staging"}
	if diff := cmp.Diff(want, *rendered); diff != "" {
		t.Error(diff)
	}
}

func TestRenderingsAreTheCallersOwn(t *testing.T) {
	all, _ := counted("value")
	for range 2 {
		all.of(numbered("a", 1), policy.None).Content["KEY"] = "another"
	}
	if got := all.of(numbered("a", 1), policy.None).Content["KEY"]; got != "value" {
		t.Errorf("it is %q now", got)
	}
}

func TestRenderingsAreBounded(t *testing.T) {
	all, rendered := counted(strings.Repeat("x", 1<<20))
	for i := range 100 {
		all.of(numbered(fmt.Sprint(i), 1), policy.None)
		all.of(numbered("0", 1), policy.None)
	}
	if all.order.Len() > maxRemembered>>20 || all.order.Len() != len(all.byUID) || all.room < 0 {
		t.Errorf("%d are remembered, and %d found; room is %d", all.order.Len(), len(all.byUID), all.room)
	}
	if len(*rendered) != 100 {
		t.Errorf("%d times rendered: one that is used was forgotten", len(*rendered))
	}
	for i := range 100 {
		all.of(numbered(fmt.Sprint(i), 2), policy.None)
	}
	used := 0
	for _, element := range all.byUID {
		used += element.Value.(remembered).size
	}
	if used+all.room != maxRemembered {
		t.Errorf("%d bytes are used, and %d left of %d", used, all.room, maxRemembered)
	}
}

// TestRenderingOnlyEffective: what will not be written is not rendered.
func TestRenderingOnlyEffective(t *testing.T) {
	valid := func() *configv1.AppConfig {
		config := numbered("a", 1)
		config.Namespace, config.Name, config.Spec.Application = "web", "shop", "shop"
		appconfig.Default(config)
		return config
	}
	invalid := valid()
	invalid.Spec.Application = "No Label"
	tests := map[string]struct {
		config   *configv1.AppConfig
		observed appconfig.Observed
		want     int
	}{
		"it counts":            {config: valid(), want: 1},
		"another is in effect": {config: valid(), observed: appconfig.Observed{Older: "first"}},
		"it is refused":        {config: invalid},
		"the namespace is for no such": {config: valid(),
			observed: appconfig.Observed{Place: appconfig.Place{Labels: map[string]string{"mainstay.dev/environment": "mars"}}}},
		"the namespace is for production": {config: valid(),
			observed: appconfig.Observed{Place: appconfig.Place{Labels: map[string]string{"mainstay.dev/environment": "prod"}}}, want: 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			all, rendered := counted("value")
			test.observed.Rendering = kind{renderings: all}.rendering(test.config, test.observed)
			if len(*rendered) != test.want {
				t.Errorf("%d times rendered, want %d", len(*rendered), test.want)
			}
			choice := appconfig.Choose(test.config, test.observed)
			if (choice.Problem == "") != (test.want == 1) {
				t.Errorf("the problem is %q", choice.Problem)
			}
		})
	}
}
