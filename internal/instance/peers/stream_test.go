package peers

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// echo sends back what it receives, in upper case, after the pod's name.
type echo struct{ ended chan struct{} }

func (e echo) HandleStream(ctx context.Context, pod string, stream io.ReadWriteCloser) {
	defer func() {
		select {
		case e.ended <- struct{}{}:
		default: // An attempt that took too long has ended before.
		}
	}()
	if _, err := io.WriteString(stream, pod+" "); err != nil {
		return
	}
	buffer := make([]byte, 1<<10)
	for ctx.Err() == nil {
		count, err := stream.Read(buffer)
		if err != nil {
			return
		}
		if _, err := stream.Write(bytes.ToUpper(buffer[:count])); err != nil {
			return
		}
	}
}

// streams opens a stream to db-1 in time.
func streams(t *testing.T, c *Client) (io.ReadWriteCloser, error) {
	return inTime(func() (io.ReadWriteCloser, error) { return c.Stream(t.Context(), "db-1") })
}

// TestStream: bytes go in both directions, and when one side ends, the other does.
func TestStream(t *testing.T) {
	a := newAuthority(t)
	served := echo{make(chan struct{}, 1)}
	address := serveWith(t, a.issue(t, CertificatePrefix+"db-1", "db-1", inAnHour()), served)
	c := client(a.issue(t, CertificatePrefix+"db-0", "db-0", inAnHour()), address)
	stream, err := streams(t, c)
	check(t, err)
	read := func(want string) {
		t.Helper()
		got := make([]byte, len(want))
		if _, err := io.ReadFull(stream, got); err != nil || string(got) != want {
			t.Fatalf("got %q, %v", got, err)
		}
	}
	read("db-0 ")
	for _, text := range []string{"one", strings.Repeat("two", 300)} {
		_, err := io.WriteString(stream, text)
		check(t, err)
		read(strings.ToUpper(text))
	}
	check(t, stream.Close())
	<-served.ended
	if _, err := stream.Read(make([]byte, 1)); err == nil {
		t.Error("a closed stream can be read")
	}
}

// ending is an echo that ends with its context.
type ending struct{ echo }

func (e ending) HandleStream(ctx context.Context, pod string, stream io.ReadWriteCloser) {
	defer context.AfterFunc(ctx, func() { _ = stream.Close() })()
	e.echo.HandleStream(ctx, pod, stream)
}

// TestStreamEndsWithItsAuthority: a stream outlives new certificates, and ends when the authority
// that admitted the peer is no longer trusted.
func TestStreamEndsWithItsAuthority(t *testing.T) {
	first, second := newAuthority(t), newAuthority(t)
	r := newRotation(t, first)
	c := client(r.loaded["db-0"], serveWith(t, r.loaded["db-1"], ending{echo{make(chan struct{}, 1)}}))
	stream, err := streams(t, c)
	check(t, err)
	defer func() { _ = stream.Close() }()
	r.renew("db-1", first, second)
	_, err = io.WriteString(stream, "text")
	check(t, err)
	const want = "db-0 TEXT"
	got := make([]byte, len(want))
	if _, err := io.ReadFull(stream, got); err != nil || string(got) != want {
		t.Fatalf("while both authorities are trusted: got %q, %v", got, err)
	}
	r.renew("db-1", second)
	ended := make(chan error, 1)
	go func() {
		_, err := stream.Read(make([]byte, 1))
		ended <- err
	}()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("something was read")
		}
	case <-time.After(idleTime / 2):
		t.Error("the stream goes on although its authority is no longer trusted")
	}
}

// TestStreamIsRefused: streams are refused if the engine has none, and to clients that are no
// instances.
func TestStreamIsRefused(t *testing.T) {
	a := newAuthority(t)
	address := serve(t, a.issue(t, CertificatePrefix+"db-1", "db-1", inAnHour()))
	if _, err := streams(t, client(a.issue(t, CertificatePrefix+"db-0", "db-0", inAnHour()), address)); err == nil ||
		!strings.Contains(err.Error(), "this engine has no streams") {
		t.Errorf("got %v", err)
	}
	if _, err := streams(t, client(a.issue(t, "somebody", "db-0", inAnHour()), address)); err == nil ||
		!strings.Contains(err.Error(), "not that of an instance") {
		t.Errorf("got %v", err)
	}
	foreign := newAuthority(t).issue(t, CertificatePrefix+"db-0", "db-0", inAnHour())
	if _, err := client(foreign, address).Stream(t.Context(), "db-1"); err == nil {
		t.Error("a certificate of another authority opens a stream")
	}
}

// counted is a listener that tells when a connection that it has accepted is closed.
type counted struct {
	net.Listener
	closed chan struct{}
}

func (c counted) Accept() (net.Conn, error) {
	connection, err := c.Listener.Accept()
	return closing{connection, c.closed}, err
}

type closing struct {
	net.Conn
	closed chan struct{}
}

func (c closing) Close() error {
	select {
	case c.closed <- struct{}{}:
	default:
	}
	return c.Conn.Close()
}

// TestStreamEndsItsConnection: a stream leaves no connection behind, whether it was served or
// refused.
func TestStreamEndsItsConnection(t *testing.T) {
	a := newAuthority(t)
	for name, served := range map[string]Streams{"served": echo{make(chan struct{}, 1)}, "refused": nil} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		check(t, err)
		accepting := counted{listener, make(chan struct{}, 1)}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			_ = Serve(ctx, accepting, a.issue(t, CertificatePrefix+"db-1", "db-1", inAnHour()), handler{}, served)
		}()
		c := client(a.issue(t, CertificatePrefix+"db-0", "db-0", inAnHour()), listener.Addr().String())
		stream, err := streams(t, c)
		if served != nil {
			check(t, err)
			check(t, stream.Close())
		}
		select {
		case <-accepting.closed:
		case <-time.After(idleTime / 2):
			t.Errorf("%s: the connection is still open", name)
		}
	}
}

// silent is an engine that reads from a stream on which nothing arrives.
type silent struct{ ended chan error }

func (s silent) HandleStream(_ context.Context, _ string, stream io.ReadWriteCloser) {
	late := time.AfterFunc(50*time.Millisecond, func() { _ = stream.Close() })
	defer late.Stop()
	_, err := stream.Read(make([]byte, 1))
	s.ended <- err
}

// TestCloseEndsRead: an engine that waits for data of a peer can give up by closing the stream.
func TestCloseEndsRead(t *testing.T) {
	a := newAuthority(t)
	served := silent{make(chan error, 20)}
	address := serveWith(t, a.issue(t, CertificatePrefix+"db-1", "db-1", inAnHour()), served)
	stream, err := streams(t, client(a.issue(t, CertificatePrefix+"db-0", "db-0", inAnHour()), address))
	check(t, err)
	defer func() { _ = stream.Close() }()
	select {
	case err := <-served.ended:
		if err == nil {
			t.Error("something was read")
		}
	case <-time.After(idleTime / 2):
		t.Error("the read still waits")
	}
}
