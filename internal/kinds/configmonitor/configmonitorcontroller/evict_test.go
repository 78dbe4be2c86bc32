package configmonitorcontroller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/configmonitor"
	"github.com/mainstay-platform/mainstay/internal/kit/errclass"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// Responses of the API server.
var (
	pods      = schema.GroupResource{Resource: "pods"}
	refused   = apierrors.NewForbidden(pods, "", errors.New("a webhook\nsays no"))
	twoBudget = apierrors.NewInternalError(errors.New("this pod has more than one PodDisruptionBudget"))
	budget    = func() error {
		err := apierrors.NewTooManyRequests("later", 0)
		err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause}}
		return err
	}()
)

// decided returns a decision about pods that are older than the content, of which atOnce may be
// evicted at a time.
func decided(names []string, atOnce int32) configmonitor.Evictions {
	return decidedAfter(0, names, atOnce)
}

// noon is the present of these decisions.
var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// flags is the source, with its present content.
var flags = workload.Source{Ref: workload.SourceRef{Kind: workload.ConfigMap, Name: "flags"}, State: workload.Present,
	Changed: noon.Add(-time.Minute)}

// evicting returns the monitor of these decisions.
func evicting(atOnce int32) *configv1.ConfigMonitor {
	monitor := &configv1.ConfigMonitor{Spec: configv1.ConfigMonitorSpec{
		ConfigMap: "flags", PodSelector: map[string]string{"app": "web"}, Strategy: configv1.StrategyEvict, AllowUnowned: true,
		MaxParallel: &atOnce,
	}}
	configmonitor.Default(monitor)
	return monitor
}

// decidedAfter returns the decision some time later.
func decidedAfter(later time.Duration, names []string, atOnce int32) configmonitor.Evictions {
	var all []corev1.Pod
	for _, name := range names {
		all = append(all, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name),
			CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour))}})
	}
	return configmonitor.DecideEvictions(&evicting(atOnce).Spec, flags, configmonitor.Record{}, all, noon.Add(later))
}

// answering returns a client that evicts as the answers say; nil is a success. It records which
// evictions were requested.
func answering(answers map[string]error, asked *[]string) client.Client {
	return fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		SubResourceCreate: func(_ context.Context, _ client.Client, _ string, pod, _ client.Object, _ ...client.SubResourceCreateOption) error {
			*asked = append(*asked, pod.GetName())
			return answers[pod.GetName()]
		},
	}).Build()
}

// TestEvictPods: a failed eviction does not stop the others, except for a timeout.
func TestEvictPods(t *testing.T) {
	for name, test := range map[string]struct {
		answers map[string]error
		atOnce  int32
		asked   string
		skipped string
		again   time.Duration
		class   errclass.Class
	}{
		"all go":              {nil, 4, "a b c d", "", 2 * time.Second, errclass.None},
		"one has two budgets": {map[string]error{"a": twoBudget}, 4, "a b c d", "a EvictionFailed", 2 * time.Second, errclass.Transient},
		"one is refused":      {map[string]error{"b": refused}, 4, "a b c d", "b EvictionFailed", 2 * time.Second, errclass.Blocked},
		"another in its place": {map[string]error{"a": twoBudget}, 1, "a b", "a EvictionFailed, c WaitingForOthers, d WaitingForOthers",
			2 * time.Second, errclass.Transient},
		"another in a budget's": {map[string]error{"a": budget}, 1, "a b",
			"a DisruptionBudget, c WaitingForOthers, d WaitingForOthers", 2 * time.Second, errclass.None},
		"a budget protects all": {map[string]error{"a": budget, "b": budget, "c": budget, "d": budget}, 1, "a b c d",
			"a DisruptionBudget, b DisruptionBudget, c DisruptionBudget, d DisruptionBudget", 10 * time.Second, errclass.None},
		"all are refused": {map[string]error{"a": refused, "b": refused, "c": refused, "d": refused}, 1, "a b c d",
			"a EvictionFailed, b EvictionFailed, c EvictionFailed, d EvictionFailed", time.Minute, errclass.Blocked},
		"an answer does not come": {map[string]error{"b": context.DeadlineExceeded}, 4, "a b",
			"b DisruptionBudget, c WaitingForOthers, d WaitingForOthers", 2 * time.Second, errclass.None},
		"one has gone": {map[string]error{"a": apierrors.NewNotFound(pods, "a")}, 1, "a",
			"b WaitingForOthers, c WaitingForOthers, d WaitingForOthers", 2 * time.Second, errclass.None},
	} {
		t.Run(name, func(t *testing.T) {
			var asked, skipped []string
			evictions := decided([]string{"a", "b", "c", "d"}, test.atOnce)
			_, err := (kind{client: answering(test.answers, &asked)}).evictPods(t.Context(), "shop", &evictions)
			for _, one := range evictions.Skipped {
				skipped = append(skipped, strings.TrimPrefix(one.Name, "Pod/")+" "+one.Reason)
			}
			if diff := cmp.Diff(test.asked, strings.Join(asked, " ")); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(test.skipped, strings.Join(skipped, ", ")); diff != "" {
				t.Error(diff)
			}
			if errclass.Of(err) != test.class || evictions.RequeueAfter != test.again || evictions.Waiting != len(skipped) {
				t.Errorf("got %v; requeued after %s; %d wait", err, evictions.RequeueAfter, evictions.Waiting)
			}
		})
	}
}

// TestEvictPodsFailing: if everything fails, not everything is tried, and the message stays short.
func TestEvictPodsFailing(t *testing.T) {
	var names, asked []string
	answers := map[string]error{}
	for i := range 30 {
		names = append(names, fmt.Sprintf("web-%02d", i))
		answers[names[i]] = refused
	}
	evictions := decided(names, 30)
	gone, err := (kind{client: answering(answers, &asked)}).evictPods(t.Context(), "shop", &evictions)
	if gone != 0 || len(asked) != configmonitor.MaxFailed || len(evictions.Skipped) != 30 {
		t.Errorf("%d are gone, %d were asked for, %d are skipped", gone, len(asked), len(evictions.Skipped))
	}
	if text := fmt.Sprint(err); !strings.HasPrefix(text, "evicting Pod web-00: ") || !strings.HasSuffix(text, "; and 7 more") ||
		strings.Contains(text, "\n") {
		t.Errorf("the text is %q", text)
	}
	if last := evictions.Skipped[29]; last.Message != "waiting: 10 evictions failed, the last one of Pod/web-09" {
		t.Errorf("of the last: %+v", last)
	}
}

// TestEvictPodsOfABudget: where a budget protects all pods, not all are tried each time, however
// many may be evicted at a time.
func TestEvictPodsOfABudget(t *testing.T) {
	for _, atOnce := range []int32{1, 30} {
		t.Run(fmt.Sprintf("%d at a time", atOnce), func(t *testing.T) {
			var names, asked []string
			answers := map[string]error{}
			for i := range 30 {
				names = append(names, fmt.Sprintf("web-%02d", i))
				answers[names[i]] = budget
			}
			evictions := decided(names, atOnce)
			gone, err := (kind{client: answering(answers, &asked)}).evictPods(t.Context(), "shop", &evictions)
			if gone != 0 || err != nil || len(asked) != configmonitor.MaxFailed+1 || evictions.RequeueAfter != 10*time.Second {
				t.Errorf("%d are gone, %d were asked for, requeued after %s: %v", gone, len(asked), evictions.RequeueAfter, err)
			}
			if len(evictions.Skipped) != 30 || evictions.Waiting != 30 || len(evictions.Restarting) != 0 {
				t.Errorf("%d are skipped, %d wait, %v restart", len(evictions.Skipped), evictions.Waiting, evictions.Restarting)
			}
			for i, skipped := range evictions.Skipped {
				want := configv1.Skipped{Name: "Pod/" + names[i], Reason: "DisruptionBudget",
					Message: "PodDisruptionBudgets forbid 11 evictions now, of this pod or of others: retrying in turns"}
				if diff := cmp.Diff(want, skipped); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

// TestStatusOfABudget: as long as a budget protects all pods, the status stays the same, although
// each pass tries others.
func TestStatusOfABudget(t *testing.T) {
	for _, atOnce := range []int32{1, 30} {
		t.Run(fmt.Sprintf("%d at a time", atOnce), func(t *testing.T) {
			var names []string
			answers := map[string]error{}
			for i := range 30 {
				names = append(names, fmt.Sprintf("web-%02d", i))
				answers[names[i]] = budget
			}
			var tried [2][]string
			var statuses [2]configv1.ConfigMonitorStatus
			for pass := range tried {
				later := time.Duration(pass) * 10 * time.Second
				evictions := decidedAfter(later, names, atOnce)
				if _, err := (kind{client: answering(answers, &tried[pass])}).evictPods(t.Context(), "shop", &evictions); err != nil {
					t.Fatal(err)
				}
				statuses[pass], _ = configmonitor.Status(evicting(atOnce), configmonitor.Observed{Now: noon.Add(later), Source: flags},
					configmonitor.Decision{Evictions: &evictions}, plan.Result{})
			}
			if cmp.Equal(tried[0], tried[1]) {
				t.Errorf("both passes try %v", tried[0])
			}
			if diff := cmp.Diff(statuses[0], statuses[1]); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestEvictPodsWhileOthersAreReplaced: a pod that is being replaced does not make all that a budget
// protects be tried every two seconds.
func TestEvictPodsWhileOthersAreReplaced(t *testing.T) {
	var names, asked []string
	answers := map[string]error{}
	for i := range 30 {
		names = append(names, fmt.Sprintf("web-%02d", i))
		answers[names[i]] = budget
	}
	delete(answers, "web-00")
	evictions := decided(names, 30)
	gone, err := (kind{client: answering(answers, &asked)}).evictPods(t.Context(), "shop", &evictions)
	if gone != 1 || err != nil || len(asked) != configmonitor.MaxFailed+2 || evictions.RequeueAfter != 10*time.Second {
		t.Errorf("%d are gone, %d were asked for, requeued after %s: %v", gone, len(asked), evictions.RequeueAfter, err)
	}
	if diff := cmp.Diff([]string{"Pod/web-00"}, evictions.Restarting); diff != "" {
		t.Error(diff)
	}
}

// TestEvictPodsBehindABudget: a pod that no budget protects is tried within some passes, however
// many before it are protected.
func TestEvictPodsBehindABudget(t *testing.T) {
	var names, asked []string
	answers := map[string]error{}
	for i := range 30 {
		names = append(names, fmt.Sprintf("web-%02d", i))
		answers[names[i]] = budget
	}
	delete(answers, "web-25")
	for pass := range 3 {
		evictions := decidedAfter(time.Duration(pass)*10*time.Second, names, 1)
		gone, err := (kind{client: answering(answers, &asked)}).evictPods(t.Context(), "shop", &evictions)
		if isLast := pass == 2; err != nil || (gone == 1) != isLast {
			t.Errorf("pass %d: %d are gone, %v", pass, gone, err)
		}
	}
}
