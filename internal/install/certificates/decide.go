package certificates

import (
	"crypto/x509"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-platform/mainstay/api"
	"github.com/mainstay-platform/mainstay/internal/kit/pki"
	"github.com/mainstay-platform/mainstay/internal/kit/requeue"
)

// reason is why the Secret is to be written.
type reason string

const (
	// keep: the Secret is as desired.
	keep reason = ""

	// The pair is replaced because it is missing, because clients would not accept it (see parsePair),
	// because it is due for renewal, or because api.AnnotationRotate requests it.
	missing   reason = "Missing"
	unusable  reason = "Unusable"
	expiring  reason = "Expiring"
	requested reason = "Requested"

	// bundle: the pair stays. Older CAs are dropped, or a CA is added because a replica serves a
	// certificate that it signed.
	bundle reason = "Bundle"
)

// observed is the input of decide.
type observed struct {
	// secret is nil if it does not exist. It must not be modified.
	secret *corev1.Secret
	// vouched are the CAs that this replica publishes as trusted.
	vouched []*x509.Certificate
	now     time.Time
}

// decision is what to write.
type decision struct {
	reason reason
	// why is the error behind the reason unusable; nil otherwise.
	why error
	// names are the names of the pair to make; nil means that the pair stays.
	names []string
	// trusted is the new bundle. If a pair is to be made, it lacks that pair's CA.
	trusted []*x509.Certificate
	// again is when to decide again without an event. It is not set if something is to be written.
	again time.Time
}

// decide compares the Secret with the desired state.
//
//	the pair is   and since it was made   the bundle must have
//	to be made                            its CA, all that are in the bundle, all that are vouched for
//	kept          < Overlap/2             its CA, all that are in the bundle, all that are vouched for
//	kept          < Overlap               its CA, all that are in the bundle
//	kept          >= Overlap              its CA
//
// A replica may vouch for a CA that the bundle lacks: the Secret was deleted, and a replica that
// had just started made the new one. Only the first half of the overlap allows that. So the clocks
// of two replicas must differ by half an overlap before one adds what the other drops.
func decide(o observed, options Options) decision {
	var existing corev1.Secret
	if o.secret != nil {
		existing = *o.secret
	}
	// A damaged bundle still has CAs that clients trust: keep the readable ones. parsePair reports the
	// damage.
	older, _ := pki.ParseBundle(existing.Data[bundleKey])
	current, err := parsePair(existing.Data, options.Names, o.now)
	if reason := rotation(o, current, err); reason != keep {
		d := decision{reason: reason, names: wantedNames(existing.Data, options), trusted: pki.Unexpired(pki.Unite(older, o.vouched), o.now)}
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

// rotation returns why a new pair is needed, or keep. The pair is nil if err says why the Secret
// has no usable one.
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

// isRequested reports whether a rotation is requested and not done. Removing the annotation is no
// request.
func isRequested(annotations map[string]string) bool {
	request := annotations[api.AnnotationRotate]
	return request != "" && request != annotations[api.AnnotationRotated]
}

// wantedNames returns our names, and also the present ones if ours are not all covered. During an
// upgrade that changes names, old and new replicas must both accept the pair, or each would undo
// the other's write. The next rotation for another reason drops the names that are no longer
// needed.
func wantedNames(data map[string][]byte, options Options) []string {
	names := slices.Clone(options.Names)
	present, err := pki.ParseBundle(data[certificateKey])
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

// overlapping returns the bundle that a pair should have, and when that changes without an event.
func overlapping(current *pair, o observed, overlap time.Duration) (trusted []*x509.Certificate, again time.Time) {
	trusted = []*x509.Certificate{current.ca}
	age := o.now.Sub(current.issuedAt())
	if age >= overlap {
		return trusted, current.renewAt()
	}
	trusted = pki.Unite(trusted, pki.Unexpired(current.trusted, o.now))
	if age < overlap/2 {
		trusted = pki.Unite(trusted, pki.Unexpired(o.vouched, o.now))
	}
	return trusted, requeue.Earlier(current.issuedAt().Add(overlap), current.renewAt())
}

// desired returns the Secret after a decision, for Create or Update. A new Secret has no resource
// version. An existing one keeps the data and metadata that are not ours. The new pair may be nil.
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
		secret.Data[certificateKey], secret.Data[privateKeyKey] = pair.Certificate, pair.Key
		trusted = pki.Unite([]*x509.Certificate{pair.ca}, trusted)
		if request := secret.Annotations[api.AnnotationRotate]; request != "" {
			secret.Annotations[api.AnnotationRotated] = request
		}
	}
	secret.Data[bundleKey] = pki.Encode(trusted)
	return secret
}
