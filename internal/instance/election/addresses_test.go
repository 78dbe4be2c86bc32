package election

import (
	"maps"
	"testing"
)

// TestAddresses checks that a leader sends the addresses of all members to all members, so that no
// failover needs DNS.
func TestAddresses(t *testing.T) {
	l, f := leading(), following()
	l.Address, f.Address = "10.0.0.1", "10.0.0.2"
	l.Peers[1].Address = "10.0.0.9"
	if pong, ok := f.HeardPing(l.ping(false)); !ok || pong.Address != f.Address {
		t.Fatalf("the member answers %+v", pong)
	} else {
		l.HeardPong(pong, l.Now+1)
	}
	l.HeardPong(Pong{Member: c, Address: "10.0.0.3"}, l.Now+1)
	f.HeardPing(l.ping(false))
	want := map[string]string{a.Name: "10.0.0.1", b.Name: "10.0.0.2", c.Name: "10.0.0.3"}
	if got := l.Addresses(); !maps.Equal(got, want) {
		t.Errorf("the leader knows %v", got)
	}
	if got := f.Addresses(); !maps.Equal(got, want) {
		t.Errorf("the member knows %v", got)
	}
}

// TestAddressesAreChecked: a text that is not an IP address is refused, and the error names the
// field.
func TestAddressesAreChecked(t *testing.T) {
	many := map[string]string{}
	for i := range maxSet + 1 {
		many[string(rune('A'+i))] = "10.0.0.1"
	}
	for name, err := range map[string]error{
		"a name":   Ping{Leader: a, Addresses: map[string]string{"db-0": "localhost"}}.Check(),
		"too many": Ping{Leader: a, Addresses: many}.Check(),
		"a text":   Pong{Member: b, Address: "10.0.0.1 port=1"}.Check(),
	} {
		if err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if err := (Ping{Leader: a, Addresses: map[string]string{"db-0": "fd00::1"}}).Check(); err != nil {
		t.Error(err)
	}
}
