package testenv

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// Ports are chosen below those that the kernel gives to connections and to listeners on port 0 (from 32768 on, by
// net.ipv4.ip_local_port_range), so that only another test can want the same.
const firstPort, lastPort = 20000, 32000

// reserved is a port that no other test takes, in this process or another.
type reserved struct {
	port int
	// mark is a socket in the abstract namespace of Linux, under a name that has the port. The kernel takes it away with the process.
	mark net.Listener
}

func (r *reserved) release() { _ = r.mark.Close() }

func reserve() (*reserved, error) {
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort) //nolint:gosec // any number
		mark, err := net.Listen("unix", fmt.Sprintf("@mainstay-test-port-%d", port))
		if err != nil {
			continue // another test has it
		}
		probe, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			_ = mark.Close()
			continue // a program that is not a test has it
		}
		_ = probe.Close()
		return &reserved{port, mark}, nil
	}
	return nil, errors.New("no port is free")
}

// Port is a port of the loopback that nothing listens on, and that no other test gets until this one ends: for programs that
// must know their port before they listen, or that listen on the same one again.
func Port(t testing.TB) int {
	t.Helper()
	port, err := reserve()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(port.release)
	return port.port
}
