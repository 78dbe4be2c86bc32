package database

import (
	"encoding/json"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-platform/mainstay/api"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// TestGrow walks the table of Grow.
func TestGrow(t *testing.T) {
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	upTo := func(limit string) *Growth { return &Growth{From: 80, By: 25, Limit: resource.MustParse(limit)} }
	for name, test := range map[string]struct {
		growth *Growth
		// asked and has are those of both claims, and full is that of the second instance.
		asked, has []string
		full       int
		grownAt    string
		ownership  plan.Ownership
		want       string
	}{
		"nothing exists":             {upTo("10Gi"), nil, nil, 0, "", plan.Ours, "4Gi"},
		"no growth":                  {nil, []string{"4Gi", "4Gi"}, []string{"4Gi", "4Gi"}, 95, "", plan.Ours, "4Gi"},
		"enlarged by hand":           {nil, []string{"4Gi", "6Gi"}, []string{"4Gi", "6Gi"}, 0, "", plan.Ours, "6Gi"},
		"of an earlier database":     {nil, []string{"6Gi", "6Gi"}, []string{"6Gi", "6Gi"}, 0, "", plan.Consenting, "6Gi"},
		"of another owner":           {nil, []string{"6Gi", "6Gi"}, []string{"6Gi", "6Gi"}, 0, "", plan.Foreign, "4Gi"},
		"not full enough":            {upTo("10Gi"), []string{"4Gi", "4Gi"}, []string{"4Gi", "4Gi"}, 75, "", plan.Ours, "4Gi"},
		"full enough":                {upTo("10Gi"), []string{"4Gi", "4Gi"}, []string{"4Gi", "4Gi"}, 80, "", plan.Ours, "5Gi 12:00:00"},
		"one is larger":              {upTo("10Gi"), []string{"4Gi", "8Gi"}, []string{"4Gi", "8Gi"}, 80, "", plan.Ours, "10Gi 12:00:00"},
		"another can't grow":         {upTo("9Gi"), []string{"4Gi", "5Gi"}, []string{"4Gi", "5Gi"}, 95, "11:00:00", plan.Ours, "6400Mi 12:00:00"},
		"the full one can't grow":    {upTo("10Gi"), []string{"5Gi", "4Gi"}, []string{"5Gi", "4Gi"}, 95, "11:00:00", plan.Ours, "5Gi 11:00:00"},
		"the spec wants more":        {upTo("10Gi"), []string{"3Gi", "3Gi"}, []string{"3Gi", "3Gi"}, 95, "", plan.Ours, "4Gi"},
		"at the limit":               {upTo("4Gi"), []string{"4Gi", "4Gi"}, []string{"4Gi", "4Gi"}, 100, "", plan.Ours, "4Gi"},
		"up to the limit":            {upTo("4500Mi"), []string{"4Gi", "4Gi"}, []string{"4Gi", "4Gi"}, 100, "", plan.Ours, "4500Mi 12:00:00"},
		"it is being resized":        {upTo("10Gi"), []string{"5Gi", "5Gi"}, []string{"4Gi", "5Gi"}, 100, "11:00:00", plan.Ours, "5Gi 11:00:00"},
		"it grew a minute ago":       {upTo("10Gi"), []string{"5Gi", "5Gi"}, []string{"5Gi", "5Gi"}, 100, "11:59:00", plan.Ours, "5Gi 11:59:00 waits until 12:09:00"},
		"it grew ten minutes ago":    {upTo("10Gi"), []string{"5Gi", "5Gi"}, []string{"5Gi", "5Gi"}, 100, "11:50:00", plan.Ours, "6400Mi 12:00:00"},
		"by a time that is to come":  {upTo("10Gi"), []string{"5Gi", "5Gi"}, []string{"5Gi", "5Gi"}, 100, "23:59:00", plan.Ours, "6400Mi 12:00:00"},
		"by a text that is no time":  {upTo("10Gi"), []string{"5Gi", "5Gi"}, []string{"5Gi", "5Gi"}, 100, "yesterday", plan.Ours, "6400Mi 12:00:00"},
		"the first one is not there": {upTo("10Gi"), []string{"", "4Gi"}, []string{"", "4Gi"}, 85, "", plan.Ours, "5Gi 12:00:00"},
	} {
		d := &Database{Namespace: "shop", Name: "db", Replicas: 2, Volumes: []Volume{
			{Name: DataVolume, Size: resource.MustParse("4Gi"), Claim: VolumeName, Growth: test.growth},
		}}
		observed := State{Now: now, Children: plan.Children{}}
		for ordinal, asked := range test.asked {
			if asked != "" {
				claim := claimWith(asked, test.has[ordinal], test.grownAt)
				observed.Children[d.Ref("PersistentVolumeClaim", VolumeName("db", ordinal))] = plan.Found{Object: claim, Ownership: test.ownership}
			}
		}
		observed.Pods = []corev1.Pod{filled(0, 50), filled(1, test.full)}
		d.Grow(observed)
		got := d.Volumes[0].Size.String()
		if at := d.Volumes[0].GrownAt; !at.IsZero() {
			got += at.Format(" 15:04:05")
		}
		if until := d.Volumes[0].GrowsAt; !until.IsZero() {
			got += until.Format(" waits until 15:04:05")
		}
		if got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}

// claimWith is a claim that was asked for a size and has one, and grew at that time of the day.
func claimWith(asked, has, grownAt string) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(asked)}
	claim.Status.Phase = corev1.ClaimBound
	claim.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(has)}
	if grownAt != "" {
		claim.Annotations = map[string]string{api.AnnotationGrownAt: "2026-11-25T" + grownAt + "Z"}
	}
	return claim
}

// filled is the pod of an instance whose volume is so full.
func filled(ordinal, full int) corev1.Pod {
	text, _ := json.Marshal(contract.Report{State: "Following", Full: full})
	return corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: PodName("db", ordinal), Annotations: map[string]string{api.AnnotationInstance: string(text)},
	}}
}
