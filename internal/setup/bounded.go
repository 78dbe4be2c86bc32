package setup

import (
	"net/http"
	"time"
)

// Others than the API server reach the webhooks' port: what they can make us hold is bounded.
const (
	// maxAdmission is the largest review of an object, in bytes: an object has at most some 3 MB (etcd's
	// limit is 1.5), and an update has two.
	maxAdmission = 7 << 20
	// maxConversion is the largest review of a list, in bytes: that of 4,000 objects of 4 kB. kubectl and
	// client-go ask for 500 at a time.
	maxConversion = 16 << 20
	// small is what any number of requests may have; largeAtOnce is how many larger ones are read at
	// once. Decoded they take some five times their size, of the 512 MiB that a manager has.
	small       = 1 << 20
	largeAtOnce = 3
	// readTime is how long a body may take to arrive. The API server waits 5 s for an admission and 30 s
	// for a conversion.
	readTime = 20 * time.Second
)

// bounded is a handler that takes bodies of at most so many bytes, of large ones few at once, and none
// that dawdles. Who has to wait for a place waits no longer than the caller.
func bounded(handler http.Handler, most int64, large chan struct{}) http.Handler {
	return http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		// Not every writer can (tests'): then there is no deadline.
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
