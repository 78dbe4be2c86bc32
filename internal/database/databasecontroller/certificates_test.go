package databasecontroller

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"maps"
	"testing"
	"time"

	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/kit/pki"
)

// TestRotation: certificates are used ten minutes after their authority is trusted, and for no
// moment are there instances that do not trust each other.
func TestRotation(t *testing.T) {
	db := &database.Database{Namespace: "shop", Name: "db"}
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	at := func(stored map[string][]byte, after time.Duration) map[string][]byte {
		t.Helper()
		now = now.Add(after)
		content, change, err := Certificates(db, stored, now)
		if err != nil || !change.After(now) {
			t.Fatalf("looked at again at %s: %v", change, err)
		}
		checkTrust(t, content, now)
		return content
	}
	first := at(nil, 0)
	if kept := at(first, 59*24*time.Hour); !bytes.Equal(kept["0.crt"], first["0.crt"]) {
		t.Error("certificates are renewed early")
	}
	checkTrust(t, first, now.Add(10*30*24*time.Hour)) // Nobody may be there to renew them.
	published := at(first, 25*time.Hour)
	if !bytes.Equal(published["0.crt"], first["0.crt"]) || bytes.Equal(published["ca.crt"], first["ca.crt"]) {
		t.Error("the next authority is not published before its certificates are used")
	}
	if kept := at(published, 9*time.Minute); !bytes.Equal(kept["0.crt"], first["0.crt"]) || !bytes.Equal(kept["ca.crt"], published["ca.crt"]) {
		t.Error("the next certificates are used early, or issued again")
	}
	used := at(published, 2*time.Minute)
	if bytes.Equal(used["0.crt"], first["0.crt"]) || !bytes.Equal(used["ca.crt"], published["ca.crt"]) || used["next-0.crt"] != nil {
		t.Error("the next certificates are not used")
	}
	broken := map[string][]byte{"ca.crt": used["ca.crt"], "0.crt": []byte("nothing")}
	if mended := at(broken, 0); len(mended) != 2*database.MaxReplicas+1 {
		t.Errorf("a Secret that was edited has %d keys", len(mended))
	}
}

// TestTooManyAuthorities: a Secret that a user has filled with authorities is made anew without
// them: they would be copied into the Secret of each user.
func TestTooManyAuthorities(t *testing.T) {
	db, now := &database.Database{Namespace: "shop", Name: "db"}, time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	stored, _, err := Certificates(db, nil, now)
	if err != nil {
		t.Fatal(err)
	}
	one := stored[database.AuthorityKey]
	for name, test := range map[string]struct {
		count int
		stays bool
	}{"few": {32 << 10 / len(one), true}, "too many": {32<<10/len(one) + 1, false}} {
		edited := maps.Clone(stored)
		edited[database.AuthorityKey] = bytes.Repeat(one, test.count)
		content, _, err := Certificates(db, edited, now)
		if err != nil {
			t.Fatal(err)
		}
		checkTrust(t, content, now)
		if stays := bytes.Equal(content[database.AuthorityKey], edited[database.AuthorityKey]); stays != test.stays {
			t.Errorf("%s: the authorities stay: %t", name, stays)
		}
		if !test.stays && len(content[database.AuthorityKey]) > 2*len(one) {
			t.Errorf("%s: %d bytes of authorities are left", name, len(content[database.AuthorityKey]))
		}
	}
}

// TestManyReissues: however often certificates are issued within their validity, those in use are
// trusted until the next ones are: of the authorities, the oldest ones give way.
func TestManyReissues(t *testing.T) {
	d := &database.Database{Namespace: "shop", Name: "db", Extras: []database.Extra{{Key: "pooler", CommonName: "pooler", IsNeeded: true}}}
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	stored, _, err := Certificates(d, nil, now)
	if err != nil {
		t.Fatal(err)
	}
	for len(stored[database.AuthorityKey]) < database.MaxAuthorities-1<<10 {
		former, _, err := pki.Issue(now.Add(-time.Hour), database.CertificateLifetime)
		if err != nil {
			t.Fatal(err)
		}
		stored[database.AuthorityKey] = append(stored[database.AuthorityKey], pki.Encode([]*x509.Certificate{former})...)
	}
	dropped := false
	for range 5 {
		delete(stored, "pooler.crt")
		published, _, err := Certificates(d, stored, now)
		if err != nil {
			t.Fatal(err)
		}
		checkTrust(t, published, now)
		if !bytes.Equal(published["0.crt"], stored["0.crt"]) {
			t.Fatal("other certificates are used at once")
		}
		dropped = dropped || len(published[database.AuthorityKey]) <= len(stored[database.AuthorityKey])
		now = now.Add(11 * time.Minute)
		if stored, _, err = Certificates(d, published, now); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(stored["0.crt"], published["next-0.crt"]) {
			t.Fatal("certificates are used whose authority was not published")
		}
		checkTrust(t, stored, now)
	}
	if !dropped {
		t.Error("the authorities have never been too many")
	}
}

// spoiled is a Secret that others spoil, with what was issued for it.
type spoiled struct {
	t      *testing.T
	d      *database.Database
	issued *Issued
	now    time.Time
}

// at returns the content that the Secret is to have when it has another one, or is not there.
func (s *spoiled) at(stored map[string][]byte, isThere bool, after time.Duration) map[string][]byte {
	s.t.Helper()
	s.now = s.now.Add(after)
	content, _, err := s.issued.certificates("uid", s.d, storedSecret{stored, isThere}, s.now)
	if err != nil {
		s.t.Fatal(err)
	}
	checkTrust(s.t, content, s.now)
	return content
}

// isPutBack checks whether a content is put back, whatever spoils it.
func (s *spoiled) isPutBack(content map[string][]byte) {
	s.t.Helper()
	lacking := maps.Clone(content)
	delete(lacking, "0.crt")
	for name, stored := range map[string]map[string][]byte{
		"without a certificate": lacking, "without data": nil, "with other data": {"a": nil},
	} {
		if again := s.at(stored, true, time.Minute); !maps.EqualFunc(again, content, bytes.Equal) {
			s.t.Errorf("a Secret %s gets other certificates", name)
		}
	}
}

func newSpoiled(t *testing.T) *spoiled {
	t.Helper()
	return &spoiled{
		t, &database.Database{Namespace: "shop", Name: "db"}, NewIssued(), time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC),
	}
}

// TestSpoiledAgain: a Secret that others spoil again and again gets the same certificates each
// time, which is what makes it contested. One that is deleted gets new ones.
func TestSpoiledAgain(t *testing.T) {
	s := newSpoiled(t)
	first := s.at(nil, false, 0)
	s.isPutBack(first)
	later := s.at(nil, true, 61*24*time.Hour)
	if bytes.Equal(later["0.crt"], first["0.crt"]) {
		t.Error("certificates that are old are used again")
	}
	if deleted := s.at(nil, false, time.Minute); bytes.Equal(deleted["0.crt"], later["0.crt"]) {
		t.Error("a Secret that was deleted has its former certificates")
	}
}

// TestSpoiledLater: what is put back is what the Secret had last: also after a restart, and after a
// rotation that the spec no longer asks for.
func TestSpoiledLater(t *testing.T) {
	s := newSpoiled(t)
	first := s.at(nil, false, 0)
	s.issued = NewIssued()
	s.at(first, true, time.Minute)
	s.isPutBack(first)

	s.d.Extras = []database.Extra{{Key: "pooler", CommonName: "pooler", IsNeeded: true}}
	published := s.at(first, true, time.Minute)
	s.at(published, true, time.Minute)
	s.isPutBack(published)
	used := s.at(published, true, 11*time.Minute)
	s.d.Extras = nil
	s.at(used, true, time.Minute)
	s.isPutBack(used)
}

// TestUnwritable: a Secret that can't be written is to have the same content in each pass: a new
// one would change other objects too, which cause the next pass.
func TestUnwritable(t *testing.T) {
	s := newSpoiled(t)
	first := s.at(nil, true, 0) // another's
	if again := s.at(nil, true, time.Hour); !maps.EqualFunc(again, first, bytes.Equal) {
		t.Error("for the Secret of another owner, new certificates are made in each pass")
	}
	s.at(first, true, time.Minute)
	next := s.at(first, true, 61*24*time.Hour)
	if len(next) <= len(first) {
		t.Fatal("no next certificates are made")
	}
	if again := s.at(first, true, nextFor/2); !maps.EqualFunc(again, next, bytes.Equal) {
		t.Error("the next certificates are made anew in each pass")
	}
	// They would be used ten minutes after they were made, so the ones that are stored must be new.
	if later := s.at(first, true, nextFor); bytes.Equal(later["next-0.crt"], next["next-0.crt"]) {
		t.Error("next certificates are stored long after they were made")
	}
}

// TestSpoiledAtLength: content that is far longer than ours is not kept in memory.
func TestSpoiledAtLength(t *testing.T) {
	s := newSpoiled(t)
	first := s.at(nil, false, 0)
	long := maps.Clone(first)
	long["other"] = make([]byte, maxRemembered)
	s.at(long, true, time.Minute)
	s.isPutBack(first)
}

// checkTrust checks that every certificate is of an authority in the bundle, and belongs to its
// key.
func checkTrust(t *testing.T, content map[string][]byte, now time.Time) {
	t.Helper()
	trusted, err := pki.ParseBundle(content[database.AuthorityKey])
	if err != nil {
		t.Fatal(err)
	}
	for ordinal := range database.MaxReplicas {
		certificate, key := database.CertificateKeys(ordinal, false)
		pair, err := tls.X509KeyPair(content[certificate], content[key])
		if err != nil {
			t.Fatal(err)
		}
		options := verifyOptions(trusted, now)
		if _, err := pair.Leaf.Verify(options); err != nil {
			t.Errorf("instance %d: %v", ordinal, err)
		}
	}
}

func verifyOptions(trusted []*x509.Certificate, now time.Time) x509.VerifyOptions {
	return x509.VerifyOptions{
		Roots: pki.Pool(trusted), CurrentTime: now, DNSName: "db-rw.shop.svc", KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
}

// TestExtraCertificates: they are issued with those of the instances. One that is needed and
// missing lets all be issued anew, as by time: those of the instances are used meanwhile.
func TestExtraCertificates(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	without := &database.Database{Namespace: "shop", Name: "db"}
	old, _, err := Certificates(without, nil, now)
	if err != nil {
		t.Fatal(err)
	}
	extra := database.Extra{Key: "pooler", CommonName: "mainstay_pooler", Names: []string{"db-rw.shop.svc"}}
	d := &database.Database{Namespace: "shop", Name: "db", Extras: []database.Extra{extra}}
	if kept, _, err := Certificates(d, old, now); err != nil || !bytes.Equal(kept["0.crt"], old["0.crt"]) || len(kept) != len(old) {
		t.Errorf("one that nobody needs changes the others: %v", err)
	}
	d.Extras[0].IsNeeded = true
	published, _, err := Certificates(d, old, now)
	if err != nil || !bytes.Equal(published["0.crt"], old["0.crt"]) || database.HasExtra(published, "pooler") {
		t.Errorf("the next ones are used at once: %v", err)
	}
	used, _, err := Certificates(d, published, now.Add(11*time.Minute))
	if err != nil || !database.HasExtra(used, "pooler") {
		t.Fatalf("there is none: %v", err)
	}
	checkTrust(t, used, now.Add(11*time.Minute))
	if again, change, err := Certificates(d, used, now.Add(12*time.Minute)); err != nil || !bytes.Equal(again["0.crt"], used["0.crt"]) ||
		change.Before(now.Add(24*time.Hour)) {
		t.Errorf("they are issued again, or looked at soon, at %s: %v", change, err)
	}
	pair, err := tls.X509KeyPair(used["pooler.crt"], used["pooler.key"])
	if err != nil {
		t.Fatal(err)
	}
	if name := pair.Leaf.Subject.CommonName; name != "mainstay_pooler" {
		t.Errorf("it is for %s", name)
	}
}
