package proxy

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAPlanReadsBackAsItWasWritten(t *testing.T) {
	plan := Plan{Seed: 7, Rules: []Rule{
		{Name: "one", Match: Match{Verb: "patch", Group: "apps", Resource: "deployments", Subresource: "status", Namespace: "shop-*", Name: "web",
			DryRun: new(false)}, Nth: 3, Times: -1, Chance: 0.5, Fault: LoseAnswer},
		{Match: Match{Verb: "watch"}, Fault: Stall, For: metav1.Duration{Duration: 1500 * time.Millisecond}, AfterEvents: 2},
		{Fault: TooManyRequests, RetryAfterSeconds: 4},
	}}
	read, err := ParsePlan([]byte(plan.String()))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(plan, read); diff != "" {
		t.Error(diff)
	}
}

func TestAWrongPlanIsRefusedByItsField(t *testing.T) {
	for name, test := range map[string]struct{ plan, want string }{
		"no fault":               {"rules: [{}]", `rules[0].fault: Required`},
		"unknown fault":          {"rules: [{fault: explode}]", `rules[0].fault: Unsupported value: "explode"`},
		"unknown field":          {"rules: [{fault: drop, mtach: {}}]", `unknown field "rules[0].mtach"`},
		"unknown field of match": {"rules: [{fault: drop, match: {kind: x}}]", `unknown field "rules[0].match.kind"`},
		"twice the same":         {"rules: []\nrules: []", `"rules" already set`},
		"not a number":           {"rules: [{fault: drop, nth: first}]", "rules.nth"},
		"unknown verb":           {"rules: [{fault: drop}, {fault: drop, match: {verb: post}}]", `rules[1].match.verb: Unsupported value: "post"`},
		"no pattern":             {"rules: [{fault: drop, match: {name: '['}}]", `rules[0].match.name: Invalid value: "["`},
		"negative nth":           {"rules: [{fault: drop, nth: -1}]", `rules[0].nth: Invalid value: -1`},
		"negative times":         {"rules: [{fault: drop, times: -2}]", `rules[0].times: Invalid value: -2`},
		"more than certain":      {"rules: [{fault: drop, chance: 1.5}]", `rules[0].chance: Invalid value: 1.5`},
		"delay without time":     {"rules: [{fault: delay}]", `rules[0].for: Required`},
		"no duration":            {"rules: [{fault: delay, for: soon}]", `invalid duration`},
		"negative time":          {"rules: [{fault: delay, for: -1s}]", `rules[0].for: Invalid value: "-1s"`},
		"time for nothing":       {"rules: [{fault: drop, for: 1s}]", `rules[0].for: Invalid value: "1s": only delay and stall have a duration`},
		"retry after what":       {"rules: [{fault: drop, retryAfterSeconds: 1}]", `rules[0].retryAfterSeconds: Invalid value: 1`},
		"events of no watch":     {"rules: [{fault: drop, afterEvents: 1}]", `rules[0].afterEvents: Invalid value: 1`},
		"cut of no watch":        {"rules: [{fault: cut, match: {verb: get}}]", `rules[0].match.verb: Invalid value: "get": must be watch for cut`},
		"expired get":            {"rules: [{fault: expire, match: {verb: get}}]", `rules[0].match.verb: Invalid value: "get": must be watch or list for expire`},
		"no YAML":                {"rules: [", "yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := ParsePlan([]byte(test.plan)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want something with %s", err, test.want)
			}
		})
	}
	if _, err := ReadPlan(t.TempDir() + "/none.yaml"); err == nil || !strings.Contains(err.Error(), "none.yaml") {
		t.Errorf("got %v", err)
	}
}

func TestParse(t *testing.T) {
	for line, want := range map[string]string{
		"GET /version": "get /version",
		"GET /apis":    "get /apis",
		"GET /apis/apps/v1/deployments?watch=true":                                  "watch apps/deployments",
		"GET /apis/apps/v1/namespaces/shop/deployments?watch=1&resourceVersion=":    "watch apps/deployments shop",
		"GET /apis/apps/v1/namespaces/shop/deployments":                             "list apps/deployments shop",
		"GET /api/v1/namespaces/shop/services/web":                                  "get services shop/web",
		"GET /api/v1/namespaces/shop":                                               "get namespaces shop",
		"GET /api/v1/namespaces":                                                    "list namespaces",
		"PUT /api/v1/namespaces/shop/finalize":                                      "update namespaces/finalize shop",
		"POST /api/v1/namespaces/shop/events":                                       "create events shop",
		"PATCH /apis/apps/v1/namespaces/shop/deployments/web/status?fieldManager=x": "patch apps/deployments/status shop/web",
		"PATCH /apis/apps/v1/namespaces/shop/deployments/web?dryRun=All":            "patch apps/deployments shop/web (dry run)",
		"DELETE /apis/apps/v1/namespaces/shop/deployments/web":                      "delete apps/deployments shop/web",
		"DELETE /apis/apps/v1/namespaces/shop/deployments":                          "deletecollection apps/deployments shop",
	} {
		method, target, _ := strings.Cut(line, " ")
		if got := Parse(httptest.NewRequestWithContext(t.Context(), method, target, http.NoBody)).String(); got != want {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
}

func TestMatches(t *testing.T) {
	request := Request{Verb: "patch", Group: "apps", Resource: "deployments", Namespace: "shop-1", Name: "web"}
	status := Request{Verb: "patch", Group: "apps", Resource: "deployments", Subresource: "status", Namespace: "shop-1", Name: "web"}
	dry := Request{Verb: "patch", Resource: "services", DryRun: true}
	for name, test := range map[string]struct {
		match   Match
		request Request
		want    bool
	}{
		"all":                        {Match{}, request, true},
		"verb":                       {Match{Verb: "patch"}, request, true},
		"other verb":                 {Match{Verb: "get"}, request, false},
		"write":                      {Match{Verb: "write"}, request, true},
		"a dry run is none":          {Match{Verb: "write"}, dry, false},
		"a read is none":             {Match{Verb: "write"}, Request{Verb: "list"}, false},
		"dry run":                    {Match{DryRun: new(true)}, dry, true},
		"no dry run":                 {Match{DryRun: new(false)}, dry, false},
		"group":                      {Match{Group: "apps"}, request, true},
		"core":                       {Match{Group: "core"}, dry, true},
		"not core":                   {Match{Group: "core"}, request, false},
		"other resource":             {Match{Resource: "services"}, request, false},
		"any subresource":            {Match{Resource: "deployments"}, status, true},
		"a subresource":              {Match{Subresource: "status"}, status, true},
		"the object, not its status": {Match{Subresource: "-"}, status, false},
		"the object":                 {Match{Subresource: "-"}, request, true},
		"namespace":                  {Match{Namespace: "shop-*"}, request, true},
		"other namespace":            {Match{Namespace: "web-*"}, request, false},
		"name":                       {Match{Name: "w?b"}, request, true},
		"other name":                 {Match{Name: "web?"}, request, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.match.matches(test.request); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

// hits returns the numbers of the requests, out of count, that fire a rule.
func hits(plan Plan, count int) []int {
	script := newScript(plan)
	for range count {
		script.begin(1, Request{Verb: "get"})
		script.begin(1, Request{Verb: "list"}) // not counted
	}
	fired, _ := script.record()
	var numbers []int
	for _, firing := range fired {
		numbers = append(numbers, firing.Nth)
	}
	return numbers
}

func TestTheNthRequestsAreHit(t *testing.T) {
	get := Match{Verb: "get"}
	for name, test := range map[string]struct {
		plan Plan
		want []int
	}{
		"the first":                   {Plan{Rules: []Rule{{Match: get, Fault: Drop}}}, []int{1}},
		"the third":                   {Plan{Rules: []Rule{{Match: get, Nth: 3, Fault: Drop}}}, []int{3}},
		"two":                         {Plan{Rules: []Rule{{Match: get, Nth: 3, Times: 2, Fault: Drop}}}, []int{3, 4}},
		"all from then on":            {Plan{Rules: []Rule{{Match: get, Nth: 4, Times: -1, Fault: Drop}}}, []int{4, 5, 6}},
		"two rules count the same":    {Plan{Rules: []Rule{{Match: get, Nth: 2, Fault: Drop}, {Match: get, Nth: 3, Fault: Drop}}}, []int{2, 3}},
		"the first rule that is due":  {Plan{Rules: []Rule{{Match: get, Nth: 2, Fault: Drop}, {Match: get, Nth: 2, Fault: Drop}}}, []int{2}},
		"with certainty":              {Plan{Rules: []Rule{{Match: get, Times: -1, Chance: 1, Fault: Drop}}}, []int{1, 2, 3, 4, 5, 6}},
		"by the seed, and no other":   {Plan{Seed: 7, Rules: []Rule{{Match: get, Times: -1, Chance: 0.5, Fault: Drop}}}, []int{1, 2, 4, 5, 6}},
		"by another seed, and others": {Plan{Seed: 8, Rules: []Rule{{Match: get, Times: -1, Chance: 0.5, Fault: Drop}}}, []int{4, 6}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, hits(test.plan, 6)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
