package platformpolicy

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
	"github.com/mainstay-platform/mainstay/internal/kit/requeue"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

// noticeOfExpiry is how long before its end an exemption is reported: time enough to plan a change,
// or to ask for more.
const noticeOfExpiry = 7 * 24 * time.Hour

// exemptions returns the state of each exemption.
func exemptions(stored *mspolicyv1.PlatformPolicy, now time.Time) []mspolicyv1.ExemptionStatus {
	var all []mspolicyv1.ExemptionStatus
	for _, given := range stored.Spec.Exemptions {
		state := mspolicyv1.ExemptionActive
		switch {
		case !policy.IsActive(given, now):
			state = mspolicyv1.ExemptionExpired
		case !now.Before(given.Until.Add(-noticeOfExpiry)):
			state = mspolicyv1.ExemptionExpiring
		}
		all = append(all, mspolicyv1.ExemptionStatus{Kind: given.Kind, Namespace: given.Namespace, Name: given.Name, State: state,
			Until: given.Until})
	}
	return all
}

// expiring returns the condition about exemptions that end soon or have ended; nothing without any.
func expiring(all []mspolicyv1.ExemptionStatus) []metav1.Condition {
	var soon, ended []string
	for _, exemption := range all {
		name := fmt.Sprintf("%s %s/%s", exemption.Kind, exemption.Namespace, exemption.Name)
		switch exemption.State {
		case mspolicyv1.ExemptionExpiring:
			soon = append(soon, name+" until "+exemption.Until.UTC().Format(time.RFC3339))
		case mspolicyv1.ExemptionExpired:
			ended = append(ended, name)
		}
	}
	switch {
	case len(ended) > 0:
		return []metav1.Condition{conditions.True(mspolicyv1.ConditionExemptionsExpiring, mspolicyv1.ReasonExpired,
			conditions.Truncate("exemptions that have ended: "+conditions.FirstFew(ended, ", ")+": remove them from spec.exemptions"))}
	case len(soon) > 0:
		return []metav1.Condition{conditions.True(mspolicyv1.ConditionExemptionsExpiring, mspolicyv1.ReasonExpiringSoon,
			conditions.Truncate("exemptions that end soon: "+conditions.FirstFew(soon, ", ")))}
	default:
		return nil
	}
}

// NextExpiry returns in how much time the state of an exemption changes; 0 means never.
func NextExpiry(stored *mspolicyv1.PlatformPolicy, now time.Time) time.Duration {
	var next time.Duration
	for _, given := range stored.Spec.Exemptions {
		next = requeue.Sooner(next, requeue.Sooner(given.Until.Sub(now), given.Until.Add(-noticeOfExpiry).Sub(now)))
	}
	return next
}
