package appconfig

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	rolloutv1 "github.com/mainstay-platform/mainstay/api/rollout/v1"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// TestEffective: of several AppConfigs for one application one is in effect, whatever
// their order.
func TestEffective(t *testing.T) {
	config := func(name, application string, created int64) configv1.AppConfig {
		return configv1.AppConfig{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(time.Unix(created, 0))},
			Spec:       configv1.AppConfigSpec{Application: application},
		}
	}
	for name, test := range map[string]struct {
		configs    []configv1.AppConfig
		controller types.UID
		want       []string
	}{
		"none": {nil, "", nil},
		"each for its application": {[]configv1.AppConfig{config("web", "web", 2), config("shop", "shop", 1)}, "",
			[]string{"shop", "web"}},
		"the older":                          {[]configv1.AppConfig{config("a", "shop", 2), config("b", "shop", 1)}, "", []string{"b"}},
		"the older, given first":             {[]configv1.AppConfig{config("b", "shop", 1), config("a", "shop", 2)}, "", []string{"b"}},
		"of the same age, the first by name": {[]configv1.AppConfig{config("b", "shop", 1), config("a", "shop", 1)}, "", []string{"a"}},
		"the one that controls the ConfigMap": {[]configv1.AppConfig{config("c", "shop", 1), config("b", "shop", 1), config("a", "shop", 1)},
			"uid-b",
			[]string{"b"}},
		"the same, given first":                {[]configv1.AppConfig{config("a", "shop", 1), config("b", "shop", 1)}, "uid-b", []string{"b"}},
		"another controls it":                  {[]configv1.AppConfig{config("b", "shop", 1), config("a", "shop", 1)}, "uid-x", []string{"a"}},
		"the older, which does not control it": {[]configv1.AppConfig{config("b", "shop", 2), config("a", "shop", 1)}, "uid-b", []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			controller := func(configMap string) types.UID {
				if configMap != "shop-config" {
					t.Errorf("asked for %s", configMap)
				}
				return test.controller
			}
			var got []string
			for _, one := range Effective(test.configs, controller) {
				got = append(got, one.Name)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestDemandsOf: a rollback has no policy but its timeout, once the ConfigMap has its content. A
// Secret is named once, with its keys.
func TestDemandsOf(t *testing.T) {
	policy := rolloutv1.Policy{MaxParallel: new(int32(1)), Timeout: &metav1.Duration{Duration: time.Minute}}
	config := newConfig(func(spec *configv1.AppConfigSpec) {
		spec.Rollout.Policy = policy
		spec.SecretRefs = []configv1.SecretRef{
			{Secret: "db", Key: "user"}, {Secret: "cache", Key: "token"}, {Secret: "db", Key: "password"}, {Secret: "db", Key: "user"},
		}
	})
	demand := func(kind workload.SourceKind, name string, keys []string, cooldown time.Duration, policy rolloutv1.Policy) workload.Demand {
		return workload.Demand{Origin: "AppConfig/shop", Source: workload.SourceRef{Kind: kind, Name: name}, Keys: keys,
			Scope: workload.Scope{Users: true}, Cooldown: cooldown, Rollout: policy}
	}
	want := []workload.Demand{
		demand(workload.ConfigMap, "shop-config", nil, 0, policy),
		demand(workload.Secret, "db", []string{"password", "user"}, 30*time.Second, policy),
		demand(workload.Secret, "cache", []string{"token"}, 30*time.Second, policy),
	}
	has := func(revision string) map[string]string {
		return map[string]string{configv1.AnnotationRevision: revision}
	}
	if diff := cmp.Diff(want, DemandsOf(config, has("1"))); diff != "" {
		t.Error(diff)
	}
	config.Spec.Revision = new(int64(1))
	for _, marks := range []map[string]string{nil, has("2"), has("x")} {
		if diff := cmp.Diff(want, DemandsOf(config, marks)); diff != "" {
			t.Errorf("of a rollback that has not begun, with %v: %s", marks, diff)
		}
	}
	want[0].Rollout = rolloutv1.Policy{Timeout: policy.Timeout}
	if diff := cmp.Diff(want, DemandsOf(config, has("1"))); diff != "" {
		t.Errorf("of a rollback: %s", diff)
	}
}

// ownedBy returns a ConfigMap with a controller and annotations.
func ownedBy(apiVersion, kind string, marks map[string]string) *corev1.ConfigMap {
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "shop-config", Labels: map[string]string{configv1.LabelAppConfig: "shop"},
		Annotations: marks}}
	if kind != "" {
		object.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: "shop", UID: "1", Controller: new(true)}}
	}
	return object
}

// TestDeclared: only what an AppConfig reverts can differ from what was declared.
func TestDeclared(t *testing.T) {
	for name, test := range map[string]struct{ apiVersion, kind, want string }{
		"an AppConfig's":            {"config.mainstay.dev/v1", "AppConfig", "declared"},
		"in another version":        {"config.mainstay.dev/v2", "AppConfig", "declared"},
		"a copy, or left behind":    {"", "", ""},
		"another group's AppConfig": {"example.com/v1", "AppConfig", ""},
		"another kind's":            {"config.mainstay.dev/v1", "ConfigMonitor", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := DeclarationOf(ownedBy(test.apiVersion, test.kind, map[string]string{configv1.AnnotationHash: "declared"}))
			if got.Declared != test.want || got.Owner != "" != (test.want != "") {
				t.Errorf("got %+v; want %q", got, test.want)
			}
		})
	}
}

// TestPutBack: a content was put back if its AppConfig says so.
func TestPutBack(t *testing.T) {
	for name, test := range map[string]struct {
		revision, lastGood, failed, putBack string
		isCopy                              bool
		want                                bool
	}{
		"put back":                     {revision: "1", lastGood: "1", failed: "2", putBack: "true", want: true},
		"good after an earlier failed": {revision: "4", lastGood: "4", failed: "2"},
		"nothing failed":               {revision: "1", lastGood: "1"},
		"a new content":                {revision: "3", lastGood: "1", failed: "2"},
		"no marks":                     {},
		"a copy":                       {revision: "1", lastGood: "1", failed: "2", putBack: "true", isCopy: true},
	} {
		t.Run(name, func(t *testing.T) {
			marks := map[string]string{}
			for mark, value := range map[string]string{
				configv1.AnnotationRevision: test.revision, configv1.AnnotationLastGood: test.lastGood, configv1.AnnotationFailed: test.failed,
				configv1.AnnotationPutBack: test.putBack,
			} {
				if value != "" {
					marks[mark] = value
				}
			}
			kind := "AppConfig"
			if test.isCopy {
				kind = ""
			}
			if got := DeclarationOf(ownedBy("config.mainstay.dev/v1", kind, marks)); got.PutBack != test.want {
				t.Errorf("got %t", got.PutBack)
			}
		})
	}
}
