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

// hashBytes is the length of the kept part of a SHA-256: 96 bits, 16 characters. A user who finds
// two contents with the same 96 bits only keeps their own pods from being restarted.
const hashBytes = 12

// HashKey returns the hash of one value of a ConfigMap.
func HashKey(value []byte) string {
	sum := sha256.Sum256(value)
	return shorten(sum[:])
}

// pieceBytes is how much of a text is copied at once to be hashed.
const pieceBytes = 32 << 10

// HashText is HashKey of a text. It copies a long one in pieces: a manager that starts hashes all
// ConfigMaps, and copies of values of a megabyte would be garbage of hundreds of megabytes.
func HashText(value string) string {
	if len(value) <= pieceBytes {
		return HashKey([]byte(value))
	}
	sum, piece := sha256.New(), make([]byte, pieceBytes)
	for value != "" {
		length := copy(piece, value)
		_, _ = sum.Write(piece[:length]) // a hash returns no error
		value = value[length:]
	}
	return shorten(sum.Sum(nil))
}

// HashAll returns the hash of all data, computed from the hashes of the values and their keys. It
// includes lengths, so that different data can't be joined to the same input.
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

// Hasher hashes secret values: a plain hash of a weak password could be guessed. A hash includes
// the identity of the key, because hashes under different keys can't be compared.
type Hasher struct {
	id  string
	key []byte
}

// idLength is the number of characters that identify a key.
const idLength = 4

// NewHasher returns a Hasher with a key of the installation.
func NewHasher(key []byte) Hasher {
	return Hasher{id: HashKey(key)[:idLength], key: key}
}

// For returns a Hasher with a key derived for one Secret. Otherwise a user who can write one Secret
// and see its hashes could guess the content of another.
func (h Hasher) For(namespace, name string) Hasher {
	derived := hmac.New(sha256.New, h.key)
	_, _ = derived.Write([]byte(namespace + "/" + name)) // neither may have a slash
	return Hasher{id: h.id, key: derived.Sum(nil)}
}

// HashKey returns the hash of one value of a Secret: "aB3x:" and 16 characters.
func (h Hasher) HashKey(value []byte) string {
	sum := hmac.New(sha256.New, h.key)
	_, _ = sum.Write(value)
	return h.id + ":" + shorten(sum.Sum(nil))
}

// ID returns the identity of the key.
func (h Hasher) ID() string { return h.id }

// keyOf returns the identity of the key of a hash; empty for a hash without key.
func keyOf(hash string) string {
	id, _, keyed := strings.Cut(hash, ":")
	if !keyed {
		return ""
	}
	return id
}

// sameKey reports whether two hashes can be compared: those of a lost key can't.
func sameKey(a, b string) bool { return a == absent || b == absent || keyOf(a) == keyOf(b) }
