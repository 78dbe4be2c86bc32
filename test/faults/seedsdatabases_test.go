package faults

import (
	"context"
	"net/http"
	"sync"

	"github.com/mainstay-platform/mainstay/test/faults/campaign"
	"github.com/mainstay-platform/mainstay/test/faults/proxy"
)

// Bugs of the kinds that run databases.

var postgreSQLSeeds = []seed{
	{
		name: "the record is written after the first volume", bug: recordLast,
		options: at(proxy.KillAfter, "patch", "persistentvolumeclaims", 1),
		reason:  campaign.EndState, text: "initialise",
	},
	{
		name:    "the status is written before the children",
		bug:     always(statusFirst("statefulsets", "database.mainstay.dev/v1", "postgresqls", "mainstay/postgresql")),
		options: at(proxy.KillBefore, "patch", "statefulsets", 2),
		reason:  campaign.Claimed, text: "in step change",
	},
}

// Bugs of a Cache, beside those of PostgreSQLs: what both share is tried there.
var cacheSeeds = []seed{{
	name:    "the status is written before the children",
	bug:     always(statusFirst("statefulsets", "database.mainstay.dev/v1", "caches", "mainstay/cache")),
	options: at(proxy.KillBefore, "patch", "statefulsets", 2),
	reason:  campaign.Claimed, text: "in step",
}}

// recordLast creates the Lease, which says whether new data may be made, when a volume exists.
func recordLast() seededTransport {
	var mutex sync.Mutex
	var held *http.Request
	return func(next http.RoundTripper, request *http.Request, asked proxy.Request) (*http.Response, error) {
		mutex.Lock()
		defer mutex.Unlock()
		if asked.Verb == "create" && asked.Resource == "leases" {
			sent := read(request)
			held = request.Clone(context.WithoutCancel(request.Context()))
			fill(held, sent)
			return answer(request, sent), nil
		}
		response, err := next.RoundTrip(request)
		if err == nil && held != nil && isApply(asked, "persistentvolumeclaims") {
			_ = discard(next.RoundTrip(held)) // fails if the manager was killed
			held = nil
		}
		return response, err
	}
}
