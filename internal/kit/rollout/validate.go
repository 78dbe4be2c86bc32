package rollout

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	rolloutv1 "github.com/mainstay-platform/mainstay/api/rollout/v1"
)

// Scope is where the units of a policy are. The order names them by it.
type Scope int

const (
	// InNamespace: NAME, or KIND/NAME.
	InNamespace Scope = iota
	// AcrossNamespaces: NAMESPACE/NAME, or KIND/NAMESPACE/NAME.
	AcrossNamespaces
)

// wantEntry says what an entry of the order must be.
var wantEntry = map[Scope]string{
	InNamespace: "must be the name of a workload, for example api, or its kind (Deployment, StatefulSet or DaemonSet) and name, " +
		"for example StatefulSet/api",
	AcrossNamespaces: "must be the namespace and name of a workload, for example shop/api, or its kind (Deployment, StatefulSet or " +
		"DaemonSet), namespace and name, for example StatefulSet/shop/api",
}

// kinds are those of the workloads that can be rolled out.
var kinds = []string{"Deployment", "StatefulSet", "DaemonSet"}

// Validate checks what a schema can't check, and what a client can bypass. path is the path of the
// policy.
func Validate(policy rolloutv1.Policy, scope Scope, path *field.Path) field.ErrorList {
	var problems field.ErrorList
	for i, entry := range policy.Order {
		if !isEntry(entry, scope) {
			problems = append(problems, field.Invalid(path.Child("order").Index(i), entry, wantEntry[scope]))
		}
	}
	if limit := policy.MaxParallel; limit != nil && *limit < 1 {
		problems = append(problems, field.Invalid(path.Child("maxParallel"), *limit, "must be at least 1"))
	}
	if canary := policy.Canary; canary != nil {
		if canary.Count < 0 {
			problems = append(problems, field.Invalid(path.Child("canary", "count"), canary.Count, "must be at least 1"))
		}
		if percent := canary.Percent; percent != nil {
			if *percent < 1 || *percent > 100 {
				problems = append(problems, field.Invalid(path.Child("canary", "percent"), *percent, "must be from 1 to 100"))
			}
			if canary.Count != 0 {
				problems = append(problems, field.Invalid(path.Child("canary", "percent"), *percent, "must not be set together with count"))
			}
		}
		problems = append(problems, ValidateDuration(canary.Soak, path.Child("canary", "soak"))...)
	}
	problems = append(problems, ValidateWindow(policy.Window, path.Child("window"))...)
	if timeout := policy.Timeout; timeout != nil && timeout.Duration <= 0 {
		problems = append(problems, field.Invalid(path.Child("timeout"), timeout.Duration.String(),
			"must be more than 0s, or every rollout would fail"))
	}
	return problems
}

// ValidateDuration refuses a duration below 0. nil is valid.
func ValidateDuration(duration *metav1.Duration, path *field.Path) field.ErrorList {
	if duration == nil || duration.Duration >= 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, duration.Duration.String(), "must be 0s or more")}
}

// ValidateWindow checks a maintenance window. nil is valid.
func ValidateWindow(window *rolloutv1.Window, path *field.Path) field.ErrorList {
	if window == nil {
		return nil
	}
	var problems field.ErrorList
	for i, day := range window.Days {
		if !slices.Contains(weekdays, day) {
			problems = append(problems, field.NotSupported(path.Child("days").Index(i), day, weekdays))
		}
	}
	start, err := parseClock(window.Start)
	if err != nil {
		problems = append(problems, field.Invalid(path.Child("start"), window.Start, wantClock))
	}
	end, endErr := parseClock(window.End)
	if endErr != nil {
		problems = append(problems, field.Invalid(path.Child("end"), window.End, wantClock))
	}
	if err == nil && endErr == nil && start == end {
		problems = append(problems, field.Invalid(path.Child("end"), window.End,
			"must differ from start; omit the window to allow all times"))
	}
	if _, err := zoneOf(window.TimeZone); err != nil {
		problems = append(problems, field.Invalid(path.Child("timeZone"), window.TimeZone, err.Error()))
	}
	return problems
}

// isEntry reports whether text has the form of an entry of the order. An entry of another form, or
// of another kind, would name no unit.
func isEntry(text string, scope Scope) bool {
	parts := strings.Split(text, "/")
	names := 1
	if scope == AcrossNamespaces {
		names = 2
	}
	if len(parts) == names+1 && slices.Contains(kinds, parts[0]) {
		parts = parts[1:]
	}
	isName := len(parts) == names && len(validation.IsDNS1123Subdomain(parts[names-1])) == 0
	return isName && (names == 1 || len(validation.IsDNS1123Label(parts[0])) == 0)
}
