package instances

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Link forwards connections from one instance to the ports of another, until it is cut. A packet
// that is lost has no answer, so a cut link neither forwards nor closes anything.
type Link struct {
	failed   func(error)
	from, to string
	ports    []int

	mu        sync.Mutex
	listeners []net.Listener
	cut       bool
	heals     chan struct{}
	pairs     map[*pair]bool
}

// pair is a connection and the one that it is forwarded to.
type pair struct{ from, to net.Conn }

// NewLink returns a link from ports of an address to the same ports of another. It is shut.
//
// failed is called when it does not work for a reason of its own.
func NewLink(failed func(error), from, to string, ports ...int) *Link {
	return &Link{failed: failed, from: from, to: to, ports: ports, heals: make(chan struct{}), pairs: map[*pair]bool{}}
}

// Open listens. It is to be called when the other side is about to.
func (l *Link) Open() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.listeners) > 0 {
		return nil
	}
	for _, port := range l.ports {
		listener, err := listenAgain(address(l.from, port))
		if err != nil {
			return fmt.Errorf("listening for a link: %w", err)
		}
		l.listeners = append(l.listeners, listener)
		go l.accept(listener, port)
	}
	return nil
}

// listenAgain listens on an address where this process may have listened a moment ago. Between fork
// and exec, a child process has the sockets of this one, also those that were closed since.
func listenAgain(address string) (net.Listener, error) {
	const pause = 10 * time.Millisecond
	for begun := time.Now(); ; time.Sleep(pause) {
		listener, err := net.Listen("tcp", address)
		if !errors.Is(err, syscall.EADDRINUSE) || time.Since(begun) > within {
			return listener, err //nolint:wrapcheck // the caller does
		}
	}
}

// Shut refuses connections and closes those that are there, as the ports of a program that has
// ended do.
func (l *Link) Shut() {
	l.mu.Lock()
	listeners := l.listeners
	l.listeners = nil
	l.mu.Unlock()
	for _, listener := range listeners {
		_ = listener.Close()
	}
	l.Reset()
}

func address(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }

// Cut lets nothing pass, or lets it pass again. Connections that lost something while the link was
// cut go on: what waits in them arrives late.
func (l *Link) Cut(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut && !cut {
		close(l.heals)
		l.heals = make(chan struct{})
	}
	l.cut = cut
}

// Reset closes all connections.
func (l *Link) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p := range l.pairs {
		_ = p.from.Close()
		_ = p.to.Close()
	}
}

// wait waits while the link is cut.
func (l *Link) wait() {
	for {
		l.mu.Lock()
		cut, heals := l.cut, l.heals
		l.mu.Unlock()
		if !cut {
			return
		}
		<-heals
	}
}

func (l *Link) accept(listener net.Listener, port int) {
	for {
		from, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			l.failed(err)
			return
		}
		go l.forward(from, port)
	}
}

// forward connects to the other side, and copies both ways.
func (l *Link) forward(from net.Conn, port int) {
	l.wait()
	to, err := net.Dial("tcp", address(l.to, port))
	// Who is being killed refuses a connection, or resets it.
	if err != nil && !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, syscall.ECONNRESET) {
		l.failed(err)
	}
	if err != nil {
		_ = from.Close()
		return
	}
	p := &pair{from, to}
	l.mu.Lock()
	l.pairs[p] = true
	l.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { l.copy(to, from) })
	both.Go(func() { l.copy(from, to) })
	both.Wait()
	_ = from.Close()
	_ = to.Close()
	l.mu.Lock()
	delete(l.pairs, p)
	l.mu.Unlock()
}

// copy copies what one side sends, while the link is not cut.
func (l *Link) copy(to, from net.Conn) {
	buffer := make([]byte, 64<<10)
	for {
		read, err := from.Read(buffer)
		l.wait()
		if read > 0 {
			if _, writeErr := to.Write(buffer[:read]); writeErr != nil {
				break
			}
		}
		if err != nil {
			if tcp, ok := to.(*net.TCPConn); ok && errors.Is(err, io.EOF) {
				_ = tcp.CloseWrite()
				return
			}
			break
		}
	}
	_ = from.Close()
	_ = to.Close()
}
