package certificates

import (
	"bytes"
	"crypto/x509"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/mainstay-platform/mainstay/internal/kit/pki"
)

// step is an event in a replica's life, and what the replica serves afterwards.
type step struct {
	after   time.Duration
	put     *pair
	trust   []*pair
	serving *pair
	// settled is whether clients use the CA of the serving pair.
	settled bool
}

// stories returns sequences of events in one replica. Settle is 5 s.
func stories(t *testing.T) map[string][]step {
	t.Helper()
	a := newPair(t, start)
	b := newPair(t, start, a.ca)
	c := newPair(t, start, b.ca, a.ca)
	old := newPair(t, start.Add(-3*month+time.Second)) // expires a second after start
	return map[string][]step{
		"the first is served at once, and settles later": {
			{put: a, serving: a}, {trust: []*pair{a}, serving: a}, {after: 4 * time.Second, serving: a}, {after: time.Second, serving: a,
				settled: true},
		},
		"a second waits until it is trusted and settled": {
			{put: a, serving: a}, {put: b, serving: a}, {after: time.Hour, serving: a}, {trust: []*pair{b, a}, serving: a},
			{after: 4999 * time.Millisecond, serving: a}, {after: time.Millisecond, serving: b, settled: true},
		},
		"trusting again does not restart the time": {
			{put: a, serving: a}, {put: b, serving: a}, {trust: []*pair{a, b}, serving: a}, {after: 3 * time.Second, trust: []*pair{b, a},
				serving: a},
			{after: 2 * time.Second, serving: b, settled: true},
		},
		"a bundle without it restarts the time": {
			{put: a, serving: a}, {put: b, serving: a}, {trust: []*pair{a, b}, serving: a}, {after: 3 * time.Second, trust: []*pair{a}, serving: a},
			{after: 2 * time.Second, serving: a, settled: true}, {trust: []*pair{a, b}, serving: a, settled: true}, {after: 5 * time.Second,
				serving: b, settled: true},
		},
		"trusting before it arrives counts": {
			{put: a, serving: a}, {trust: []*pair{a, b}, serving: a}, {after: 5 * time.Second, serving: a, settled: true}, {put: b, serving: b,
				settled: true},
		},
		"a pair replaced before it was trusted is never served": {
			{put: a, serving: a}, {put: b, serving: a}, {put: c, serving: a}, {trust: []*pair{a, b}, serving: a}, {after: time.Hour, serving: a,
				settled: true},
			{trust: []*pair{a, b, c}, serving: a, settled: true}, {after: 5 * time.Second, serving: c, settled: true},
		},
		"the same pair again changes nothing": {
			{put: a, serving: a}, {put: a, serving: a}, {put: b, serving: a}, {trust: []*pair{b}, serving: a}, {put: b,
				serving: a}, {after: 5 * time.Second, serving: b, settled: true},
		},
		"a rotation that was undone": {
			{put: a, serving: a}, {put: b, serving: a}, {put: a, serving: a}, {trust: []*pair{a, b}, serving: a}, {after: time.Hour, serving: a,
				settled: true},
		},
		"an expired pair is replaced by an untrusted one": {
			{put: old, serving: old}, {put: b, serving: old}, {after: 2 * time.Second, serving: b},
		},
		"an expired pair does not delay the next": {
			{put: old, serving: old}, {after: 2 * time.Second, serving: old}, {put: b, serving: b},
		},
	}
}

func TestServing(t *testing.T) {
	for name, steps := range stories(t) {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakeClock(start)
			s := shelf{settle: 5 * time.Second}
			for i, step := range steps {
				clock.Step(step.after)
				if step.put != nil {
					s.put(step.put, clock.Now())
				}
				if step.trust != nil {
					s.trust(cas(step.trust), clock.Now())
				}
				got := s.at(clock.Now())
				if !got.isSame(step.serving) {
					t.Errorf("step %d: another pair is served", i)
				}
				if settled := s.isSettled(got, clock.Now()); settled != step.settled {
					t.Errorf("step %d: settled is %t", i, settled)
				}
			}
		})
	}
}

func cas(pairs []*pair) []*x509.Certificate {
	var found []*x509.Certificate
	for _, p := range pairs {
		found = append(found, p.ca)
	}
	return found
}

func TestBundle(t *testing.T) {
	a := newPair(t, start)
	alone := newPair(t, start.Add(time.Hour))
	short := newPair(t, start.Add(-3*month+2*time.Second))
	for name, test := range map[string]struct {
		external bool
		put      []*pair
		trust    []*pair
		want     []*pair
	}{
		"nothing":                          {},
		"one":                              {put: []*pair{a}, want: []*pair{a}},
		"served, though not in the Secret": {put: []*pair{a, alone}, want: []*pair{alone, a}},
		"no longer served":                 {put: []*pair{a, alone}, trust: []*pair{alone}, want: []*pair{alone}},
		"external, served before":          {external: true, put: []*pair{a, alone}, trust: []*pair{alone}, want: []*pair{alone, a}},
		"external, without expired ones":   {external: true, put: []*pair{short, alone}, trust: []*pair{alone}, want: []*pair{alone}},
	} {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakeClock(start)
			s := shelf{settle: time.Second, keepKnown: test.external}
			for _, p := range test.put {
				s.put(p, clock.Now())
			}
			s.trust(cas(test.trust), clock.Now())
			clock.Step(time.Minute)
			s.at(clock.Now())
			// The Secret is observed again from time to time.
			if len(test.put) > 0 {
				s.put(test.put[len(test.put)-1], clock.Now())
			}
			if !bytes.Equal(pki.Encode(s.bundle()), pki.Encode(cas(test.want))) {
				t.Errorf("got %d CAs, want %d, or the CAs differ", len(s.bundle()), len(test.want))
			}
		})
	}
}
