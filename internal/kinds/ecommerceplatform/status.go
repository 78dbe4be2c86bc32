package ecommerceplatform

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-platform/mainstay/api"
	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/kit/summary"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

// Status returns the status of a defaulted platform, given what was observed, decided and written.
func Status(platform *platformv1.EcommercePlatform, observed Observed, decided Decision,
	result plan.Result) platformv1.EcommercePlatformStatus {
	about := &subject{platform: platform, observed: observed, stack: observed.stack(platform), decided: decided, result: result}
	about.environment, _ = observed.Environments.Parse(platform.Spec.Environment)
	about.components = about.reported()
	one := about.summarize()
	return platformv1.EcommercePlatformStatus{
		ObservedGeneration: platform.Generation,
		Environment:        string(about.environment),
		Phase:              about.phase(one),
		ComponentSummary:   about.ready(),
		Components:         about.components,
		Database:           about.database(),
		Endpoints:          endpoints(platform),
		Conditions:         slices.Concat(one.Conditions(about.progressing(one)), about.backup(), about.monitoring()),
	}
}

// subject is a platform to summarize.
type subject struct {
	platform    *platformv1.EcommercePlatform
	observed    Observed
	environment policy.Environment
	// stack is the AppStack as it was observed; nil if there is none.
	stack      *platformv1.AppStack
	decided    Decision
	result     plan.Result
	components []platformv1.PlatformComponentStatus
}

func (s *subject) isGoing() bool { return s.platform.DeletionTimestamp != nil }

// isCurrent reports whether the status of the AppStack is about what it is to be now.
func (s *subject) isCurrent() bool {
	return s.stack != nil && !s.result.Changed(Ref(s.platform)) && s.stack.Status.ObservedGeneration == s.stack.Generation
}

// database returns what the database was made with. Its size is that of the AppStack. Its version
// and class are what the AppStack is to have: someone may have edited that. Without an AppStack,
// all stays as it was reported before.
func (s *subject) database() *platformv1.PlatformDatabaseStatus {
	made, now := s.platform.Status.Database, formerly(s.stack, databaseName)
	switch wanted := s.decided.Stack; {
	case componentOf(s.stack, databaseName) == nil:
		return made
	case wanted != nil:
		decided := formerly(wanted, databaseName)
		now.Version, now.StorageClassName = decided.Version, decided.StorageClassName
	case made != nil:
		now.Version, now.StorageClassName = made.Version, made.StorageClassName
	}
	if made != nil && now.size() == nil {
		now.Storage = made.Storage
	}
	return (*platformv1.PlatformDatabaseStatus)(&now)
}

// maxComponents is how many parts the status has at most: all there are, and those that are left of
// former specs.
const maxComponents = 8

// titles are how messages name the parts.
var titles = map[string]string{databaseName: "Database", cacheName: "Cache", backendName: "Backend", frontendName: "Frontend"}

// isOurs reports whether a component is one that the platform makes; others may be added to its
// AppStack.
func (s *subject) isOurs(name string) bool { return componentOf(s.decided.Stack, name) != nil }

// reported returns the parts: those of the AppStack's status, the platform's own first, and those
// that it does not have yet.
func (s *subject) reported() []platformv1.PlatformComponentStatus {
	var all []platformv1.PlatformComponentStatus
	if s.stack != nil {
		known := slices.Clone(s.stack.Status.Components)
		slices.SortStableFunc(known, func(a, b platformv1.ComponentStatus) int {
			return cmp.Compare(rank(s.isOurs(a.Name)), rank(s.isOurs(b.Name)))
		})
		for _, one := range known[:min(len(known), maxComponents)] {
			reported := platformv1.PlatformComponentStatus{Name: one.Name, Kind: one.Kind, Object: one.Object, Phase: one.Phase, Reason: one.Reason}
			reported.Message = conditions.Truncate(s.message(one))
			all = append(all, reported)
		}
	}
	if s.decided.Stack == nil {
		return all
	}
	for _, c := range s.decided.Stack.Spec.Components {
		isThere := slices.ContainsFunc(all, func(one platformv1.PlatformComponentStatus) bool { return one.Name == c.Name })
		if !isThere && len(all) < maxComponents {
			all = append(all, platformv1.PlatformComponentStatus{Name: c.Name, Object: objectName(s.platform, c.Name),
				Phase: platformv1.ComponentWaiting, Reason: platformv1.ReasonStackNotReported})
		}
	}
	return all
}

// rank puts what is ours first.
func rank(isOurs bool) int {
	if isOurs {
		return 0
	}
	return 1
}

// message is what is said of a part.
func (s *subject) message(one platformv1.ComponentStatus) string {
	if s.decided.Stack != nil {
		one.Message = InPlatform(one.Message, s.decided.Stack)
	}
	title, known := titles[one.Name]
	switch {
	case isOfIngress(one):
		return "Ingress setup failed: " + one.Message
	case one.Phase != platformv1.ComponentFailed || !known:
		return one.Message
	case one.Reason == api.ReasonContainerConfigError && table[s.environment].profile == msappsv1.SecurityRestricted &&
		strings.Contains(one.Message, "root"):
		one.Message += fmt.Sprintf(" (environment %s allows no container to run as root: build the image with USER set to the number of another user)", s.environment)
	}
	return fmt.Sprintf("%s deployment failed: %s", title, cmp.Or(one.Message, one.Reason))
}

// ready returns how many of the platform's own parts are ready, of how many there are to be.
func (s *subject) ready() string {
	count, of := 0, len(s.components)
	for _, one := range s.components {
		if one.Phase == platformv1.ComponentReady && (s.decided.Stack == nil || s.isOurs(one.Name)) {
			count++
		}
	}
	if s.decided.Stack != nil {
		of = len(s.decided.Stack.Spec.Components)
	}
	return fmt.Sprintf("%d/%d", min(count, of), of)
}

// rules are what may be said about a platform. The first one that applies counts. What else there
// is to say is what its AppStack says.
var rules = []summary.Rule[*subject]{
	summary.When(summary.UnderWay, api.ReasonDeleting, deleting),
	summary.When(summary.Stalled, api.ReasonInvalidSpec, contradicted),
	summary.When(summary.Stalled, api.ReasonConflict, foreignInTheWay),
	summary.When(summary.UnderWay, platformv1.ReasonStackNotReported, notReported),
}

func (s *subject) summarize() summary.Summary {
	if failure := s.result.Failure; failure != nil && !s.isGoing() && !s.isOnlyMonitoringContested() {
		said := *failure
		if s.decided.Stack != nil {
			said.Message = InPlatform(said.Message, s.decided.Stack)
		}
		if s.isMonitoringRefused() {
			said.Message = monitoringFailed + said.Message
		}
		return summary.OfFailure(said)
	}
	if found := summary.First(s, rules); found.Reason != "" {
		return found
	}
	return s.ofStack()
}

// ofStack is the summary of the AppStack, with the parts' own messages.
func (s *subject) ofStack() summary.Summary {
	ready := meta.FindStatusCondition(s.stack.Status.Conditions, conditions.Ready)
	if ready == nil {
		return summary.Of(summary.UnderWay, platformv1.ReasonStackNotReported, "the AppStack has no Ready condition yet")
	}
	is := func(kind string) bool { return meta.IsStatusConditionTrue(s.stack.Status.Conditions, kind) }
	severity, message := summary.UnderWay, ready.Message
	switch {
	case ready.Status == metav1.ConditionTrue:
		severity = summary.Working
	case is(conditions.Stalled):
		severity = summary.Stalled
	case is(conditions.Degraded):
		severity = summary.Degraded
	case ready.Status == metav1.ConditionUnknown:
		severity = summary.Unknown
	}
	if s.decided.Stack != nil {
		message = InPlatform(message, s.decided.Stack)
	}
	if failed := s.failed(); ready.Reason == platformv1.ReasonComponentFailed && failed != "" {
		message = failed
	}
	return summary.Of(severity, ready.Reason, "%s", message)
}

// failed returns what is said of the parts that have failed; "" if none has.
func (s *subject) failed() string {
	var texts []string
	for _, one := range s.components {
		if one.Phase == platformv1.ComponentFailed {
			texts = append(texts, one.Message)
		}
	}
	return conditions.FirstFew(texts, "; ")
}

func deleting(s *subject) string {
	if !s.isGoing() {
		return ""
	}
	var left []string
	for _, one := range s.components {
		left = append(left, one.Name)
	}
	return "the parts are being deleted, in reverse order: " + cmp.Or(conditions.FirstFew(left, ", "), "none is left")
}

func contradicted(s *subject) string {
	var texts []string
	for _, problem := range s.decided.Problems {
		texts = append(texts, problem.Error())
	}
	return conditions.FirstFew(texts, "; ")
}

func foreignInTheWay(s *subject) string {
	ref := Ref(s.platform)
	return summary.If(slices.Contains(s.result.Conflicts, ref),
		"%s exists and was not created by this EcommercePlatform: delete it, or choose another name", ref)
}

func notReported(s *subject) string {
	return summary.If(!s.isCurrent(), "waiting for the AppStack %s to report on the current spec", s.platform.Name)
}

// progressing returns the condition Progressing.
func (s *subject) progressing(one summary.Summary) metav1.Condition {
	var under []string
	for _, part := range s.components {
		switch part.Phase {
		case platformv1.ComponentProgressing, platformv1.ComponentDeleting, platformv1.ComponentWaiting:
			under = append(under, part.Name)
		case platformv1.ComponentReady, platformv1.ComponentFailed, platformv1.ComponentPaused:
		}
	}
	if len(under) == 0 {
		return conditions.False(conditions.Progressing, one.Reason, "no part is being created, changed or deleted")
	}
	return conditions.True(conditions.Progressing, one.Reason, "under way: "+conditions.FirstFew(under, ", "))
}

// backup says whether the database is backed up: not by this Mainstay. There is nothing to say
// where the environment has no backups.
func (s *subject) backup() []metav1.Condition {
	if !table[s.environment].backup {
		return nil
	}
	return []metav1.Condition{conditions.False(platformv1.ConditionBackupHealthy, platformv1.ReasonBackupUnavailable, fmt.Sprintf(
		"the environment %s has daily backups, but this version of Mainstay makes none yet: nothing is backed up. "+
			"Until then, make backups by other means, such as pg_dump", s.environment))}
}

// monitoringFailed is the beginning of what is said where something that monitors is refused.
const monitoringFailed = "Monitoring setup failed: "

// isMonitoringRefused reports whether the API server refuses what monitors the platform.
func (s *subject) isMonitoringRefused() bool {
	_, isRefused := s.result.Refusals[Ref(s.platform)]
	return !isRefused && len(s.result.Refusals) > 0
}

// isOnlyMonitoringContested reports whether the failure is that another client changes something
// that monitors the platform again and again.
func (s *subject) isOnlyMonitoringContested() bool {
	return s.result.Failure.Reason == api.ReasonContested &&
		!slices.ContainsFunc(s.result.SlowedChildren, func(one plan.Contest) bool { return one.Ref == Ref(s.platform) })
}

// monitoring says whether what monitors the platform is there. Ready does not wait for that: the
// shop works without.
func (s *subject) monitoring() []metav1.Condition {
	if !*s.platform.Spec.Monitoring.Enabled || s.isGoing() {
		return nil
	}
	const kind = platformv1.ConditionMonitoringHealthy
	missing := s.observed.MissingAPIs
	foreign := slices.DeleteFunc(slices.Clone(s.result.Conflicts), func(ref plan.Ref) bool { return ref == Ref(s.platform) })
	switch {
	case s.isMonitoringRefused() && s.result.Failure != nil:
		return []metav1.Condition{conditions.False(kind, s.result.Failure.Reason, conditions.Truncate(monitoringFailed+s.result.Failure.Message))}
	case len(missing) > 0:
		return []metav1.Condition{conditions.False(kind, platformv1.ReasonMonitoringAPIMissing, fmt.Sprintf(
			"the cluster has no %s (monitoring.coreos.com/v1): install the Prometheus Operator, then they are created. Until then %s",
			strings.Join(missing, ", no "), withoutAPIs(missing)))}
	case s.result.Failure != nil && s.isOnlyMonitoringContested():
		return []metav1.Condition{conditions.False(kind, s.result.Failure.Reason, conditions.Truncate(s.result.Failure.Message))}
	case len(foreign) > 0:
		return []metav1.Condition{conditions.False(kind, api.ReasonConflict, conditions.Truncate(fmt.Sprintf(
			"not created by this EcommercePlatform: %s; delete it, or let the platform adopt it: %s", plan.Join(foreign),
			plan.AdoptCommand(foreign, Kind+"/"+s.platform.Name))))}
	case !s.observed.has(ruleRef(s.platform)), !s.observed.has(dashboardRef(s.platform)):
		return []metav1.Condition{conditions.False(kind, platformv1.ReasonMonitoringWaits,
			"the alerts and the dashboard are created after all parts have become ready for the first time")}
	}
	return []metav1.Condition{conditions.True(kind, platformv1.ReasonMonitored, fmt.Sprintf(
		"the PrometheusRule %s has the alerts, and the ConfigMap %s the dashboard", s.platform.Name, DashboardName(s.platform.Name)))}
}

// withoutAPIs says what there is not while the cluster lacks kinds of the Prometheus Operator.
func withoutAPIs(missing []string) string {
	const unscraped = "parts that need these kinds are not monitored, or only through annotations of their Services"
	if slices.Contains(missing, ruleKind) {
		return "there are no alerts, and " + unscraped
	}
	return unscraped
}

// phase returns the phase: that of the AppStack, as long as nothing is wrong beside it.
//
//	situation                                   phase
//	it is being deleted                         Deleting
//	all parts are ready                         Running
//	something is wrong, and there is a stack    Degraded; Failed where the stack says so
//	something is wrong                          Failed
//	there is no AppStack yet                    Pending
//	the AppStack reports                        that of the AppStack
//	otherwise                                   Deploying
func (s *subject) phase(one summary.Summary) platformv1.EcommercePlatformPhase {
	phase := platformv1.PhaseDeploying
	switch {
	case s.isGoing():
		phase = platformv1.PhaseDeleting
	case one.Severity == summary.Working:
		phase = platformv1.PhaseRunning
	case one.IsProblem() && s.stack != nil && s.stack.Status.Phase != platformv1.PhaseFailed:
		phase = platformv1.PhaseDegraded
	case one.IsProblem():
		phase = platformv1.PhaseFailed
	case s.stack == nil:
		phase = platformv1.PhasePending
	case s.isCurrent() && s.stack.Status.Phase != "":
		phase = s.stack.Status.Phase
	}
	return platformv1.EcommercePlatformPhase(phase)
}
