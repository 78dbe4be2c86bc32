package aggregated

import (
	"net/http"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/metrics"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericfilters "k8s.io/apiserver/pkg/server/filters"
)

// maxShare divides the places for concurrent requests: one user may have a quarter of them.
const maxShare = 4

// isUncounted returns the check for requests that are not among the concurrent ones: watches, and
// probes. If probes counted, a user with many slow requests could make all replicas unready. The
// library calls such requests long-running: it also gives them no timeout, does not wait for them
// before it ends, and writes a second line about each into the audit log.
func isUncounted() apirequest.LongRunningRequestCheck {
	isWatch := genericfilters.BasicLongRunningRequestCheck(sets.NewString("watch"), sets.NewString())
	return func(request *http.Request, info *apirequest.RequestInfo) bool {
		return isWatch(request, info) || slices.Contains(probes(), info.Path)
	}
}

// chainWithShares returns the library's chain of handlers, with the limit for each user behind the
// authorization: the library has no place for it between authentication and its own limit.
func chainWithShares(handler http.Handler, config *genericapiserver.Config) http.Handler {
	each := &shares{
		reads: config.MaxRequestsInFlight / maxShare, writes: config.MaxMutatingRequestsInFlight / maxShare,
		isUncounted: config.LongRunningFunc, taken: map[claim]int{},
	}
	return genericapiserver.DefaultBuildHandlerChain(each.limit(handler), config)
}

// shares limits the concurrent requests of each user, so that one user can't occupy the server. The
// API server's own requests need no exemption: no other client has the names system:aggregator and
// system:kube-aggregator, and it makes few requests at once.
type shares struct {
	reads, writes int
	isUncounted   apirequest.LongRunningRequestCheck

	mutex sync.Mutex
	// taken has only users with requests.
	taken map[claim]int
}

// claim is what is counted: the reads or the writes of a user.
type claim struct {
	user    string
	isWrite bool
}

// limit answers requests beyond a user's share as the library does those beyond its own limit.
// Members of system:masters are exempt, as there.
func (s *shares) limit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		info, hasInfo := apirequest.RequestInfoFrom(request.Context())
		from, hasUser := apirequest.UserFrom(request.Context())
		if !hasInfo || !hasUser || s.isUncounted(request, info) || slices.Contains(from.GetGroups(), user.SystemPrivilegedGroup) {
			next.ServeHTTP(writer, request)
			return
		}
		one := claim{user: from.GetName(), isWrite: !slices.Contains([]string{"get", "list"}, info.Verb)}
		if !s.take(one) {
			// The library also counts its own by path. A user chooses the path, so this metric would
			// grow without bound.
			metrics.RecordDroppedRequest(request, info, metrics.APIServerComponent, one.isWrite)
			writer.Header().Set("Retry-After", "1")
			http.Error(writer, "Too many requests of this user, please try again later.", http.StatusTooManyRequests)
			return
		}
		defer s.giveBack(one)
		next.ServeHTTP(writer, request)
	})
}

// take counts a request, unless the user has its share already.
func (s *shares) take(one claim) bool {
	most := s.reads
	if one.isWrite {
		most = s.writes
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.taken[one] >= most {
		return false
	}
	s.taken[one]++
	return true
}

// giveBack ends a request that was counted.
func (s *shares) giveBack(one claim) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.taken[one]--
	if s.taken[one] == 0 {
		delete(s.taken, one)
	}
}
