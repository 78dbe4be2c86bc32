package peers

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// streamPath is the path of streams: bytes in both directions, whose meaning is the engine's.
const streamPath = "/v1/stream"

// Streams serves the streams that other instances open, for engines whose replication has no
// mutual TLS of its own.
type Streams interface {
	// HandleStream serves a stream that the instance of a pod has opened, until either side or the
	// context ends it. When it returns, it no longer writes to the stream. Closing the stream makes
	// blocked reads and writes fail.
	HandleStream(ctx context.Context, pod string, stream io.ReadWriteCloser)
}

// Limits of streams: how many one peer may have open, how long the answer to the request for one
// may take, and how many bytes are buffered for the reader. With 256 KiB, a stream carries some 256
// MB/s if the round trip takes a millisecond.
const (
	maxStreams   = 4
	streamTime   = 5 * time.Second
	streamBuffer = 256 << 10
)

// Stream opens a stream to another instance, on a connection of its own, so that messages never
// wait for its data. It ends when the context ends or when it is closed.
func (c *Client) Stream(ctx context.Context, to string) (io.ReadWriteCloser, error) {
	transport := c.transport(to)
	transport.HTTP2.MaxReceiveBufferPerStream, transport.HTTP2.MaxReceiveBufferPerConnection = streamBuffer, 2*streamBuffer
	opened := &connections{}
	dial := transport.DialTLSContext
	transport.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		connection, err := dial(ctx, network, address)
		if err == nil {
			opened.add(connection)
		}
		return connection, err
	}
	reader, writer := io.Pipe()
	ctx, cancel := context.WithCancel(ctx)
	s := &stream{writer: writer, end: func() { cancel(); opened.close() }}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+to+streamPath, reader)
	if err != nil {
		s.end()
		return nil, fmt.Errorf("opening a stream to %s: %w", to, err)
	}
	late := time.AfterFunc(streamTime, cancel)
	response, err := transport.RoundTrip(request)
	late.Stop()
	if err != nil {
		s.end()
		return nil, fmt.Errorf("opening a stream to %s: %w", to, err)
	}
	s.body = response.Body
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, headerBytes)) // It is only part of the error's text.
		_ = s.Close()
		return nil, fmt.Errorf("%s answers %s: %.300s", to, response.Status, strings.TrimSpace(string(text)))
	}
	return s, nil
}

// connections are those that a stream's transport has opened. They are closed with the stream: the
// transport itself would leave one that is not idle open until the server closes it.
type connections struct {
	mu     sync.Mutex
	open   []net.Conn
	closed bool
}

func (c *connections) add(connection net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		_ = connection.Close()
		return
	}
	c.open = append(c.open, connection)
}

func (c *connections) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, connection := range c.open {
		_ = connection.Close()
	}
	c.open = nil
}

// stream is the client's end of a stream.
type stream struct {
	body   io.ReadCloser
	writer *io.PipeWriter
	end    func()
}

func (s *stream) Read(into []byte) (int, error)  { return s.body.Read(into) }
func (s *stream) Write(from []byte) (int, error) { return s.writer.Write(from) }

// Close ends the stream, so that blocked reads and writes fail.
func (s *stream) Close() error {
	_ = s.writer.Close()
	s.end()
	return s.body.Close()
}

// served is the server's end of a stream.
type served struct {
	io.Reader
	to      io.Writer
	control *http.ResponseController
}

// Close makes blocked reads and writes fail.
func (s *served) Close() error { return s.control.SetWriteDeadline(time.Now()) }

func (s *served) Write(from []byte) (int, error) {
	count, err := s.to.Write(from)
	if err == nil {
		err = s.control.Flush()
	}
	return count, err
}

// stream serves a stream. The timeouts for messages do not apply to it. It ends when the CA that
// admitted the peer is no longer trusted, as messages on open connections are refused then.
func (s *server) stream(w http.ResponseWriter, r *http.Request) {
	pod, refused := s.admit(r)
	if refused == nil && s.streams == nil {
		refused = &refusal{http.StatusNotFound, "this engine has no streams"}
	}
	if refused == nil && !s.enter(pod, streamPath, maxStreams) {
		refused = &refusal{http.StatusTooManyRequests, fmt.Sprintf("too many streams: %d of this instance are open", maxStreams)}
	}
	if refused != nil {
		write(w, refused, nil)
		return
	}
	defer s.leave(pod, streamPath)
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(time.Time{}); err != nil {
		write(w, err, nil)
		return
	}
	if err := control.SetWriteDeadline(time.Time{}); err != nil {
		write(w, err, nil)
		return
	}
	w.WriteHeader(http.StatusOK)
	ctx, end := context.WithCancel(r.Context())
	defer end()
	go s.certificates.awaitDistrust(ctx, r.TLS.PeerCertificates[0], end)
	if control.Flush() == nil {
		s.streams.HandleStream(ctx, pod, &served{Reader: r.Body, to: w, control: control})
	}
}
