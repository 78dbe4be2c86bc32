package apiservice

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/ptr"

	"github.com/mainstay-platform/mainstay/api"
	farmv1alpha1 "github.com/mainstay-platform/mainstay/api/farm/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/kit/children"
)

// Name is the name of the APIService. Kubernetes requires version and group.
var Name = farmv1alpha1.GroupVersion.Version + "." + farmv1alpha1.GroupVersion.Group

// Patience is how long the APIService stays without a ready endpoint. Both replicas of the server
// may be replaced in that time without clients seeing the resources disappear.
const Patience = 60 * time.Second

const (
	// groupPriority and versionPriority are lower than Kubernetes' own. No other API competes with
	// ours.
	groupPriority   = 1000
	versionPriority = 15
	// servicePort is the Service's port.
	servicePort = 443
)

// action is what to do about the APIService.
type action string

const (
	// keep: it is as desired, or the desired state is not known.
	keep action = "Keep"
	// publish: create or update it.
	publish action = "Publish"
	// withdraw: delete it.
	withdraw action = "Withdraw"
	// wait: it does not exist or is not ours, and nothing is to be done yet.
	wait action = "Wait"
)

// observed is the input of decide.
type observed struct {
	// apiService is nil if it does not exist. It must not be modified.
	apiService *apiregistrationv1.APIService
	// isOurs reports whether it belongs to this installation.
	isOurs bool
	// known reports whether the endpoints could be read. Unknown is not the same as none.
	known bool
	// ready is the number of ready endpoints.
	ready int
	// missing is since when no endpoint has been ready. It is zero while there is one, or if that is
	// unknown.
	missing time.Time
	// present is since when, as far as this process knows, an endpoint has been ready. It is zero
	// while there is none, or if that is unknown.
	present time.Time
	// leaving reports whether our own namespace, and with it the server, is being deleted.
	leaving bool
	// wanted is the desired APIService, or nil while there is no certificate.
	wanted *apiregistrationv1.APIService
	now    time.Time
}

// decision is what to do, and why.
type decision struct {
	action action
	// why is the reason, for people. It has no random parts.
	why string
	// conflict reports whether the APIService belongs to another installation or program.
	conflict bool
	// again is when to decide again without an event, or zero for never.
	again time.Time
	// unreachable is the API server's reason why it has not reached the ready endpoints for Patience.
	// It is empty while it reaches them.
	unreachable string
}

// decide returns the decision of the first line that applies:
//
//	the APIService is   and                                               then
//	not ours                                                              wait
//	being deleted                                                         wait
//	ours                our namespace is being deleted                    withdraw
//	ours                no endpoint has been ready for Patience           withdraw
//	ours                it differs from the desired one, which is known   publish
//	ours                                                                  keep; without a ready endpoint decide again after Patience
//	absent              our namespace is being deleted                    wait
//	absent              no endpoint is ready, or they are not known       wait
//	absent              the desired one is not known                      wait
//	absent                                                                publish
func decide(o observed) decision {
	switch {
	case o.apiService == nil:
		return decideAbsent(o)
	case !o.isOurs:
		return decision{action: wait, conflict: true, why: "an APIService of that name exists and was not created by this installation"}
	case !o.apiService.DeletionTimestamp.IsZero():
		return decision{action: wait, why: "it is being deleted"}
	case o.leaving:
		return decision{action: withdraw, why: "the namespace of its Service is being deleted"}
	}
	var again time.Time
	if !o.missing.IsZero() {
		again = o.missing.Add(Patience)
		if !o.now.Before(again) {
			return decision{action: withdraw, why: fmt.Sprintf("its Service has had no ready endpoint for %s", Patience)}
		}
	}
	if o.wanted != nil && differs(o.apiService, o.wanted) {
		return decision{action: publish, why: "it differs from the desired state", again: again}
	}
	return decision{action: keep, again: again}
}

// decideAbsent is decide for an APIService that does not exist.
func decideAbsent(o observed) decision {
	switch {
	case o.leaving:
		return decision{action: wait, why: "the namespace of its Service is being deleted"}
	case !o.known:
		return decision{action: wait, why: "the endpoints of its Service are not known yet"}
	case o.ready == 0:
		return decision{action: wait, why: "its Service has no ready endpoint"}
	case o.wanted == nil:
		return decision{action: wait, why: "there is no serving certificate yet"}
	default:
		return decision{action: publish, why: "its Service has a ready endpoint"}
	}
}

// absence remembers since when no endpoint has been ready.
type absence struct {
	// since is zero while an endpoint is ready, and before anything is known.
	since time.Time
	// sawReady reports whether this process has seen a ready endpoint.
	sawReady bool
}

// next returns the absence after another observation, whose field missing it does not read. A
// process that finds no ready endpoint at its start takes the time from the APIService, because the
// former leader may have waited already. A process that saw the last endpoint disappear uses its
// own time.
func (a absence) next(o observed) absence {
	switch {
	case !o.known:
		return a
	case o.ready > 0:
		return absence{sawReady: true}
	case !a.since.IsZero():
		return a
	case a.sawReady:
		a.since = o.now
	default:
		a.since = o.now
		if since := unavailableSince(o.apiService); !since.IsZero() && since.Before(o.now) {
			a.since = since
		}
	}
	return a
}

// unreachable returns the API server's reason why it has not reached the ready endpoints, once that
// has lasted for Patience. Before, it returns when to decide again. Endpoints that have just become
// ready get the full time, whatever the API server said before.
func unreachable(o observed) (reason string, again time.Time) {
	condition := availability(o.apiService)
	if !o.isOurs || o.present.IsZero() || condition == nil || condition.Status != apiregistrationv1.ConditionFalse {
		return "", time.Time{}
	}
	since := condition.LastTransitionTime.Time
	if since.Before(o.present) {
		since = o.present
	}
	if again = since.Add(Patience); o.now.Before(again) {
		return "", again
	}
	return condition.Reason, time.Time{}
}

// availability returns the condition in which the API server says whether it reaches the server, or
// nil if there is none.
func availability(live *apiregistrationv1.APIService) *apiregistrationv1.APIServiceCondition {
	if live == nil {
		return nil
	}
	for i := range live.Status.Conditions {
		if live.Status.Conditions[i].Type == apiregistrationv1.Available {
			return &live.Status.Conditions[i]
		}
	}
	return nil
}

// isAvailable reports whether the API server says that it reaches the server.
func isAvailable(live *apiregistrationv1.APIService) bool {
	condition := availability(live)
	return condition != nil && condition.Status == apiregistrationv1.ConditionTrue
}

// unavailableSince returns since when the API server has not reached the server. It is zero if it
// does, or if there is no condition.
func unavailableSince(live *apiregistrationv1.APIService) time.Time {
	if condition := availability(live); condition != nil && condition.Status == apiregistrationv1.ConditionFalse {
		return condition.LastTransitionTime.Time
	}
	return time.Time{}
}

// desired returns the desired APIService. The bundle is in PEM. Without an owner the APIService
// outlives the installation.
func desired(namespace, service string, bundle []byte, owner *metav1.OwnerReference) *apiregistrationv1.APIService {
	wanted := &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: Name, Labels: map[string]string{api.LabelManagedBy: api.ManagedBy, api.LabelPartOf: api.ManagedBy}},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: farmv1alpha1.GroupVersion.Group, Version: farmv1alpha1.GroupVersion.Version,
			Service:  &apiregistrationv1.ServiceReference{Namespace: namespace, Name: service, Port: ptr.To[int32](servicePort)},
			CABundle: bundle, GroupPriorityMinimum: groupPriority, VersionPriority: versionPriority,
		},
	}
	if owner != nil {
		wanted.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	return wanted
}

// differs reports whether a field that we write differs. Metadata that others added stay.
func differs(live, wanted *apiregistrationv1.APIService) bool {
	for key, value := range wanted.Labels {
		if live.Labels[key] != value {
			return true
		}
	}
	for _, owner := range wanted.OwnerReferences {
		if !children.IsOwned(live, &owner) {
			return true
		}
	}
	return !equality.Semantic.DeepEqual(live.Spec, wanted.Spec)
}

// Whose reports whether an APIService of our name may be changed.
type Whose func(*apiregistrationv1.APIService) bool

// Anyones accepts the APIService of any installation of Mainstay, and none that Mainstay did not
// create.
func Anyones(live *apiregistrationv1.APIService) bool {
	return live.Labels[api.LabelManagedBy] == api.ManagedBy
}

// Of accepts the APIService of the installation with this ClusterRole: it is owned by that role, or
// it has no ClusterRole as owner and was created by Mainstay. Without a role, only the latter.
func Of(role string) Whose {
	return func(live *apiregistrationv1.APIService) bool {
		isAnothers := false
		for _, owner := range live.OwnerReferences {
			if owner.Kind == "ClusterRole" && owner.Name == role {
				return true
			}
			isAnothers = isAnothers || owner.Kind == "ClusterRole"
		}
		return !isAnothers && Anyones(live)
	}
}
