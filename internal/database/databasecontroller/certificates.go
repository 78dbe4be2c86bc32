package databasecontroller

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"

	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/kit/pki"
)

// Certificates returns the content that the Secret is to have, given what it has, and when to look
// again. What is issued and then not written is forgotten.
func Certificates(d *database.Database, stored map[string][]byte, now time.Time) (map[string][]byte, time.Time, error) {
	step, change := database.NextCertificateStep(stored, d.Extras, now)
	switch step {
	case database.IssueCertificates, database.PublishAuthority:
		issued, err := issue(d, stored, now, step == database.PublishAuthority)
		if err != nil {
			return nil, time.Time{}, err
		}
		_, change = database.NextCertificateStep(issued, d.Extras, now)
		return issued, change, nil
	case database.UseNext:
		promoted := database.Promoted(stored)
		_, change = database.NextCertificateStep(promoted, d.Extras, now)
		return promoted, change, nil
	case database.KeepCertificates:
	}
	return stored, change, nil
}

// Limits of what Issued remembers: so many databases, with so many bytes each. Ours have some
// 20 kB; others can write more into the Secret.
const (
	maxIssued     = 100
	maxRemembered = 64 << 10
)

// Issued are the certificates that databases had last, or that were issued last for them. Others
// may spoil their Secret again and again. It is put back with the same content then, and so with
// the pauses of what is contested: new certificates each time would be a new content, also for the
// ConfigMap of the authorities, whose change causes the next pass. It is lost with the process.
//
// The same holds for a Secret that can't be written at all, because it is another's, immutable, or
// refused by a policy.
type Issued struct{ last, next *lru.Cache }

// nextIssued is the content that was issued for one that was stored, and when.
type nextIssued struct {
	stored, content map[string][]byte
	at              time.Time
}

// nextFor is for how long it is issued. Its certificates are used ten minutes after they were made,
// so they must be stored soon after.
const nextFor = time.Minute

// NewIssued returns an Issued that knows of none.
func NewIssued() *Issued { return &Issued{lru.New(maxIssued), lru.New(maxIssued)} }

// storedSecret is the content of a Secret, if it is there. That of another owner is there, without
// content.
type storedSecret struct {
	content map[string][]byte
	isThere bool
}

// certificates is Certificates for a database with a UID. A Secret that was deleted gets new ones.
func (i *Issued) certificates(
	uid types.UID, d *database.Database, stored storedSecret, now time.Time,
) (map[string][]byte, time.Time, error) {
	step, _ := database.NextCertificateStep(stored.content, d.Extras, now)
	if i == nil {
		return Certificates(d, stored.content, now)
	}
	if last, known := i.last.Get(uid); known && stored.isThere && step == database.IssueCertificates {
		before := last.(map[string][]byte)
		if step, change := database.NextCertificateStep(before, d.Extras, now); step == database.KeepCertificates {
			return maps.Clone(before), change, nil
		}
	}
	if next, known := i.next.Get(uid); known && step == database.PublishAuthority {
		issued := next.(nextIssued)
		step, change := database.NextCertificateStep(issued.content, d.Extras, now)
		isSame := maps.EqualFunc(issued.stored, stored.content, bytes.Equal)
		if isSame && step == database.KeepCertificates && now.Sub(issued.at) < nextFor {
			return maps.Clone(issued.content), change, nil
		}
	}
	content, change, err := Certificates(d, stored.content, now)
	if err != nil || size(content) > maxRemembered {
		return content, change, err
	}
	switch step {
	case database.IssueCertificates, database.KeepCertificates:
		i.last.Add(uid, maps.Clone(content))
	case database.PublishAuthority:
		if size(stored.content) <= maxRemembered {
			i.next.Add(uid, nextIssued{maps.Clone(stored.content), maps.Clone(content), now})
		}
	case database.UseNext: // remembered once it is stored
	}
	return content, change, nil
}

// size returns the number of bytes of a content.
func size(content map[string][]byte) int {
	total := 0
	for key, value := range content {
		total += len(key) + len(value)
	}
	return total
}

// issue returns the content with new certificates: as the next ones beside the present ones, or in
// their place. Authorities that were trusted still are, until they expire or are too many.
func issue(d *database.Database, stored map[string][]byte, now time.Time, next bool) (map[string][]byte, error) {
	var requests []pki.Request
	for ordinal := range database.MaxReplicas {
		requests = append(requests, pki.Request{
			CommonName: d.CommonName(ordinal), Names: d.CertificateNames(ordinal),
			Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		})
	}
	for _, extra := range d.Extras {
		requests = append(requests, pki.Request{
			CommonName: extra.CommonName, Names: extra.Names, Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		})
	}
	authority, issued, err := pki.Issue(now, database.CertificateLifetime, requests...)
	if err != nil {
		return nil, fmt.Errorf("issuing the certificates of %s/%s: %w", d.Namespace, d.Name, err)
	}
	content := map[string][]byte{}
	if next {
		content = maps.Clone(stored)
	}
	for i, one := range issued {
		certificate, key := database.CertificateKeys(i, next)
		if i >= database.MaxReplicas {
			certificate, key = database.ExtraKeys(d.Extras[i-database.MaxReplicas].Key, next)
		}
		content[certificate], content[key] = one.Certificate, one.Key
	}
	content[database.AuthorityKey] = authorities(stored, pki.Encode([]*x509.Certificate{authority}), now)
	return content, nil
}

// authorities returns those that are trusted and a further one, the newest first. The oldest ones
// are left out that would make the bundle longer than counts: it would be replaced as a whole, and
// with it all certificates at once.
func authorities(stored map[string][]byte, further []byte, now time.Time) []byte {
	former := pki.UniteBundles(now, database.Authorities(stored))
	for len(former)+len(further) > database.MaxAuthorities {
		former = former[:bytes.LastIndex(former, []byte("-----BEGIN "))]
	}
	return pki.UniteBundles(now, former, further)
}
