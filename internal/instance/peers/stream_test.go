package peers

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
)

// echo sends what it gets, in capitals, after the name of the pod.
type echo struct{ ended chan struct{} }

func (e echo) HandleStream(ctx context.Context, pod string, stream io.ReadWriteCloser) {
	defer close(e.ended)
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

// TestStream: bytes go in both directions, and the end of one side is that of the other.
func TestStream(t *testing.T) {
	a := newAuthority(t)
	served := echo{make(chan struct{})}
	address := serveWith(t, a.issue(t, CertificatePrefix+"db-1", "db-1", inAnHour()), served)
	c := client(a.issue(t, CertificatePrefix+"db-0", "db-0", inAnHour()), address)
	stream, err := c.Stream(t.Context(), "db-1")
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

// TestStreamIsRefused: an engine without streams has none, and a stranger gets none.
func TestStreamIsRefused(t *testing.T) {
	a := newAuthority(t)
	address := serve(t, a.issue(t, CertificatePrefix+"db-1", "db-1", inAnHour()))
	if _, err := client(a.issue(t, CertificatePrefix+"db-0", "db-0", inAnHour()), address).Stream(t.Context(), "db-1"); err == nil ||
		!strings.Contains(err.Error(), "this engine has no streams") {
		t.Errorf("got %v", err)
	}
	if _, err := client(a.issue(t, "somebody", "db-0", inAnHour()), address).Stream(t.Context(), "db-1"); err == nil ||
		!strings.Contains(err.Error(), "not that of an instance") {
		t.Errorf("got %v", err)
	}
	foreign := newAuthority(t).issue(t, CertificatePrefix+"db-0", "db-0", inAnHour())
	if _, err := client(foreign, address).Stream(t.Context(), "db-1"); err == nil {
		t.Error("a certificate of another authority opens a stream")
	}
}
