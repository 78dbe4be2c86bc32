package pki

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"runtime"
	"slices"
	"testing"
	"time"
)

// TestIssue: what one rotation issues is trusted by all who have its authority, each for its own
// names and usages.
func TestIssue(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	both := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	authority, issued, err := Issue(now, time.Hour,
		Request{CommonName: "instance:db-0", Names: []string{"db-0", "10.0.0.1"}, Usages: both},
		Request{CommonName: "app", Usages: both[1:]})
	if err != nil || len(issued) != 2 {
		t.Fatalf("%d certificates, %v", len(issued), err)
	}
	var leaves []*x509.Certificate
	for _, i := range issued {
		pair, err := tls.X509KeyPair(i.Certificate, i.Key)
		if err != nil {
			t.Fatal(err)
		}
		leaves = append(leaves, pair.Leaf)
	}
	if leaves[0].Subject.CommonName != "instance:db-0" || leaves[1].Subject.CommonName != "app" || leaves[0].IsCA {
		t.Errorf("got %s and %s", leaves[0].Subject, leaves[1].Subject)
	}
	for name, test := range map[string]struct {
		leaf  *x509.Certificate
		name  string
		usage x509.ExtKeyUsage
		at    time.Time
		valid bool
	}{
		"a server":              {leaves[0], "db-0", both[0], now, true},
		"by its address":        {leaves[0], "10.0.0.1", both[0], now, true},
		"as a client":           {leaves[0], "", both[1], now, true},
		"another name":          {leaves[0], "db-1", both[0], now, false},
		"a client":              {leaves[1], "", both[1], now, true},
		"a client, as a server": {leaves[1], "", both[0], now, false},
		"a clock behind":        {leaves[0], "db-0", both[0], now.Add(-Backdate), true},
		"too late":              {leaves[0], "db-0", both[0], now.Add(time.Hour + time.Second), false},
	} {
		_, err := test.leaf.Verify(x509.VerifyOptions{
			Roots: Pool([]*x509.Certificate{authority}), DNSName: test.name, KeyUsages: []x509.ExtKeyUsage{test.usage}, CurrentTime: test.at,
		})
		if (err == nil) != test.valid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if another, _, err := Issue(now, time.Hour); err != nil || another.Equal(authority) {
		t.Errorf("a rotation has the authority of the one before: %v", err)
	}
}

// TestUniteBundles: the result does not depend on the order of the bundles, and lacks what has
// expired.
func TestUniteBundles(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var bundles [][]byte
	for _, days := range []int{0, 10, 20} {
		authority, _, err := Issue(at.AddDate(0, 0, days), 30*24*time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		bundles = append(bundles, Encode([]*x509.Certificate{authority}))
	}
	old, middle, young := bundles[0], bundles[1], bundles[2]
	all := slices.Concat(young, middle, old)
	now := at.AddDate(0, 0, 25)
	for name, given := range map[string][][]byte{
		"in order": {young, middle, old}, "backwards": {old, middle, young}, "twice": {slices.Concat(old, young), slices.Concat(young, middle)},
	} {
		if !bytes.Equal(all, UniteBundles(now, given...)) {
			t.Errorf("%s: got another bundle", name)
		}
	}
	if !bytes.Equal(UniteBundles(now, []byte("rubble"), all, nil), all) {
		t.Error("rubble counts")
	}
	if !bytes.Equal(UniteBundles(at.AddDate(0, 0, 35), all), slices.Concat(young, middle)) {
		t.Error("expired certificates stay")
	}
	if UniteBundles(now, nil) != nil {
		t.Error("an empty bundle has a certificate")
	}
}

// TestUniteCost: what it takes grows with the length of a bundle, not with its square: a Secret has
// room for thousands of certificates. Allocated bytes are counted, because time is not exact.
func TestUniteCost(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	_, issued, err := Issue(now, time.Hour, make([]Request, 800)...)
	if err != nil {
		t.Fatal(err)
	}
	cost := func(count int) uint64 {
		var bundle []byte
		for _, one := range issued[:count] {
			bundle = append(bundle, one.Certificate...)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		UniteBundles(now, bundle)
		runtime.ReadMemStats(&after)
		return (after.TotalAlloc - before.TotalAlloc) / uint64(len(bundle))
	}
	if few, many := cost(50), cost(800); many > 2*few {
		t.Errorf("a byte of a bundle costs %d bytes, and %d in one that is sixteen times as long", few, many)
	}
}
