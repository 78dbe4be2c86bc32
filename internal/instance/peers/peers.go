// Package peers transports the messages between the instances of a database, by mutual TLS 1.3,
// HTTP/2, and JSON of limited size. The messages are those of package election, which decides what
// they mean.
package peers

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance"
	"github.com/mainstay-platform/mainstay/internal/instance/election"
)

// maxMessageBytes is how long a message may be. Its longest part is a history of timelines.
const maxMessageBytes = 512 << 10

// The paths of the messages.
const (
	pingPath    = "/v1/ping"
	askPath     = "/v1/ask"
	promisePath = "/v1/promise"
)

// Client sends messages to other instances. It keeps a connection to each of them.
type Client struct {
	certificates *Certificates
	// addresses returns the addresses of a pod as host:port, the best one first; at least one.
	addresses func(pod string) []string

	mu    sync.Mutex
	peers map[string]*http.Client
}

var _ instance.Peers = (*Client)(nil)

// NewClient returns a client. It connects when the first message is sent. addresses returns the
// addresses of a pod as host:port, the best one first; at least one.
func NewClient(certificates *Certificates, addresses func(pod string) []string) *Client {
	return &Client{certificates: certificates, addresses: addresses, peers: map[string]*http.Client{}}
}

// deadAfter is the time without a received byte after which a connection is checked by an HTTP/2
// ping. If that is not answered within the same time, the connection is closed, so that no instance
// waits for a peer that has vanished.
const deadAfter = 2 * time.Second

// to returns the HTTP client for a pod.
func (c *Client) to(pod string) *http.Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	if found := c.peers[pod]; found != nil {
		return found
	}
	made := &http.Client{
		Transport:     c.transport(pod),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	c.peers[pod] = made
	return made
}

// transport returns an HTTP transport that connects to a pod.
func (c *Client) transport(pod string) *http.Transport {
	return &http.Transport{
		// No limit of connections: while one is broken, a request must not wait until it is closed.
		ForceAttemptHTTP2: true,
		HTTP2:             &http.HTTP2Config{SendPingTimeout: deadAfter, PingTimeout: deadAfter},
		DialTLSContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: deadAfter}, Config: c.certificates.client(pod)}
			return dialFirst(ctx, dialer.DialContext, network, c.addresses(pod))
		},
	}
}

// dialFirst connects to all addresses at once, and returns the first connection. An IP address that
// was known may be another pod's by now, which the TLS handshake finds out, and a DNS name may not
// resolve at present. If all fail, it returns the error of the first address.
func dialFirst(
	ctx context.Context, dial func(ctx context.Context, network, address string) (net.Conn, error), network string, addresses []string,
) (net.Conn, error) {
	type result struct {
		index      int
		connection net.Conn
		err        error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // It ends the attempts that are left; connections that were made are unaffected.
	results := make(chan result, len(addresses))
	for i, address := range addresses {
		go func() {
			connection, err := dial(ctx, network, address)
			results <- result{i, connection, err}
		}()
	}
	var failed error
	for i := range addresses {
		got := <-results
		if got.err == nil {
			go func() {
				for range len(addresses) - 1 - i {
					if late := <-results; late.err == nil {
						_ = late.connection.Close()
					}
				}
			}()
			return got.connection, nil
		}
		if failed == nil || got.index == 0 {
			failed = got.err
		}
	}
	return nil, failed
}

// Renew makes the client use new connections from now on. It is called when the certificates have
// changed.
func (c *Client) Renew() {
	c.mu.Lock()
	before := c.peers
	c.peers = map[string]*http.Client{}
	c.mu.Unlock()
	for _, peer := range before {
		peer.CloseIdleConnections()
	}
}

// Close closes all idle connections. The others end by the server's idle timeout.
func (c *Client) Close() { c.Renew() }

// Ping implements [instance.Peers].
func (c *Client) Ping(ctx context.Context, to string, ping election.Ping) (election.Pong, error) {
	var pong election.Pong
	if err := c.send(ctx, to, pingPath, ping, &pong); err != nil {
		return election.Pong{}, err
	}
	return pong, fromPeer(to, pong.Member, pong.Check())
}

// Ask implements [instance.Peers].
func (c *Client) Ask(ctx context.Context, to string, ask election.Ask) (election.AskReply, error) {
	var reply election.AskReply
	if err := c.send(ctx, to, askPath, ask, &reply); err != nil {
		return election.AskReply{}, err
	}
	return reply, fromPeer(to, reply.Member, reply.Check())
}

// Promise implements [instance.Peers].
func (c *Client) Promise(ctx context.Context, to string, request election.PromiseRequest) (election.PromiseReply, error) {
	var reply election.PromiseReply
	if err := c.send(ctx, to, promisePath, request, &reply); err != nil {
		return election.PromiseReply{}, err
	}
	return reply, fromPeer(to, reply.Member, reply.Check())
}

// fromPeer returns an error if an answer is not from the peer, or else check, the result of
// checking the answer.
func fromPeer(peer string, member election.Member, check error) error {
	if member.Name != peer {
		return fmt.Errorf("%s answers as %.100q", peer, member.Name)
	}
	return check
}

// send sends a message as JSON, and decodes the answer into answer.
func (c *Client) send(ctx context.Context, to, path string, message, answer any) error {
	body, err := json.Marshal(message)
	if err != nil {
		return fmt.Errorf("encoding a message: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+to+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("sending to %s: %w", to, err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.to(to).Do(request)
	if err != nil {
		return fmt.Errorf("sending to %s: %w", to, err)
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(response.Body, maxMessageBytes+1))
	switch {
	case err != nil:
		return fmt.Errorf("reading the answer of %s: %w", to, err)
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("%s answers %s: %.300s", to, response.Status, strings.TrimSpace(string(text)))
	}
	return decode(text, answer)
}

// decode decodes a message. It ignores unknown fields, which a newer peer may send.
func decode(text []byte, into any) error {
	if len(text) > maxMessageBytes {
		return fmt.Errorf("the message has more than %d bytes", maxMessageBytes)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("reading a message: %w", err)
	}
	return nil
}

// pauseBetween is the pause before the second attempt to connect to a port that has refused the
// first.
const pauseBetween = 300 * time.Millisecond

// Refused implements [instance.Peers]. It returns true only if two attempts are refused.
func (c *Client) Refused(ctx context.Context, name string) bool {
	if !c.refuses(ctx, name) {
		return false
	}
	timer := time.NewTimer(pauseBetween)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return c.refuses(ctx, name)
	}
}

func (c *Client) refuses(ctx context.Context, name string) bool {
	dialer := net.Dialer{Timeout: deadAfter}
	connection, err := dialer.DialContext(ctx, "tcp", c.addresses(name)[0])
	if err == nil {
		_ = connection.Close()
		return false
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}
