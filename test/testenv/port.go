package testenv

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
)

// Ports are below the range from which the kernel chooses for connections and for listeners on port
// 0 (from 32768 on, net.ipv4.ip_local_port_range). So only another test can choose the same port.
const firstPort, lastPort = 20000, 32000

// reserved is a port that no other test uses, in this process or another.
type reserved struct {
	port int
	// mark is a socket in the abstract namespace of Linux whose name contains the port. The kernel
	// removes it with the process.
	mark net.Listener
}

func (r *reserved) release() { _ = r.mark.Close() }

// given are the ports that this process has got. It gets none twice: what is known of an API
// server, such as the versions that Settle waits for, is known by its port.
var given sync.Map

func reserve() (*reserved, error) {
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort) //nolint:gosec // any number
		if _, again := given.LoadOrStore(port, true); again {
			continue
		}
		mark, err := net.Listen("unix", fmt.Sprintf("@mainstay-test-port-%d", port))
		if err != nil {
			continue // another test uses it
		}
		probe, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			_ = mark.Close()
			continue // a program that is not a test uses it
		}
		_ = probe.Close()
		return &reserved{port, mark}, nil
	}
	return nil, errors.New("no port is free")
}

// Port returns a port of the loopback interface on which nothing listens, and which no other test
// gets until this test ends. It is for programs that need their port before they listen, or that
// listen on the same port again.
func Port(t testing.TB) int {
	t.Helper()
	port, err := reserve()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(port.release)
	return port.port
}
