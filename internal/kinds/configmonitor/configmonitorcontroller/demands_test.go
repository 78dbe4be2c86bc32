package configmonitorcontroller

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/workload/observe"
)

// TestDemands: the ConfigMonitors of a namespace that do not evict demand restarts, sorted by name.
func TestDemands(t *testing.T) {
	monitor := func(namespace, name string, change func(*configv1.ConfigMonitor)) *configv1.ConfigMonitor {
		made := &configv1.ConfigMonitor{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec: configv1.ConfigMonitorSpec{ConfigMap: "flags"}}
		change(made)
		return made
	}
	scheme := runtime.NewScheme()
	if err := configv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	cached := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		monitor("shop", "b", func(m *configv1.ConfigMonitor) { m.Spec.ConfigMap, m.Spec.LowerConfigMap = "", "lower" }),
		monitor("shop", "a", func(m *configv1.ConfigMonitor) { m.Spec.ConfigMap, m.Spec.Secret = "", "database" }),
		monitor("shop", "c", func(m *configv1.ConfigMonitor) { m.Spec.Keys = []string{"MESSAGE"} }),
		monitor("shop", "evicting", func(m *configv1.ConfigMonitor) { m.Spec.Strategy = configv1.StrategyEvict }),
		monitor("shop", "leaving", func(m *configv1.ConfigMonitor) {
			m.Finalizers, m.DeletionTimestamp = []string{"example.com/a"}, new(metav1.Unix(2, 0))
		}),
		monitor("other", "elsewhere", func(*configv1.ConfigMonitor) {}),
	).Build()
	demands, err := demands().List(t.Context(), observe.Reader{Cached: cached}, "shop")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, demand := range demands {
		got = append(got, demand.Origin+" "+demand.Source.String())
	}
	want := []string{"ConfigMonitor/a Secret/database", "ConfigMonitor/b ConfigMap/lower", "ConfigMonitor/c ConfigMap/flags"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
