package database

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/contract"
)

// The certificates of all instances are in one Secret, which only their pods mount. Its keys are
// ca.crt, N.crt and N.key for the instance N, and next-N.crt and next-N.key while a rotation waits
// until all instances trust the next authority.
const (
	// AuthorityKey is the key of the authorities that are trusted.
	AuthorityKey = "ca.crt"
	nextPrefix   = "next-"
)

// Lifetimes of certificates.
const (
	// CertificateLifetime is for how long certificates are valid, and renewAfter when they are
	// replaced. A database whose object is paused, or whose Mainstay was uninstalled, gets no
	// others: once they have expired, no instance connects to another. So they last much longer than
	// they are used.
	CertificateLifetime = 365 * 24 * time.Hour
	renewAfter          = 60 * 24 * time.Hour
	// trustAfter is how long a new authority is published before certificates of it are used. The
	// kubelet takes up to two minutes to write a changed Secret into pods.
	trustAfter = 10 * time.Minute
)

// Extra is a certificate beside those of the instances, such as a pooler's. Its keys of the Secret
// are NAME.crt and NAME.key.
type Extra struct {
	Key, CommonName string
	// Names are those for which it is valid as a server's.
	Names []string
	// IsNeeded is true if something waits for it. One that is missing is issued with all others: its
	// authority has signed them, and is gone.
	IsNeeded bool
}

// ExtraKeys returns the keys of the Secret for an extra certificate.
func ExtraKeys(key string, next bool) (certificate, private string) {
	prefix := ""
	if next {
		prefix = nextPrefix
	}
	return prefix + key + ".crt", prefix + key + ".key"
}

// CertificateStep is what is to be done about the certificates.
type CertificateStep int

// The steps.
const (
	// KeepCertificates: nothing.
	KeepCertificates CertificateStep = iota
	// IssueCertificates: there are none that can be used. They are issued and used at once.
	IssueCertificates
	// PublishAuthority: they are old. New ones are issued, their authority is trusted from now on,
	// and they are kept beside the present ones.
	PublishAuthority
	// UseNext: the authority of the next ones is trusted everywhere. They replace the present ones.
	UseNext
)

// NextCertificateStep decides about the content of the Secret, and returns when the decision may
// change with time alone:
//
//	the certificates                                         step
//	one is missing, can't be read, or has expired            IssueCertificates
//	there are more authorities than rotations can leave      IssueCertificates
//	there are next ones, issued ten minutes ago              UseNext
//	there are next ones                                      KeepCertificates
//	they are 60 days old                                     PublishAuthority
//	an extra one is needed and missing                       PublishAuthority
//	otherwise                                                KeepCertificates
func NextCertificateStep(content map[string][]byte, extras []Extra, now time.Time) (CertificateStep, time.Time) {
	from, until, whole := validity(content, "")
	if !whole || len(Authorities(content)) == 0 || now.After(until) {
		return IssueCertificates, now
	}
	if nextFrom, _, isThere := validity(content, nextPrefix); isThere {
		if use := nextFrom.Add(trustAfter); now.Before(use) {
			return KeepCertificates, use
		}
		return UseNext, now
	}
	if renew := from.Add(renewAfter); now.Before(renew) && !slices.ContainsFunc(extras, func(e Extra) bool {
		return e.IsNeeded && !HasExtra(content, e.Key)
	}) {
		return KeepCertificates, renew
	}
	return PublishAuthority, now
}

// MaxAuthorities is the length of the longest bundle of authorities that counts, in bytes: some
// fifty, where six rotations a year leave seven. The bundle is copied into the Secret of each user,
// so a longer one that somebody writes into the Secret would cost a thousand times its length.
const MaxAuthorities = 32 << 10

// Authorities returns the authorities that are trusted; nil if there are none, or more than counts.
func Authorities(content map[string][]byte) []byte {
	if len(content[AuthorityKey]) > MaxAuthorities {
		return nil
	}
	return content[AuthorityKey]
}

// HasExtra reports whether there is an extra certificate.
func HasExtra(content map[string][]byte, key string) bool {
	certificate, private := ExtraKeys(key, false)
	return len(content[certificate]) > 0 && len(content[private]) > 0
}

// validity returns from when, and until when, the certificates of all instances are valid; false if
// one of them is missing or can't be read.
func validity(content map[string][]byte, prefix string) (from, until time.Time, whole bool) {
	for ordinal := range MaxReplicas {
		block, _ := pem.Decode(content[fmt.Sprintf("%s%d.crt", prefix, ordinal)])
		if block == nil || len(content[fmt.Sprintf("%s%d.key", prefix, ordinal)]) == 0 {
			return time.Time{}, time.Time{}, false
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return time.Time{}, time.Time{}, false
		}
		if ordinal == 0 {
			from, until = certificate.NotBefore.Add(backdate), certificate.NotAfter
		}
	}
	return from, until, true
}

// backdate is how long before their issue certificates begin to be valid: pki.Backdate.
const backdate = time.Hour

// Promoted returns the content with the next certificates in the place of the present ones.
func Promoted(content map[string][]byte) map[string][]byte {
	promoted := maps.Clone(content)
	for key, value := range content {
		if name, isNext := strings.CutPrefix(key, nextPrefix); isNext {
			promoted[name] = value
			delete(promoted, key)
		}
	}
	return promoted
}

// CertificateKeys returns the keys of the Secret for an instance; next is true for those of a
// rotation that waits.
func CertificateKeys(ordinal int, next bool) (certificate, key string) {
	prefix := ""
	if next {
		prefix = nextPrefix
	}
	return fmt.Sprintf("%s%d.crt", prefix, ordinal), fmt.Sprintf("%s%d.key", prefix, ordinal)
}

// certificatePrefix is before the pod's name in the common name of an instance's certificate:
// peers.CertificatePrefix, which a package that does no I/O does not import.
const certificatePrefix = "mainstay:"

// CommonName is that of an instance's certificate: what other instances let replicate.
func (d *Database) CommonName(ordinal int) string {
	return certificatePrefix + PodName(d.Name, ordinal)
}

// CertificateNames are the names for which the certificate of an instance is valid: its own, and
// those of the Services by which clients reach it.
func (d *Database) CertificateNames(ordinal int) []string {
	pod := PodName(d.Name, ordinal)
	names := []string{pod, contract.Host(pod, d.Name, d.Namespace), "localhost"}
	for _, service := range []string{contract.WriteServiceName(d.Name), ReplicasName(d.Name), AllName(d.Name)} {
		names = append(names, service, service+"."+d.Namespace, service+"."+d.Namespace+".svc")
	}
	return names
}
