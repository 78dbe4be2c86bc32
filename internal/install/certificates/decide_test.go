package certificates

import (
	"bytes"
	"crypto/x509"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/mainstay-platform/mainstay/internal/kit/pki"
)

var options = Options{Namespace: "mainstay-system", Name: "mainstay-serving", Names: []string{host}, Lifetime: 3 * month}.withDefaults()

func secretWith(data map[string][]byte, annotations ...string) *corev1.Secret {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "mainstay-system", Name: "mainstay-serving"}, Data: data}
	for i := 0; i < len(annotations); i += 2 {
		metav1.SetMetaDataAnnotation(&secret.ObjectMeta, annotations[i], annotations[i+1])
	}
	return secret
}

// TestDecideToRotate: the pair was made at start. Each rule has a case that triggers it and a near
// one that does not.
func TestDecideToRotate(t *testing.T) {
	data, foreign := newData(t, start, []string{host}), newData(t, start, []string{host})
	for name, test := range map[string]struct {
		secret *corev1.Secret
		after  time.Duration
		want   reason
	}{
		"a good pair":                    {secretWith(data), 0, ""},
		"no Secret":                      {nil, 0, "Missing"},
		"an empty Secret":                {secretWith(nil), 0, "Unusable"},
		"an unreadable certificate":      {secretWith(with(data, "tls.crt", []byte("x"))), 0, "Unusable"},
		"the key of another":             {secretWith(with(data, "tls.key", foreign["tls.key"])), 0, "Unusable"},
		"the CA of another":              {secretWith(with(data, "ca.crt", foreign["ca.crt"])), 0, "Unusable"},
		"another name":                   {secretWith(newData(t, start, []string{other})), 0, "Unusable"},
		"one name more":                  {secretWith(newData(t, start, []string{host, other})), 0, ""},
		"before two thirds of its life":  {secretWith(data), 2*month - time.Second, ""},
		"after two thirds of its life":   {secretWith(data), 2 * month, "Expiring"},
		"after its life":                 {secretWith(data), 4 * month, "Unusable"},
		"a request":                      {secretWith(data, "mainstay.dev/rotate", "now-1"), 0, "Requested"},
		"a request that was carried out": {secretWith(data, "mainstay.dev/rotate", "now-1", "mainstay.dev/rotated", "now-1"), 0, ""},
		"a second request": {secretWith(data, "mainstay.dev/rotate", "now-2", "mainstay.dev/rotated", "now-1"), 0,
			"Requested"},
		"a request that was taken back":         {secretWith(data, "mainstay.dev/rotated", "now-1"), 0, ""},
		"a clock that is behind that of others": {secretWith(data), -30 * time.Minute, ""},
	} {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakeClock(start)
			clock.Step(test.after)
			d := decide(observed{secret: test.secret, now: clock.Now()}, options)
			if d.reason != test.want {
				t.Errorf("got %q (%v)", d.reason, d.why)
			}
			if (d.names != nil) != (test.want != "") || (d.why != nil) != (test.want == "Unusable") {
				t.Errorf("got names %q, why %v", d.names, d.why)
			}
		})
	}
}

// TestDecideBundle: a is older than b. The Secret has b, made at start.
func TestDecideBundle(t *testing.T) {
	a, expired := newPair(t, start.Add(-month)), newPair(t, start.Add(-3*month+time.Minute))
	alone, both := newData(t, start, []string{host}), newData(t, start, []string{host}, a.ca)
	late := newData(t, start, []string{host}, expired.ca)
	for name, test := range map[string]struct {
		data    map[string][]byte
		vouched []*x509.Certificate
		after   time.Duration
		write   bool
		older   []*x509.Certificate
		again   time.Duration
	}{
		"the older CA stays for the overlap":      {data: both, after: 59 * time.Minute, again: time.Hour},
		"the older CA goes after it":              {data: both, after: time.Hour, write: true},
		"with nothing older, the renewal is next": {data: alone, after: time.Hour, again: 2 * month},
		"what is vouched for at first is added": {data: alone, vouched: []*x509.Certificate{a.ca}, after: 29 * time.Minute, write: true,
			older: []*x509.Certificate{a.ca}},
		"what is vouched for late is not": {data: alone, vouched: []*x509.Certificate{a.ca}, after: 30 * time.Minute,
			again: time.Hour},
		"what is there already is not added": {data: both, vouched: []*x509.Certificate{a.ca}, after: time.Minute, again: time.Hour},
		"what has expired goes at once":      {data: late, after: 2 * time.Minute, write: true},
		"what will expire stays":             {data: late, again: time.Hour},
		"what has expired can't be vouched for": {data: alone, vouched: []*x509.Certificate{expired.ca}, after: 2 * time.Minute,
			again: time.Hour},
		"our CA comes first": {data: with(alone, "ca.crt",
			append(pki.Encode([]*x509.Certificate{a.ca}), alone["ca.crt"]...)), write: true, older: []*x509.Certificate{a.ca}},
		"a CA that stands there twice does not matter": {data: with(alone, "ca.crt", append(bytes.Clone(alone["ca.crt"]), alone["ca.crt"]...)),
			again: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakeClock(start)
			clock.Step(test.after)
			secret := secretWith(test.data)
			d := decide(observed{secret: secret, vouched: test.vouched, now: clock.Now()}, options)
			if !test.write {
				if d.reason != keep || !d.again.Equal(start.Add(test.again)) {
					t.Errorf("got %q, again at %s", d.reason, d.again)
				}
				return
			}
			if d.reason != bundle || d.names != nil {
				t.Fatalf("got %q", d.reason)
			}
			p, err := parsePair(test.data, nil, start)
			if err != nil {
				t.Fatal(err)
			}
			written := desired(secret, d, nil, options)
			want := with(test.data, "ca.crt", pki.Encode(pki.Unite([]*x509.Certificate{p.ca}, test.older)))
			if diff := cmp.Diff(want, written.Data); diff != "" {
				t.Error(diff)
			}
			// The decision must be stable: after the write there is nothing to do.
			if again := decide(observed{secret: written, vouched: test.vouched, now: clock.Now()}, options); again.reason != keep {
				t.Errorf("and then %q", again.reason)
			}
		})
	}
}

// TestRotationKeepsOlderCAs: those in the Secret, even in an unusable one, and those that are
// vouched for.
func TestRotationKeepsOlderCAs(t *testing.T) {
	a, b, expired := newPair(t, start), newPair(t, start), newPair(t, start.Add(-4*month))
	data := newData(t, start, []string{host}, a.ca, expired.ca)
	current, err := parsePair(data, nil, start)
	if err != nil {
		t.Fatal(err)
	}
	damaged := with(data, "ca.crt", append(bytes.Clone(data["ca.crt"]), "-----BEGIN X-----\n-----END X-----\n"...))
	for name, test := range map[string]struct {
		secret *corev1.Secret
		want   []*x509.Certificate
	}{
		"no Secret":        {nil, []*x509.Certificate{b.ca}},
		"a request":        {secretWith(data, "mainstay.dev/rotate", "x"), []*x509.Certificate{current.ca, a.ca, b.ca}},
		"a damaged bundle": {secretWith(damaged), []*x509.Certificate{current.ca, a.ca, b.ca}},
		"no key":           {secretWith(with(data, "tls.key", nil)), []*x509.Certificate{current.ca, a.ca, b.ca}},
	} {
		t.Run(name, func(t *testing.T) {
			d := decide(observed{secret: test.secret, vouched: []*x509.Certificate{b.ca}, now: start}, options)
			pair, err := issue(d.names, start, options.Lifetime)
			if err != nil {
				t.Fatal(err)
			}
			written := desired(test.secret, d, pair, options)
			got, err := pki.ParseBundle(written.Data["ca.crt"])
			if err != nil {
				t.Fatal(err)
			}
			if !slices.EqualFunc(got, append([]*x509.Certificate{pair.ca}, test.want...), (*x509.Certificate).Equal) {
				t.Errorf("got %d certificates, want ours and %d older", len(got), len(test.want))
			}
			if again := decide(observed{secret: written, vouched: got, now: start}, options); again.reason != keep {
				t.Errorf("and then %q (%v)", again.reason, again.why)
			}
		})
	}
}

func TestWantedNames(t *testing.T) {
	for name, test := range map[string]struct {
		present, want []string
	}{
		"nothing there":                        {nil, []string{host}},
		"names of another release are united":  {[]string{other}, []string{host, other}},
		"names that are enough are not needed": {[]string{host, other}, []string{host}},
	} {
		t.Run(name, func(t *testing.T) {
			var data map[string][]byte
			if test.present != nil {
				data = newData(t, start, test.present)
			}
			if diff := cmp.Diff(test.want, wantedNames(data, options)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDesired(t *testing.T) {
	pair := &made{Issued: pki.Issued{Certificate: []byte("certificate"), Key: []byte("key")}, ca: newPair(t, start).ca}
	t.Run("a new Secret", func(t *testing.T) {
		got := desired(nil, decision{reason: missing}, pair, options)
		want := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "mainstay-system", Name: "mainstay-serving", Labels: map[string]string{"app.kubernetes.io/managed-by": "mainstay"},
			},
			Type: "kubernetes.io/tls",
			Data: map[string][]byte{"tls.crt": []byte("certificate"), "tls.key": []byte("key"), "ca.crt": pki.Encode([]*x509.Certificate{pair.ca})},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("one that is there keeps what is not ours", func(t *testing.T) {
		before := secretWith(map[string][]byte{"note": []byte("mine")}, "mainstay.dev/rotate", "now-1", "team", "web")
		before.ResourceVersion = "7"
		got := desired(before, decision{reason: requested}, pair, options)
		if got.ResourceVersion != "7" || string(got.Data["note"]) != "mine" || string(got.Data["tls.key"]) != "key" {
			t.Errorf("got %v", got.ObjectMeta)
		}
		want := map[string]string{"mainstay.dev/rotate": "now-1", "mainstay.dev/rotated": "now-1", "team": "web"}
		if diff := cmp.Diff(want, got.Annotations); diff != "" {
			t.Error(diff)
		}
		if len(before.Data) != 1 || before.Annotations["mainstay.dev/rotated"] != "" {
			t.Error("the Secret of the store was changed")
		}
	})
}
