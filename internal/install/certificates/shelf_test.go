package certificates

import (
	"bytes"
	"crypto/x509"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// step is something that happens to a replica, and what it serves then.
type step struct {
	after   time.Duration
	put     *pair
	trust   []*pair
	serving *pair
	// settled: whether clients have taken notice of the CA of what is served.
	settled bool
}

// stories of one replica: what arrives, what clients trust, and what is served. Settle is 5 s.
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
		"being told again does not start again": {
			{put: a, serving: a}, {put: b, serving: a}, {trust: []*pair{a, b}, serving: a}, {after: 3 * time.Second, trust: []*pair{b, a},
				serving: a},
			{after: 2 * time.Second, serving: b, settled: true},
		},
		"a bundle that lacks it again does": {
			{put: a, serving: a}, {put: b, serving: a}, {trust: []*pair{a, b}, serving: a}, {after: 3 * time.Second, trust: []*pair{a}, serving: a},
			{after: 2 * time.Second, serving: a, settled: true}, {trust: []*pair{a, b}, serving: a, settled: true}, {after: 5 * time.Second,
				serving: b, settled: true},
		},
		"being told before it arrives counts": {
			{put: a, serving: a}, {trust: []*pair{a, b}, serving: a}, {after: 5 * time.Second, serving: a, settled: true}, {put: b, serving: b,
				settled: true},
		},
		"one that was replaced before it was trusted is never served": {
			{put: a, serving: a}, {put: b, serving: a}, {put: c, serving: a}, {trust: []*pair{a, b}, serving: a}, {after: time.Hour, serving: a,
				settled: true},
			{trust: []*pair{a, b, c}, serving: a, settled: true}, {after: 5 * time.Second, serving: c, settled: true},
		},
		"the same again changes nothing": {
			{put: a, serving: a}, {put: a, serving: a}, {put: b, serving: a}, {trust: []*pair{b}, serving: a}, {put: b,
				serving: a}, {after: 5 * time.Second, serving: b, settled: true},
		},
		"a rotation that was undone": {
			{put: a, serving: a}, {put: b, serving: a}, {put: a, serving: a}, {trust: []*pair{a, b}, serving: a}, {after: time.Hour, serving: a,
				settled: true},
		},
		"what has expired gives way, trusted or not": {
			{put: old, serving: old}, {put: b, serving: old}, {after: 2 * time.Second, serving: b},
		},
		"what has expired does not hold up the next": {
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
		"nothing": {},
		"one":     {put: []*pair{a}, want: []*pair{a}},
		"what is served, though the Secret lacks it": {put: []*pair{a, alone}, want: []*pair{alone, a}},
		"not what is served no more":                 {put: []*pair{a, alone}, trust: []*pair{alone}, want: []*pair{alone}},
		"external, what was served once":             {external: true, put: []*pair{a, alone}, trust: []*pair{alone}, want: []*pair{alone, a}},
		"external, but not what has expired":         {external: true, put: []*pair{short, alone}, trust: []*pair{alone}, want: []*pair{alone}},
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
			// The Secret is looked at again from time to time.
			if len(test.put) > 0 {
				s.put(test.put[len(test.put)-1], clock.Now())
			}
			if !bytes.Equal(encode(s.bundle()), encode(cas(test.want))) {
				t.Errorf("got %d CAs, want %d or other ones", len(s.bundle()), len(test.want))
			}
		})
	}
}
