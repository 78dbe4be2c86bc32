package workload

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"hash"
	"maps"
	"slices"
	"strings"
)

// hashBytes is how much of a SHA-256 is kept: 96 bits, 16 characters. Who could find two contents with
// the same 96 bits would have kept their own pods from being restarted.
const hashBytes = 12

// HashKey is the hash of one value of a ConfigMap.
func HashKey(value []byte) string {
	sum := sha256.Sum256(value)
	return shorten(sum[:])
}

// HashAll is the hash of all data, made of the hashes of the single values by their keys. It is the same for equal
// data only: lengths are part of it.
func HashAll(keys map[string]string) string { return hashAll(sha256.New(), keys) }

func hashAll(sum hash.Hash, keys map[string]string) string {
	write := func(text string) {
		_ = binary.Write(sum, binary.BigEndian, uint64(len(text))) // a hash returns no error
		_, _ = sum.Write([]byte(text))
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		write(key)
		write(keys[key])
	}
	return shorten(sum.Sum(nil))
}

func shorten(sum []byte) string { return base64.RawURLEncoding.EncodeToString(sum[:hashBytes]) }

// Hasher hashes what is secret: a plain hash of a weak password could be guessed. What it gives bears the identity
// of its key, for what was hashed under another can't be compared.
type Hasher struct {
	id  string
	key []byte
}

// idLength is how many characters name a key.
const idLength = 4

// NewHasher hashes under a key of the installation.
func NewHasher(key []byte) Hasher {
	return Hasher{id: HashKey(key)[:idLength], key: key}
}

// For hashes under a key of one Secret's own. Who may write a Secret somewhere and look at hashes somewhere else could otherwise try out
// what another Secret holds.
func (h Hasher) For(namespace, name string) Hasher {
	derived := hmac.New(sha256.New, h.key)
	_, _ = derived.Write([]byte(namespace + "/" + name)) // neither may have a slash
	return Hasher{id: h.id, key: derived.Sum(nil)}
}

// HashKey is the hash of one value of a Secret: "aB3x:" and 16 characters.
func (h Hasher) HashKey(value []byte) string {
	sum := hmac.New(sha256.New, h.key)
	_, _ = sum.Write(value)
	return h.id + ":" + shorten(sum.Sum(nil))
}

// ID names the key.
func (h Hasher) ID() string { return h.id }

// keyOf is the identity of the key that a hash was made with; empty for one that was made without.
func keyOf(hash string) string {
	id, _, keyed := strings.Cut(hash, ":")
	if !keyed {
		return ""
	}
	return id
}

// sameKey tells whether two hashes can be: those of a lost key tell nothing.
func sameKey(a, b string) bool { return a == absent || b == absent || keyOf(a) == keyOf(b) }
