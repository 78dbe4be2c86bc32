package postgresqlcontroller

import (
	"crypto/x509"
	"fmt"
	"maps"
	"time"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/postgresql"
	"github.com/mainstay-platform/mainstay/internal/kit/pki"
)

// certificates returns the content that the Secret is to have, given what it has, and when to look
// again. What is issued and then not written is forgotten.
func certificates(db *databasev1.PostgreSQL, stored map[string][]byte, now time.Time) (map[string][]byte, time.Time, error) {
	step, change := postgresql.NextCertificateStep(stored, now)
	switch step {
	case postgresql.IssueCertificates, postgresql.PublishAuthority:
		issued, err := issue(db, stored, now, step == postgresql.PublishAuthority)
		if err != nil {
			return nil, time.Time{}, err
		}
		_, change = postgresql.NextCertificateStep(issued, now)
		return issued, change, nil
	case postgresql.UseNext:
		promoted := postgresql.Promoted(stored)
		_, change = postgresql.NextCertificateStep(promoted, now)
		return promoted, change, nil
	case postgresql.KeepCertificates:
	}
	return stored, change, nil
}

// issue returns the content with new certificates: as the next ones beside the present ones, or in
// their place. Authorities that were trusted still are, until they expire.
func issue(db *databasev1.PostgreSQL, stored map[string][]byte, now time.Time, next bool) (map[string][]byte, error) {
	var requests []pki.Request
	for ordinal := range postgresql.MaxReplicas {
		requests = append(requests, pki.Request{
			CommonName: postgresql.CommonName(db, ordinal), Names: postgresql.CertificateNames(db, ordinal),
			Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		})
	}
	authority, issued, err := pki.Issue(now, postgresql.CertificateLifetime, requests...)
	if err != nil {
		return nil, fmt.Errorf("issuing the certificates of %s/%s: %w", db.Namespace, db.Name, err)
	}
	content := map[string][]byte{}
	if next {
		content = maps.Clone(stored)
	}
	for ordinal, one := range issued {
		certificate, key := postgresql.CertificateKeys(ordinal, next)
		content[certificate], content[key] = one.Certificate, one.Key
	}
	content[postgresql.AuthorityKey] = pki.UniteBundles(now, stored[postgresql.AuthorityKey], pki.Encode([]*x509.Certificate{authority}))
	return content, nil
}
