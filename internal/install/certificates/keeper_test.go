package certificates

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/mainstay-platform/mainstay/internal/kit/pki"
	"github.com/mainstay-platform/mainstay/internal/kit/transport"
)

// newKeeper returns a Keeper without an API server: tests put pairs into its shelf directly.
func newKeeper(t *testing.T, clock *clocktesting.FakeClock) *Keeper {
	t.Helper()
	k, err := New(&rest.Config{Host: "192.0.2.1"}, Options{Namespace: "mainstay-system", Name: "mainstay-serving", Names: []string{host},
		Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestNew(t *testing.T) {
	for name, test := range map[string]struct {
		options Options
		want    bool
	}{
		"good":                     {Options{Namespace: "a", Name: "b", Names: []string{host}}, true},
		"no namespace":             {Options{Name: "b", Names: []string{host}}, false},
		"no name":                  {Options{Namespace: "a", Names: []string{host}}, false},
		"no DNS name":              {Options{Namespace: "a", Name: "b"}, false},
		"time that runs backwards": {Options{Namespace: "a", Name: "b", Names: []string{host}, Overlap: -1}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := New(&rest.Config{}, test.options); (err == nil) != test.want {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestAPIServerDown: the watch is retried below the reflector, whose back-off would grow with each
// failure.
func TestAPIServerDown(t *testing.T) {
	asked := make(chan struct{}, 2)
	away := transport.Func(func(*http.Request) (*http.Response, error) {
		select {
		case asked <- struct{}{}:
		default:
		}
		return nil, errors.New("connection refused")
	})
	k, err := New(&rest.Config{Host: "192.0.2.1", Transport: away}, Options{Namespace: "mainstay-system", Name: "mainstay-serving",
		Names: []string{host}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- k.Start(ctx) }()
	// A second request shows that the first has ended.
	for range 2 {
		<-asked
	}
	if err := k.Ready(); err == nil || !strings.HasSuffix(err.Error(), "not read yet") {
		t.Errorf("got %v", err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestReady(t *testing.T) {
	clock := clocktesting.NewFakeClock(start)
	k := newKeeper(t, clock)
	expect := func(want string) {
		t.Helper()
		if err := k.Ready(); (err == nil) != (want == "") || (err != nil && err.Error() != want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	expect("waiting for a serving certificate in Secret mainstay-system/mainstay-serving: not read yet")
	k.loop.Report(t.Context(), errors.New("watching it: forbidden"))
	expect("waiting for a serving certificate in Secret mainstay-system/mainstay-serving: watching it: forbidden")
	k.loop.Report(t.Context(), nil)
	expect("waiting for a serving certificate in Secret mainstay-system/mainstay-serving")
	if !k.NotAfter().IsZero() || k.Bundle() != nil {
		t.Error("there is a pair before the first")
	}
	k.update(func(now time.Time) { k.shelf.put(newPair(t, start), now) })
	expect("waiting until clients trust the serving certificate of Secret mainstay-system/mainstay-serving")
	k.Trusted(append([]byte("-----BEGIN X-----\n-----END X-----\n"), k.Bundle()...))
	clock.Step(5 * time.Second)
	expect("")
	if got := k.NotAfter(); !got.Equal(start.Add(3 * month)) {
		t.Errorf("got %s", got)
	}
	clock.Step(3 * month)
	expect("the serving certificate has expired: waiting for a serving certificate in Secret mainstay-system/mainstay-serving")
}

// TestChanged: Changed is closed at another bundle, also at one that only time has caused.
func TestChanged(t *testing.T) {
	clock := clocktesting.NewFakeClock(start)
	k := newKeeper(t, clock)
	a, b := newPair(t, start), newPair(t, start)
	for i, step := range []struct {
		by   func()
		want bool
	}{
		{func() { k.update(func(now time.Time) { k.shelf.put(a, now) }) }, true},
		{func() { k.update(func(now time.Time) { k.shelf.put(a, now) }) }, false},
		{func() { k.update(func(now time.Time) { k.shelf.put(b, now) }) }, true},
		{func() { k.Trusted(k.Bundle()) }, false},
		// The first pair, which is in no Secret, is no longer served: a handshake may be the first to
		// notice.
		{func() {
			clock.Step(5 * time.Second)
			k.NotAfter()
			k.update(func(time.Time) {})
		}, true},
	} {
		changed := k.Changed()
		step.by()
		select {
		case <-changed:
			if !step.want {
				t.Errorf("step %d: woken for nothing", i)
			}
		default:
			if step.want {
				t.Errorf("step %d: not woken", i)
			}
		}
	}
	if !bytes.Equal(k.Bundle(), pki.Encode(cas([]*pair{b}))) {
		t.Error("the bundle is not that of the second pair only")
	}
}

// TestHandshakesWhileItRotates is for the race detector, and checks that a client that trusts the
// current bundle is never refused.
func TestHandshakesWhileItRotates(t *testing.T) {
	clock := clocktesting.NewFakeClock(start)
	k := newKeeper(t, clock)
	latest := newPair(t, start)
	k.update(func(now time.Time) { k.shelf.put(latest, now) })
	ctx, cancel := context.WithCancel(t.Context())
	// A handshake is shorter than Settle: the clock does not advance during one.
	var handshakes sync.RWMutex
	var clients sync.WaitGroup
	for range 3 {
		clients.Go(func() {
			for ctx.Err() == nil {
				handshakes.RLock()
				err := handshake(k, clock)
				handshakes.RUnlock()
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 20 {
		latest = newPair(t, clock.Now(), latest.ca)
		k.update(func(now time.Time) { k.shelf.put(latest, now) })
		k.Trusted(k.Bundle())
		handshakes.Lock()
		clock.Step(5 * time.Second)
		handshakes.Unlock()
		if err := k.Ready(); err != nil {
			t.Error(err)
		}
	}
	cancel()
	clients.Wait()
	if certificate, err := k.GetCertificate(nil); err != nil || !certificate.Leaf.Equal(latest.certificate.Leaf) {
		t.Errorf("the last pair is not served: %v", err)
	}
}

// handshake connects as a client that trusts the current bundle.
func handshake(k *Keeper, clock *clocktesting.FakeClock) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(k.Bundle())
	near, far := net.Pipe()
	// A pipe has no buffer: after a refusal both ends would wait for each other.
	if err := near.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return err
	}
	server := tls.Server(far, &tls.Config{GetCertificate: k.GetCertificate, MinVersion: tls.VersionTLS12, SessionTicketsDisabled: true})
	done := make(chan error, 1)
	go func() { done <- server.Handshake() }()
	client := tls.Client(near, &tls.Config{RootCAs: roots, ServerName: host, Time: clock.Now, MinVersion: tls.VersionTLS12})
	err := client.Handshake()
	if err == nil {
		err = <-done
	}
	return errors.Join(err, near.Close(), far.Close())
}

// TestErrorsHoldNoKey: errors about a Secret with mixed-up parts contain no key material.
func TestErrorsHoldNoKey(t *testing.T) {
	data := newData(t, start, []string{host})
	for _, key := range []string{"tls.crt", "tls.key", "ca.crt"} {
		for _, value := range [][]byte{data["tls.key"], data["tls.key"][:100], bytes.ReplaceAll(data["tls.key"], []byte("-----"), nil)} {
			_, err := parsePair(with(data, key, value), []string{host}, start)
			if err == nil {
				continue // the key is in its place
			}
			for line := range strings.Lines(string(data["tls.key"])) {
				if line = strings.TrimSpace(line); !strings.Contains(line, "PRIVATE KEY") && strings.Contains(err.Error(), line[:20]) {
					t.Errorf("%s: %v", key, err)
				}
			}
		}
	}
}
