package rollout_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	rolloutv1 "github.com/mainstay-platform/mainstay/api/rollout/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/rollout"
)

func TestValidate(t *testing.T) {
	window := func(start, end, zone string, days ...rolloutv1.Day) rolloutv1.Policy {
		return rolloutv1.Policy{Window: &rolloutv1.Window{Start: start, End: end, TimeZone: zone, Days: days}}
	}
	tests := map[string]struct {
		policy rolloutv1.Policy
		want   string
	}{
		"nothing":          {},
		"order":            {policy: rolloutv1.Policy{Order: []string{"api", "web.v2", "StatefulSet/db"}}},
		"order, empty":     {policy: rolloutv1.Policy{Order: []string{""}}, want: `spec.rollout.order[0]: Invalid value: "": must be the name of a workload, for example api, or its kind (Deployment, StatefulSet or DaemonSet) and name, for example StatefulSet/api`},
		"order, slashes":   {policy: rolloutv1.Policy{Order: []string{"api", "apps/Deployment/api"}}, want: `spec.rollout.order[1]: Invalid value: "apps/Deployment/api": must be the name of a workload, for example api, or its kind (Deployment, StatefulSet or DaemonSet) and name, for example StatefulSet/api`},
		"order, no kind":   {policy: rolloutv1.Policy{Order: []string{"/api"}}, want: `spec.rollout.order[0]: Invalid value: "/api": must be the name of a workload, for example api, or its kind (Deployment, StatefulSet or DaemonSet) and name, for example StatefulSet/api`},
		"order, a Job":     {policy: rolloutv1.Policy{Order: []string{"Job/api"}}, want: `spec.rollout.order[0]: Invalid value: "Job/api": must be the name of a workload, for example api, or its kind (Deployment, StatefulSet or DaemonSet) and name, for example StatefulSet/api`},
		"parallel":         {policy: rolloutv1.Policy{MaxParallel: ptr.To[int32](1)}},
		"parallel, none":   {policy: rolloutv1.Policy{MaxParallel: ptr.To[int32](0)}, want: `spec.rollout.maxParallel: Invalid value: 0: must be at least 1`},
		"canary":           {policy: rolloutv1.Policy{Canary: &rolloutv1.Canary{Count: 1, Soak: duration(0)}}},
		"canary, negative": {policy: rolloutv1.Policy{Canary: &rolloutv1.Canary{Count: -1}}, want: `spec.rollout.canary.count: Invalid value: -1: must be at least 1`},
		"percent":          {policy: rolloutv1.Policy{Canary: &rolloutv1.Canary{Percent: ptr.To[int32](100)}}},
		"percent, none":    {policy: rolloutv1.Policy{Canary: &rolloutv1.Canary{Percent: ptr.To[int32](0)}}, want: `spec.rollout.canary.percent: Invalid value: 0: must be from 1 to 100`},
		"percent, of more": {policy: rolloutv1.Policy{Canary: &rolloutv1.Canary{Percent: ptr.To[int32](101)}}, want: `spec.rollout.canary.percent: Invalid value: 101: must be from 1 to 100`},
		"percent, count":   {policy: rolloutv1.Policy{Canary: &rolloutv1.Canary{Count: 1, Percent: ptr.To[int32](1)}}, want: `spec.rollout.canary.percent: Invalid value: 1: must not be set together with count`},
		"soak, negative":   {policy: rolloutv1.Policy{Canary: &rolloutv1.Canary{Soak: duration(-time.Second)}}, want: `spec.rollout.canary.soak: Invalid value: "-1s": must be 0s or more`},
		"timeout":          {policy: rolloutv1.Policy{Timeout: duration(time.Second)}},
		"timeout, none":    {policy: rolloutv1.Policy{Timeout: duration(0)}, want: `spec.rollout.timeout: Invalid value: "0s": must be more than 0s, or every rollout would fail`},
		"window":           {policy: window("22:00", "04:00", "Europe/Berlin", "Mon", "Sun")},
		"window, start":    {policy: window("22", "04:00", ""), want: `spec.rollout.window.start: Invalid value: "22": must be a time of day from 00:00 to 23:59`},
		"window, end":      {policy: window("22:00", "4:00", ""), want: `spec.rollout.window.end: Invalid value: "4:00": must be a time of day from 00:00 to 23:59`},
		"window, no time":  {policy: window("22:00", "22:00", ""), want: `spec.rollout.window.end: Invalid value: "22:00": must differ from start; omit the window to allow all times`},
		"window, zone":     {policy: window("22:00", "04:00", "Berlin"), want: `spec.rollout.window.timeZone: Invalid value: "Berlin": must be a name in the IANA time zone database, for example Europe/Berlin`},
		"window, machine":  {policy: window("22:00", "04:00", "Local"), want: `spec.rollout.window.timeZone: Invalid value: "Local": must be a name in the IANA time zone database, for example Europe/Berlin`},
		"window, day":      {policy: window("22:00", "04:00", "", "Monday"), want: `spec.rollout.window.days[0]: Unsupported value: "Monday": supported values: "Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := ""
			if problems := rollout.Validate(test.policy, rollout.InNamespace, field.NewPath("spec", "rollout")); len(problems) > 0 {
				got = problems.ToAggregate().Error()
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestValidateOrderAcrossNamespaces: an entry of another form would name no workload.
func TestValidateOrderAcrossNamespaces(t *testing.T) {
	for entry, isValid := range map[string]bool{
		"shop/api": true, "1shop/api.v2": true, "StatefulSet/shop/api": true,
		"api": false, "Job/shop/api": false, "Deployment/api": false, "shop/": false, "/api": false, "a/b/c/d": false, "": false,
	} {
		problems := rollout.Validate(rolloutv1.Policy{Order: []string{entry}}, rollout.AcrossNamespaces, field.NewPath("spec"))
		if (len(problems) == 0) != isValid {
			t.Errorf("%q: %v", entry, problems)
		}
	}
}
