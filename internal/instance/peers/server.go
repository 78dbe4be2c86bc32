package peers

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/netutil"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
)

// Handler answers the messages of other instances. [instance.Instance] implements it.
type Handler interface {
	HandlePing(ctx context.Context, ping election.Ping) (election.Pong, bool)
	HandleAsk(ctx context.Context, ask election.Ask) (election.AskReply, bool)
	HandlePromise(ctx context.Context, request election.PromiseRequest) (election.PromiseReply, error)
}

// Limits of the server. A client without a valid certificate gets no further than the TLS
// handshake.
const (
	maxConnections = 128
	// maxRequests is how many requests of one peer may be in progress at once.
	maxRequests = 8
	headerTime  = 3 * time.Second
	idleTime    = 2 * time.Minute
	headerBytes = 8 << 10
	// promiseTime is how long the answer to a request for a promise may take: the server has to stop
	// receiving first.
	promiseTime = 10 * time.Second
)

// Serve answers messages on a listener until the context ends. streams may be nil: then streams are
// refused.
func Serve(ctx context.Context, listener net.Listener, certificates *Certificates, handler Handler, streams Streams) error {
	s := &server{handler: handler, streams: streams, certificates: certificates, busy: map[use]int{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+pingPath, s.ping)
	mux.HandleFunc("POST "+askPath, s.ask)
	mux.HandleFunc("POST "+promisePath, s.promise)
	mux.HandleFunc("POST "+streamPath, s.stream)
	served := &http.Server{
		Handler: mux, ReadHeaderTimeout: headerTime, ReadTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: headerBytes,
		WriteTimeout: promiseTime + headerTime,
		HTTP2:        &http.HTTP2Config{MaxConcurrentStreams: 2 * maxRequests},
		BaseContext:  func(net.Listener) context.Context { return ctx },
		TLSConfig: &tls.Config{
			GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return certificates.server(), nil },
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { // Not reached, but needed to serve.
				own, _ := certificates.current()
				return &own, nil
			},
			MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"},
		},
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // Failed handshakes of strangers are not logged: there may be many.
	}
	stop := context.AfterFunc(ctx, func() { _ = served.Close() })
	defer stop()
	err := served.ServeTLS(netutil.LimitListener(listener, maxConnections), "", "")
	if errors.Is(err, http.ErrServerClosed) {
		return ctx.Err()
	}
	return fmt.Errorf("serving the other instances: %w", err)
}

type server struct {
	handler      Handler
	streams      Streams
	certificates *Certificates
	mu           sync.Mutex
	// busy is how many requests of each use are in progress.
	busy map[use]int
}

// use is a kind of requests of a pod: of is "" for messages, and streamPath for streams.
type use struct{ pod, of string }

func (s *server) ping(w http.ResponseWriter, r *http.Request) {
	var ping election.Ping
	s.serve(w, r, &ping, func() (any, error) {
		if err := from(r, ping.Leader, ping.Check); err != nil {
			return nil, err
		}
		pong, ok := s.handler.HandlePing(r.Context(), ping)
		return pong, ours(ok)
	})
}

func (s *server) ask(w http.ResponseWriter, r *http.Request) {
	var ask election.Ask
	s.serve(w, r, &ask, func() (any, error) {
		if err := from(r, ask.Member, ask.Check); err != nil {
			return nil, err
		}
		reply, ok := s.handler.HandleAsk(r.Context(), ask)
		return reply, ours(ok)
	})
}

func (s *server) promise(w http.ResponseWriter, r *http.Request) {
	var request election.PromiseRequest
	s.serve(w, r, &request, func() (any, error) {
		if err := from(r, request.Candidate, request.Check); err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(r.Context(), promiseTime)
		defer cancel()
		return s.handler.HandlePromise(ctx, request)
	})
}

// refusal is an error with the HTTP status that the peer gets.
type refusal struct {
	code int
	text string
}

func (r *refusal) Error() string { return r.text }

// ours returns the refusal of a message that the instance did not accept; nil if it did.
func ours(ok bool) error {
	if !ok {
		return &refusal{http.StatusConflict, "this instance has no data of that database, or is ending"}
	}
	return nil
}

// from checks that a message is well-formed, and that the sender's certificate is that of the
// member which the message names as its sender.
func from(r *http.Request, member election.Member, check func() error) error {
	if err := check(); err != nil {
		return &refusal{http.StatusBadRequest, err.Error()}
	}
	if pod := podOf(r.TLS.PeerCertificates[0]); pod != member.Name {
		text := fmt.Sprintf("the certificate is that of %.100q, but the message names %.100q as its sender", pod, member.Name)
		return &refusal{http.StatusForbidden, text}
	}
	return nil
}

// podOf returns the pod to which a certificate belongs; "" if it is not an instance's.
func podOf(certificate *x509.Certificate) string {
	name := certificate.Subject.CommonName
	if len(name) <= len(CertificatePrefix) || name[:len(CertificatePrefix)] != CertificatePrefix {
		return ""
	}
	return name[len(CertificatePrefix):]
}

// serve decodes a request into message, calls answer, and writes its result.
func (s *server) serve(w http.ResponseWriter, r *http.Request, message any, answer func() (any, error)) {
	pod, refused := s.admit(r)
	if refused == nil && !s.enter(pod, "", maxRequests) {
		refused = &refusal{http.StatusTooManyRequests, fmt.Sprintf("too many requests: %d of this instance are in progress", maxRequests)}
	}
	if refused != nil {
		if refused == errUntrusted {
			w.Header().Set("Connection", "close")
		}
		write(w, refused, nil)
		return
	}
	defer s.leave(pod, "")
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxMessageBytes))
	if err == nil {
		err = decode(text, message)
	}
	if err != nil {
		write(w, &refusal{http.StatusBadRequest, fmt.Sprintf("%.300s", err)}, nil)
		return
	}
	answered, err := answer()
	write(w, err, answered)
}

// errUntrusted refuses a certificate that was trusted when the connection was made, and no longer
// is.
var errUntrusted = &refusal{http.StatusForbidden, "the certificate is from a CA that is no longer trusted"}

// admit returns the pod whose instance sends the request, or why the request is refused.
func (s *server) admit(r *http.Request) (string, *refusal) {
	certificate := r.TLS.PeerCertificates[0]
	pod := podOf(certificate)
	switch {
	case pod == "":
		return "", &refusal{http.StatusForbidden, "the certificate is not that of an instance"}
	case !s.certificates.trusts(certificate):
		return "", errUntrusted
	}
	return pod, nil
}

func (s *server) enter(pod, of string, most int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy[use{pod, of}] >= most {
		return false
	}
	s.busy[use{pod, of}]++
	return true
}

func (s *server) leave(pod, of string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy[use{pod, of}]--; s.busy[use{pod, of}] == 0 {
		delete(s.busy, use{pod, of})
	}
}

func write(w http.ResponseWriter, err error, answer any) {
	var refused *refusal
	switch {
	case errors.As(err, &refused):
		http.Error(w, refused.text, refused.code)
	case err != nil:
		http.Error(w, fmt.Sprintf("%.300s", err), http.StatusServiceUnavailable)
	default:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer) // It fails if the peer has gone.
	}
}
