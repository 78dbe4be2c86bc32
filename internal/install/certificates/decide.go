package certificates

import (
	"crypto/x509"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-platform/mainstay/api"
)

// reason says why the Secret is to be written.
type reason string

const (
	// keep: the Secret is as it should be.
	keep reason = ""

	// The pair is replaced: there is none; or none that clients would accept, by what
	// parsePair says; or it is due; or somebody asked, with api.AnnotationRotate.
	missing   reason = "Missing"
	unusable  reason = "Unusable"
	expiring  reason = "Expiring"
	requested reason = "Requested"

	// bundle: the pair stays, older CAs are dropped, or added because a replica serves what they signed.
	bundle reason = "Bundle"
)

// observed is everything that a decision rests on.
type observed struct {
	// secret is nil where there is none. It is not changed.
	secret *corev1.Secret
	// vouched are the CAs that this replica gives out as trusted.
	vouched []*x509.Certificate
	now     time.Time
}

// decision says what to write.
type decision struct {
	reason reason
	// why explains unusable; nil otherwise.
	why error
	// names are those of the pair to make; nil means that the pair stays.
	names []string
	// trusted is the new bundle; where a pair is made, without its CA.
	trusted []*x509.Certificate
	// again is when time alone asks for another decision; where something is to be
	// written it is not set.
	again time.Time
}

// decide compares the Secret with what it should be.
//
//	the pair is   and since it was made   the bundle is to hold
//	to be made                            its CA, all that are in the bundle, all that are vouched for
//	kept          < Overlap/2             its CA, all that are in the bundle, all that are vouched for
//	kept          < Overlap               its CA, all that are in the bundle
//	kept          >= Overlap              its CA
//
// A replica may vouch for a CA that the bundle lacks: when the Secret was deleted and a replica that had just
// started made the new one. It may do so in the first half only, so that two
// replicas, of which one adds and the other drops, would have to differ by half an overlap in
// their clocks to quarrel.
func decide(o observed, options Options) decision {
	var existing corev1.Secret
	if o.secret != nil {
		existing = *o.secret
	}
	// Of a bundle that is damaged, what can be read is still trusted by somebody; that it is
	// damaged parsePair says too.
	older, _ := parseBundle(existing.Data[bundleKey])
	current, err := parsePair(existing.Data, options.Names, o.now)
	if reason := rotation(o, current, err); reason != keep {
		d := decision{reason: reason, names: wantedNames(existing.Data, options), trusted: unexpired(unite(older, o.vouched), o.now)}
		if reason == unusable {
			d.why = err
		}
		return d
	}
	trusted, again := overlapping(current, o, options.Overlap)
	if !slices.EqualFunc(trusted, older, (*x509.Certificate).Equal) {
		return decision{reason: bundle, trusted: trusted}
	}
	return decision{again: again}
}

// rotation tells why a new pair is needed; keep means that none is. The pair is nil where err
// says why the Secret holds none.
func rotation(o observed, current *pair, err error) reason {
	switch {
	case o.secret == nil:
		return missing
	case err != nil:
		return unusable
	case !o.now.Before(current.renewAt()):
		return expiring
	case isRequested(o.secret.Annotations):
		return requested
	default:
		return keep
	}
}

// isRequested: taking a request back is not a request.
func isRequested(annotations map[string]string) bool {
	request := annotations[api.AnnotationRotate]
	return request != "" && request != annotations[api.AnnotationRotated]
}

// wantedNames are ours and, where those are not enough, the present ones too: during an upgrade
// that changes names, old and new replicas must both be content, or each would undo
// the other's work. What is no longer needed is gone with the next rotation for another reason.
func wantedNames(data map[string][]byte, options Options) []string {
	names := slices.Clone(options.Names)
	present, err := parseBundle(data[certificateKey])
	if err != nil {
		return names
	}
	for _, name := range names {
		if present[0].VerifyHostname(name) != nil {
			names = append(names, present[0].DNSNames...)
			for _, address := range present[0].IPAddresses {
				names = append(names, address.String())
			}
			break
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// overlapping is the bundle that a pair should have, and when that changes by itself.
func overlapping(current *pair, o observed, overlap time.Duration) (trusted []*x509.Certificate, again time.Time) {
	trusted = []*x509.Certificate{current.ca}
	age := o.now.Sub(current.issuedAt())
	if age >= overlap {
		return trusted, current.renewAt()
	}
	trusted = unite(trusted, unexpired(current.trusted, o.now))
	if age < overlap/2 {
		trusted = unite(trusted, unexpired(o.vouched, o.now))
	}
	return trusted, earlier(current.issuedAt().Add(overlap), current.renewAt())
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// desired is the Secret after a decision, for Create or for Update. A new one has no resource
// version; an existing one keeps what is not ours. The new pair may be nil.
func desired(existing *corev1.Secret, d decision, pair *made, options Options) *corev1.Secret {
	secret := existing.DeepCopy()
	if secret == nil {
		secret = &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: options.Namespace, Name: options.Name, Labels: map[string]string{api.LabelManagedBy: api.ManagedBy},
			},
			Type: corev1.SecretTypeTLS,
		}
	}
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	trusted := d.trusted
	if pair != nil {
		secret.Data[certificateKey], secret.Data[privateKeyKey] = pair.certificate, pair.key
		trusted = unite([]*x509.Certificate{pair.ca}, trusted)
		if request := secret.Annotations[api.AnnotationRotate]; request != "" {
			secret.Annotations[api.AnnotationRotated] = request
		}
	}
	secret.Data[bundleKey] = encode(trusted)
	return secret
}
