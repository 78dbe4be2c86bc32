package apiservice

import (
	"bytes"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/ptr"

	"github.com/mainstay-platform/mainstay/api"
	farmv1alpha1 "github.com/mainstay-platform/mainstay/api/farm/v1alpha1"
)

// Name is that of the APIService: Kubernetes wants the version and the group.
var Name = farmv1alpha1.GroupVersion.Version + "." + farmv1alpha1.GroupVersion.Group

// Patience is for how long the APIService stays without a ready endpoint: both replicas of the server may be replaced meanwhile, and
// nobody is told that there are no such resources.
const Patience = 60 * time.Second

const (
	// groupPriority and versionPriority are those of an API that no other has to give way to: below Kubernetes' own.
	groupPriority   = 1000
	versionPriority = 15
	// servicePort is the Service's port.
	servicePort = 443
)

// action is what to do about the APIService.
type action string

const (
	// keep: it is as it should be, or what it should be is not known.
	keep action = "Keep"
	// publish: it is made, or put right.
	publish action = "Publish"
	// withdraw: it is deleted.
	withdraw action = "Withdraw"
	// wait: it is not there, or not ours, and that is right for now.
	wait action = "Wait"
)

// observed is everything that a decision rests on.
type observed struct {
	// apiService is nil where there is none. It is not changed.
	apiService *apiregistrationv1.APIService
	// isOurs tells that it is this installation's.
	isOurs bool
	// known tells that the endpoints could be read: what is not known is not absent.
	known bool
	// ready is the number of endpoints that are.
	ready int
	// missing is since when there is none, and zero while there is one, or they are not known.
	missing time.Time
	// present is since when one is, as far as this process knows, and zero while there is none, or they are not known.
	present time.Time
	// leaving tells that our own namespace is being deleted, and with it whoever serves.
	leaving bool
	// wanted is what the APIService should be; nil while that is not known, for lack of a certificate.
	wanted *apiregistrationv1.APIService
	now    time.Time
}

// decision says what to do, and why.
type decision struct {
	action action
	// why is a reason for people. It has no random parts.
	why string
	// conflict tells that the APIService is somebody else's.
	conflict bool
	// again is when time alone asks for another decision; zero for never.
	again time.Time
	// unreachable is the API server's reason for which it has not reached who is ready, for Patience; empty while it has.
	unreachable string
}

// decide is the first line that applies:
//
//	the APIService is   and                                               then
//	somebody else's                                                       wait: it is left alone
//	being deleted                                                         wait
//	ours                our namespace is being deleted                    withdraw
//	ours                no endpoint has been ready for Patience           withdraw
//	ours                it differs from what is wanted, and that is known publish
//	ours                                                                  keep; without a ready endpoint look again after Patience
//	not there           our namespace is being deleted                    wait
//	not there           no endpoint is ready, or they are not known       wait
//	not there           what is wanted is not known                       wait
//	not there                                                             publish
func decide(o observed) decision {
	switch {
	case o.apiService == nil:
		return decideAbsent(o)
	case !o.isOurs:
		return decision{action: wait, conflict: true, why: "there is an APIService of that name which somebody else made"}
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
		return decision{action: publish, why: "it is not as it should be", again: again}
	}
	return decision{action: keep, again: again}
}

// decideAbsent is decide where there is no APIService.
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

// absence remembers since when no endpoint is ready.
type absence struct {
	// since is zero while one is, and before that is known.
	since time.Time
	// sawReady tells that this process has seen one that was.
	sawReady bool
}

// next is the absence after another observation, of which it does not read missing. A process that finds no endpoint when it begins takes the
// time from the APIService, for its predecessor may have waited already; one that saw the last endpoint go
// knows better.
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

// unreachable is the API server's reason for which it has not reached those who are ready, once that has lasted for Patience; before, it is when
// to look again. Who only became ready gets that time too, whatever was said before.
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

// availability is what the API server says of whether it reaches who serves; nil if it has not said.
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

// isAvailable tells whether the API server says that it reaches who serves.
func isAvailable(live *apiregistrationv1.APIService) bool {
	condition := availability(live)
	return condition != nil && condition.Status == apiregistrationv1.ConditionTrue
}

// earlier is the earlier of two times, of which zero is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// unavailableSince is since when the API server itself has not reached who serves; zero if it does, or has not said.
func unavailableSince(live *apiregistrationv1.APIService) time.Time {
	if condition := availability(live); condition != nil && condition.Status == apiregistrationv1.ConditionFalse {
		return condition.LastTransitionTime.Time
	}
	return time.Time{}
}

// desired is the APIService as it should be. The bundle is in PEM; without an owner it stays when the installation goes.
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

// differs tells whether something of what is wanted is otherwise. What others added to the metadata is theirs.
func differs(live, wanted *apiregistrationv1.APIService) bool {
	for key, value := range wanted.Labels {
		if live.Labels[key] != value {
			return true
		}
	}
	for _, owner := range wanted.OwnerReferences {
		if !isOwned(live, owner) {
			return true
		}
	}
	return !isSameSpec(live.Spec, wanted.Spec)
}

func isOwned(live *apiregistrationv1.APIService, owner metav1.OwnerReference) bool {
	for _, reference := range live.OwnerReferences {
		if reference.UID == owner.UID {
			return true
		}
	}
	return false
}

func isSameSpec(a, b apiregistrationv1.APIServiceSpec) bool {
	if a.Service == nil || b.Service == nil {
		return a.Service == b.Service
	}
	return a.Service.Namespace == b.Service.Namespace && a.Service.Name == b.Service.Name &&
		ptr.Equal(a.Service.Port, b.Service.Port) && bytes.Equal(a.CABundle, b.CABundle) &&
		a.Group == b.Group && a.Version == b.Version && a.InsecureSkipTLSVerify == b.InsecureSkipTLSVerify &&
		a.GroupPriorityMinimum == b.GroupPriorityMinimum && a.VersionPriority == b.VersionPriority
}

// Whose tells whether an APIService of our name may be touched.
type Whose func(*apiregistrationv1.APIService) bool

// Anyones is that of whichever installation of Mainstay made it, but not what is no work of Mainstay's.
func Anyones(live *apiregistrationv1.APIService) bool {
	return live.Labels[api.LabelManagedBy] == api.ManagedBy
}

// Of is that of the installation with this ClusterRole: it goes with that, or with none and is Mainstay's work. Without a
// role to name it is only what goes with none.
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
