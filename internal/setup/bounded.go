package setup

import (
	"net/http"
	"time"
)

// Not only the API server can reach the port of the webhooks: the memory that requests can take is
// bounded.
const (
	// maxAdmission is the largest review of an object, in bytes. An object has at most some 3 MB
	// (etcd's limit is 1.5), and an update has two.
	maxAdmission = 7 << 20
	// maxConversion is the largest review of a list, in bytes: of 4,000 objects of 4 kB. kubectl and
	// client-go list 500 at a time.
	maxConversion = 16 << 20
	// small is the size of which any number of requests is read at once; largeAtOnce is how many
	// larger ones are. Decoded they take some five times their size, of the manager's 512 MiB.
	small       = 1 << 20
	largeAtOnce = 3
	// readTime is how long a body may take to arrive. The API server waits 5 s for an admission and 30
	// s for a conversion.
	readTime = 20 * time.Second
)

// bounded returns a handler that accepts bodies of at most most bytes, reads few large ones at
// once, and none that arrives slowly. A request waits for its turn no longer than its caller does.
func bounded(handler http.Handler, most int64, large chan struct{}) http.Handler {
	return http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		// Not every ResponseWriter supports it (those in tests do not): then there is no deadline.
		_ = http.NewResponseController(response).SetReadDeadline(time.Now().Add(readTime))
		limit := most
		if request.ContentLength >= 0 && request.ContentLength <= small {
			limit = small
		} else {
			select {
			case large <- struct{}{}:
				defer func() { <-large }()
			case <-request.Context().Done():
				return
			}
		}
		request.Body = http.MaxBytesReader(response, request.Body, limit)
		handler.ServeHTTP(response, request)
	})
}
