package proxy

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Plan says which requests fail, and how. With the zero value none fails.
type Plan struct {
	// Seed seeds the decisions of rules with a chance. The same seed gives the same decisions.
	Seed uint64 `json:"seed,omitempty"`
	// Rules each count the requests that they match. The first rule that is due hits a request; the
	// others only count it.
	Rules []Rule `json:"rules"`
}

// Rule makes some requests fail.
type Rule struct {
	// Name is shown in the record of hits.
	Name string `json:"name,omitempty"`
	// Match selects requests, which are counted from 1.
	Match Match `json:"match,omitzero"`
	// Nth is the first request that is hit. Zero means 1.
	Nth int `json:"nth,omitempty"`
	// Times is how many requests in a row are hit, from the Nth on. Zero means 1, and -1 means all
	// that follow.
	Times int `json:"times,omitempty"`
	// Chance is the share of these requests that is hit, in (0, 1]. Zero means all. It depends on the
	// plan's seed, the index of the rule and the number of the request.
	Chance float64 `json:"chance,omitempty"`
	// Fault is what happens to a request that is hit.
	Fault Fault `json:"fault"`
	// For is the duration of a delay or a stall. A stall without it lasts until the client gives up.
	For metav1.Duration `json:"for,omitzero"`
	// RetryAfterSeconds is the header Retry-After of tooManyRequests. Zero means 1.
	RetryAfterSeconds int `json:"retryAfterSeconds,omitempty"`
	// AfterEvents is how many events of a watch pass before it is cut, stalled or expired. Bookmarks
	// pass and are not counted.
	AfterEvents int `json:"afterEvents,omitempty"`
}

// Match selects requests. An empty field matches all. Names are patterns of path.Match: "shop-*".
type Match struct {
	// Verb is one of Kubernetes' verbs, or "write" for all verbs that change something. Dry runs are
	// not writes.
	Verb string `json:"verb,omitempty"`
	// Group is an API group. "core" is the group without a name.
	Group    string `json:"group,omitempty"`
	Resource string `json:"resource,omitempty"`
	// Subresource is the name of a subresource, or "-" for the object itself.
	Subresource string `json:"subresource,omitempty"`
	Namespace   string `json:"namespace,omitempty"`
	Name        string `json:"name,omitempty"`
	// DryRun selects requests that are dry runs (true) or are not (false).
	DryRun *bool `json:"dryRun,omitempty"`
}

// Fault is what happens to a request.
type Fault string

// Faults.
const (
	// Drop closes the connection. The API server never receives the request.
	Drop Fault = "drop"
	// LoseAnswer lets the request arrive, and closes the connection without an answer.
	LoseAnswer Fault = "loseAnswer"
	// KillBefore ends all clients of the proxy as if their processes had been killed. The request
	// never arrives.
	KillBefore Fault = "killBefore"
	// KillAfter lets the request arrive, and then ends all clients in the same way.
	KillAfter Fault = "killAfter"
	// Conflict answers 409, without the API server.
	Conflict Fault = "conflict"
	// TooManyRequests answers 429 with a Retry-After, without the API server.
	TooManyRequests Fault = "tooManyRequests"
	// InternalError answers 500, without the API server.
	InternalError Fault = "internalError"
	// Delay delays the request, and then lets it pass.
	Delay Fault = "delay"
	// Cut closes the connection of a watch at its next event, which is lost.
	Cut Fault = "cut"
	// Stall delays the next event of a watch and all that follow, while the connection stays open. If
	// the stall has a duration, the connection is closed after it.
	Stall Fault = "stall"
	// Expire answers a list with 410, and ends a watch with the corresponding event at its next event.
	Expire Fault = "expire"
)

var faults = []Fault{Drop, LoseAnswer, KillBefore, KillAfter, Conflict, TooManyRequests, InternalError, Delay, Cut, Stall, Expire}

// ReadPlan reads a plan from a YAML file. An error names the invalid field.
func ReadPlan(name string) (Plan, error) {
	content, err := os.ReadFile(name) //nolint:gosec // a test's own file
	if err != nil {
		return Plan{}, fmt.Errorf("reading a plan: %w", err)
	}
	plan, err := ParsePlan(content)
	if err != nil {
		return Plan{}, fmt.Errorf("reading the plan %s: %w", name, err)
	}
	return plan, nil
}

// ParsePlan is like ReadPlan, for content that is already read.
func ParsePlan(content []byte) (Plan, error) {
	asJSON, err := yaml.YAMLToJSONStrict(content)
	if err != nil {
		return Plan{}, err
	}
	var plan Plan
	strict, err := kjson.UnmarshalStrict(asJSON, &plan)
	if err := errors.Join(append(strict, err)...); err != nil {
		return Plan{}, err
	}
	return plan, plan.Validate()
}

// String returns the plan as YAML.
func (p Plan) String() string {
	content, err := yaml.Marshal(p)
	if err != nil {
		return err.Error()
	}
	return string(content)
}

// Validate returns all problems, each with its field.
func (p Plan) Validate() error {
	var problems field.ErrorList
	for i, rule := range p.Rules {
		problems = append(problems, rule.validate(field.NewPath("rules").Index(i))...)
	}
	return problems.ToAggregate()
}

func (r Rule) validate(at *field.Path) field.ErrorList {
	problems := r.Match.validate(at.Child("match"))
	wrong := func(name string, value any, why string) {
		problems = append(problems, field.Invalid(at.Child(name), value, why))
	}
	switch {
	case r.Fault == "":
		problems = append(problems, field.Required(at.Child("fault"), "what happens to the request"))
	case !slices.Contains(faults, r.Fault):
		problems = append(problems, field.NotSupported(at.Child("fault"), r.Fault, faults))
	}
	if r.Nth < 0 {
		wrong("nth", r.Nth, "requests are counted from 1")
	}
	if r.Times < -1 {
		wrong("times", r.Times, "must be -1 (all that follow) or more")
	}
	if r.Chance < 0 || r.Chance > 1 {
		wrong("chance", r.Chance, "must be above 0, and at most 1")
	}
	switch hasTime := r.Fault == Delay || r.Fault == Stall; {
	case r.For.Duration < 0:
		wrong("for", r.For.Duration.String(), "must not be negative")
	case r.For.Duration != 0 && !hasTime:
		wrong("for", r.For.Duration.String(), "only delay and stall have a duration")
	case r.For.Duration == 0 && r.Fault == Delay:
		problems = append(problems, field.Required(at.Child("for"), "the duration of the delay"))
	}
	if r.RetryAfterSeconds < 0 || r.RetryAfterSeconds != 0 && r.Fault != TooManyRequests {
		wrong("retryAfterSeconds", r.RetryAfterSeconds, "must not be negative, and goes with tooManyRequests")
	}
	isOfWatch := r.Fault == Cut || r.Fault == Stall || r.Fault == Expire
	if r.AfterEvents < 0 || r.AfterEvents != 0 && !isOfWatch {
		wrong("afterEvents", r.AfterEvents, "must not be negative, and goes with cut, stall and expire")
	}
	if (r.Fault == Cut || r.Fault == Stall) && r.Match.Verb != "watch" {
		problems = append(problems, field.Invalid(at.Child("match", "verb"), r.Match.Verb, "must be watch for "+string(r.Fault)))
	}
	if r.Fault == Expire && r.Match.Verb != "watch" && r.Match.Verb != "list" {
		problems = append(problems, field.Invalid(at.Child("match", "verb"), r.Match.Verb, "must be watch or list for expire"))
	}
	return problems
}

func (m Match) validate(at *field.Path) field.ErrorList {
	var problems field.ErrorList
	if known := append(slices.Clone(verbs), anyWrite); m.Verb != "" && !slices.Contains(known, m.Verb) {
		problems = append(problems, field.NotSupported(at.Child("verb"), m.Verb, known))
	}
	for name, pattern := range map[string]string{"namespace": m.Namespace, "name": m.Name} {
		if _, err := path.Match(pattern, ""); err != nil {
			problems = append(problems, field.Invalid(at.Child(name), pattern, "is not a valid pattern: "+err.Error()))
		}
	}
	return problems
}

const (
	// anyWrite matches all verbs that change something.
	anyWrite = "write"
	// coreGroup is the group without a name.
	coreGroup = "core"
	// itself matches an object without a subresource.
	itself = "-"
)

// matches reports whether a request is selected.
func (m Match) matches(request Request) bool {
	same := func(wanted, empty, got string) bool {
		return wanted == "" || wanted == got || wanted == empty && got == ""
	}
	like := func(pattern, got string) bool {
		matched, err := path.Match(pattern, got)
		return pattern == "" || err == nil && matched
	}
	verb := same(m.Verb, "", request.Verb) || m.Verb == anyWrite && request.IsWrite()
	return verb && same(m.Group, coreGroup, request.Group) && same(m.Resource, "", request.Resource) &&
		same(m.Subresource, itself, request.Subresource) &&
		like(m.Namespace, request.Namespace) && like(m.Name, request.Name) &&
		(m.DryRun == nil || *m.DryRun == request.DryRun)
}
