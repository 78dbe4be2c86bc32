package podspec

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TestChecks: each rule refuses once, and what is right passes.
func TestChecks(t *testing.T) {
	at := field.NewPath("spec")
	amounts := func(requests, limits string) corev1.ResourceRequirements {
		list := func(text string) corev1.ResourceList {
			if text == "" {
				return nil
			}
			return corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(text)}
		}
		return corev1.ResourceRequirements{Requests: list(requests), Limits: list(limits)}
	}
	tolerate := func(one corev1.Toleration) field.ErrorList { return CheckTolerations([]corev1.Toleration{one}, at) }
	for want, got := range map[string]field.ErrorList{
		`spec.limits.memory: Invalid value: "-1": must be 0 or more`:                              CheckResources(amounts("", "-1"), at),
		`spec.requests.memory: Invalid value: "-1": must be 0 or more`:                            CheckResources(amounts("-1", ""), at),
		`spec.requests.memory: Invalid value: "2": must be at most the limit, 1 (spec.limits.mem`: CheckResources(amounts("2", "1"), at),
		`spec[0].effect: Unsupported value: "Never": supported values: "NoSchedule", `:            tolerate(corev1.Toleration{Key: "a", Effect: "Never"}),
		`spec[0].operator: Unsupported value: "Is": supported values: "Equal", "Exists"`:          tolerate(corev1.Toleration{Key: "a", Operator: "Is"}),
		`spec[0].value: Invalid value: "x": must be empty with the operator Exists`:               tolerate(corev1.Toleration{Operator: "Exists", Value: "x"}),
		`spec[0].key: Required value: is the key of the taint`:                                    tolerate(corev1.Toleration{Value: "x"}),
		`spec[0].effect: Invalid value: "": must be NoExecute with tolerationSeconds`:             tolerate(corev1.Toleration{Key: "a", TolerationSeconds: new(int64)}),
		`spec[disk]: Invalid value: "my ssd": must be a label value`:                              CheckNodeSelector(map[string]string{"disk": "my ssd"}, at),
		`spec[my disk]: Invalid value: "my disk": must be a label key`:                            CheckNodeSelector(map[string]string{"my disk": ""}, at),
		`spec: Invalid value: "Fast SSD": must be the name of a StorageClass: lower-case letters`: CheckName("Fast SSD", "StorageClass", at),
	} {
		if len(got) != 1 || !strings.HasPrefix(got[0].Error(), want) {
			t.Errorf("got %v, want %s", got, want)
		}
	}
	for _, got := range []field.ErrorList{
		CheckResources(amounts("1", "2"), at), CheckResources(amounts("1", ""), at), tolerate(corev1.Toleration{Operator: "Exists"}),
		tolerate(corev1.Toleration{Key: "a", Value: "b", Effect: "NoExecute", TolerationSeconds: new(int64)}),
		CheckNodeSelector(map[string]string{"disk": "ssd", "example.com/zone": ""}, at), CheckName("", "StorageClass", at),
		CheckName("fast.ssd", "StorageClass", at),
	} {
		if len(got) > 0 {
			t.Error(got)
		}
	}
}
