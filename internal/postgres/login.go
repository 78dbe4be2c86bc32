package postgres

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// SecondLogin returns the name of the role that takes turns with the role of a user. It has a dot,
// which no user of a spec has, and at most 63 bytes.
func SecondLogin(user string) string {
	const suffix, short, hashed = ".2", 52, 4
	if len(user)+len(suffix) <= maxIdentifier {
		return user + suffix
	}
	sum := sha256.Sum256([]byte(user))
	return strings.ToValidUTF8(user[:min(len(user), short)], "") + "." + hex.EncodeToString(sum[:hashed]) + suffix
}
