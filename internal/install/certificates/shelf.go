package certificates

import (
	"crypto/x509"
	"time"
)

// shelf holds the pairs that a replica has in memory, and knows which of them to serve. It is
// not safe for concurrent use.
type shelf struct {
	// settle and keepKnown are Options.Settle and Options.External.
	settle    time.Duration
	keepKnown bool

	// serving is nil until the first pair arrives. next is newer and waits until
	// it is trusted; mostly nil.
	serving, next *pair
	// known is the bundle of the Secret.
	known []*x509.Certificate
	// told is since when clients trust a CA, by its DER.
	told map[string]time.Time
}

// put takes what the Secret holds now.
func (s *shelf) put(p *pair, now time.Time) {
	before := s.known
	s.known = p.trusted
	if s.keepKnown {
		s.known = unexpired(unite(p.trusted, before), now)
	}
	serving := s.at(now)
	switch {
	case serving == nil || serving.isExpired(now):
		s.serving, s.next = p, nil
	case serving.isSame(p):
		s.next = nil
	case s.next == nil || !s.next.isSame(p):
		s.next = p
	}
}

// trust takes what all clients trust from now on. A CA that they trusted before keeps its time; one
// that is not named any more loses it.
func (s *shelf) trust(trusted []*x509.Certificate, now time.Time) {
	told := map[string]time.Time{}
	for _, ca := range trusted {
		since, before := s.told[string(ca.Raw)]
		if !before {
			since = now
		}
		told[string(ca.Raw)] = since
	}
	s.told = told
}

// settledAt is when clients have taken notice of a pair's CA; false if nobody told them.
func (s *shelf) settledAt(p *pair) (time.Time, bool) {
	since, told := s.told[string(p.ca.Raw)]
	return since.Add(s.settle), told
}

func (s *shelf) isSettled(p *pair, now time.Time) bool {
	at, told := s.settledAt(p)
	return told && !now.Before(at)
}

// at is the pair to serve now, nil before there is any. What is older goes when the next is trusted, or
// when it has expired: nobody accepts it any more then.
func (s *shelf) at(now time.Time) *pair {
	if s.next != nil && (s.isSettled(s.next, now) || s.serving.isExpired(now)) {
		s.serving, s.next = s.next, nil
	}
	return s.serving
}

// bundle is what clients must trust now: what the Secret says, and what we serve or will.
func (s *shelf) bundle() []*x509.Certificate {
	united := s.known
	for _, p := range []*pair{s.next, s.serving} {
		if p != nil {
			united = unite(united, []*x509.Certificate{p.ca})
		}
	}
	return united
}
