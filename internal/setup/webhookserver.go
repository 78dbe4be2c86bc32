package setup

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/mainstay-platform/mainstay/internal/install/certificates"
)

const (
	// lingerTime is how long webhooks still answer at the end.
	lingerTime = time.Second
	// idleTime is for how long a connection may be idle: for longer than at the API server, which
	// closes it after 90 s.
	idleTime = 10 * time.Minute
	// endTime is how long requests that are being answered at the end may take.
	endTime = time.Minute
	// headerTime is how long the header of a request may take.
	headerTime = 32 * time.Second
)

// webhookServer is a webhook server that closes no connection on which the API server may be
// sending: that does not repeat a POST, so that the user's request would be refused. The one of
// controller-runtime closes what was idle for 90 s, just when the API server still uses it, and at
// its end all that is idle.
type webhookServer struct {
	webhook.Server
	mux                 *http.ServeMux
	address             string
	listen              func() (net.Listener, error)
	isServing, isEnding atomic.Bool
}

// newWebhookServer returns a server with the Keeper's certificate. The API server speaks HTTP/1.1
// to Services, and HTTP/2 only to addresses of its own machine.
func newWebhookServer(settings WebhookSettings, keeper *certificates.Keeper) *webhookServer {
	mux := http.NewServeMux()
	address := net.JoinHostPort(settings.Host, strconv.Itoa(settings.Port))
	config := &tls.Config{
		NextProtos: []string{"h2"}, GetCertificate: keeper.GetCertificate, MinVersion: tls.VersionTLS12,
	}
	return &webhookServer{
		Server: webhook.NewServer(webhook.Options{WebhookMux: mux}), mux: mux,
		address: address, listen: func() (net.Listener, error) { return tls.Listen("tcp", address, config) },
	}
}

// Register serves a handler at a path. While the server ends, each answer is the last of its
// connection, and says so.
func (s *webhookServer) Register(path string, handler http.Handler) {
	s.Server.Register(path, http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		if s.isEnding.Load() {
			response.Header().Set("Connection", "close")
		}
		handler.ServeHTTP(response, request)
	}))
}

// end makes each answer the last of its connection, and the replica unready.
func (s *webhookServer) end() { s.isEnding.Store(true) }

// ready returns an error from end on.
func (s *webhookServer) ready() error {
	if s.isEnding.Load() {
		return errors.New("this process ends, because a part of it has: its log says why")
	}
	return nil
}

// Start serves until lingerTime after the end of the context.
func (s *webhookServer) Start(ctx context.Context) error {
	listener, err := s.listen()
	if err != nil {
		return fmt.Errorf("listening for webhooks: %w", err)
	}
	lasting := context.WithoutCancel(ctx)
	server := &http.Server{
		Handler: s.mux, BaseContext: func(net.Listener) context.Context { return lasting },
		MaxHeaderBytes: 1 << 20, ReadHeaderTimeout: headerTime, IdleTimeout: idleTime,
	}
	ended := make(chan struct{})
	defer context.AfterFunc(ctx, func() {
		defer close(ended)
		s.end()
		time.Sleep(lingerTime)
		limited, cancel := context.WithTimeout(lasting, endTime)
		defer cancel()
		if err := server.Shutdown(limited); err != nil {
			ctrl.Log.WithName("webhooks").Error(err, "ending")
		}
	})()
	s.isServing.Store(true)
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving webhooks: %w", err)
	}
	<-ended
	return nil
}

// StartedChecker returns a check that the server takes connections.
func (s *webhookServer) StartedChecker() healthz.Checker {
	// It connects to this very process.
	dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: 10 * time.Second}, Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // see above
	return func(*http.Request) error {
		if !s.isServing.Load() {
			return errors.New("the webhook server has not started yet")
		}
		connection, err := dialer.DialContext(context.Background(), "tcp", s.address)
		if err != nil {
			return fmt.Errorf("connecting to the webhook server: %w", err)
		}
		return connection.Close()
	}
}
