package postgres

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// SecondLogin returns the name of a user's second role, which is used by turns with the first, so
// that a password can rotate. It contains a dot, which no user's name in a spec may, and has at
// most 63 bytes.
func SecondLogin(user string) string {
	const suffix, short, hashed = ".2", 52, 4
	if len(user)+len(suffix) <= maxIdentifier {
		return user + suffix
	}
	sum := sha256.Sum256([]byte(user))
	return strings.ToValidUTF8(user[:min(len(user), short)], "") + "." + hex.EncodeToString(sum[:hashed]) + suffix
}
