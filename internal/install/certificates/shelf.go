package certificates

import (
	"crypto/x509"
	"time"

	"github.com/mainstay-platform/mainstay/internal/kit/pki"
)

// shelf has a replica's pairs in memory, and decides which one to serve. It is not safe for
// concurrent use.
type shelf struct {
	// settle and keepKnown are Options.Settle and Options.External.
	settle    time.Duration
	keepKnown bool

	// serving is nil until the first pair arrives. next is newer and waits until clients trust it; it
	// is mostly nil.
	serving, next *pair
	// known is the bundle of the Secret.
	known []*x509.Certificate
	// trustedSince is since when clients trust a CA, by the CA's DER.
	trustedSince map[string]time.Time
}

// put takes the current pair of the Secret.
func (s *shelf) put(p *pair, now time.Time) {
	before := s.known
	s.known = p.trusted
	if s.keepKnown {
		s.known = pki.Unexpired(pki.Unite(p.trusted, before), now)
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

// trust takes the CAs that all clients trust from now on. A CA that they trusted before keeps its
// time. A CA that is missing loses it.
func (s *shelf) trust(trusted []*x509.Certificate, now time.Time) {
	trustedSince := map[string]time.Time{}
	for _, ca := range trusted {
		since, before := s.trustedSince[string(ca.Raw)]
		if !before {
			since = now
		}
		trustedSince[string(ca.Raw)] = since
	}
	s.trustedSince = trustedSince
}

// settledAt returns when clients use a new bundle with the pair's CA. It returns false if they do
// not trust that CA.
func (s *shelf) settledAt(p *pair) (time.Time, bool) {
	since, trusted := s.trustedSince[string(p.ca.Raw)]
	return since.Add(s.settle), trusted
}

func (s *shelf) isSettled(p *pair, now time.Time) bool {
	at, trusted := s.settledAt(p)
	return trusted && !now.Before(at)
}

// at returns the pair to serve now, or nil before there is one. The next pair replaces the serving
// one when clients trust it, or when the serving one has expired, because no client accepts that
// any more.
func (s *shelf) at(now time.Time) *pair {
	if s.next != nil && (s.isSettled(s.next, now) || s.serving.isExpired(now)) {
		s.serving, s.next = s.next, nil
	}
	return s.serving
}

// bundle returns the CAs that clients must trust now: those of the Secret, and those of the serving
// and the next pair.
func (s *shelf) bundle() []*x509.Certificate {
	united := s.known
	for _, p := range []*pair{s.next, s.serving} {
		if p != nil {
			united = pki.Unite(united, []*x509.Certificate{p.ca})
		}
	}
	return united
}
