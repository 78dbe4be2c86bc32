package setup

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// lingerTime is how long webhooks still answer at the end. It delays the release of the Lease.
const lingerTime = time.Second

// lingering is a webhook server that gets rid of its connections before it ends. Go's server closes
// idle ones at once, and the API server may be sending on one of them: it does not repeat a POST,
// so that the user's request would be refused.
type lingering struct {
	webhook.Server
	isEnding atomic.Bool
}

// Register serves a handler at a path. While the server ends, each answer is the last of its
// connection, and says so.
func (l *lingering) Register(path string, handler http.Handler) {
	l.Server.Register(path, http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		if l.isEnding.Load() {
			response.Header().Set("Connection", "close")
		}
		handler.ServeHTTP(response, request)
	}))
}

// Start serves until lingerTime after the end of the context.
func (l *lingering) Start(ctx context.Context) error {
	serving, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	defer context.AfterFunc(ctx, func() {
		l.isEnding.Store(true)
		time.AfterFunc(lingerTime, end)
	})()
	return l.Server.Start(serving)
}
