package valkey

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// Application is the user with which an application connects. Previous is a former password that is
// still accepted while clients change to the new one; "" means none. It may be shorter than a
// password: earlier releases accepted such.
type Application struct{ User, Password, Previous string }

const onlyASCII = "must have letters, digits and signs of ASCII only, and no line break at its end"

// Limits of the names and passwords of applications, in bytes.
const (
	maxUser          = 63
	ShortestPassword = 8
	LongestPassword  = 256
)

// IsPassword reports whether a text may be the password of an application: from ShortestPassword to
// LongestPassword printable characters of ASCII, without spaces.
func IsPassword(text string) bool {
	return len(text) >= ShortestPassword && len(text) <= LongestPassword &&
		!strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
}

// Check returns an error that says which part can't be used, and why. It does not contain a
// password.
func (a Application) Check() error {
	switch {
	case a.User == "" || len(a.User) > maxUser:
		return fmt.Errorf("username: Invalid value: %.80q: must have 1 to %d bytes", a.User, maxUser)
	case strings.ContainsFunc(a.User, func(r rune) bool { return r <= ' ' || r > '~' }):
		return fmt.Errorf("username: Invalid value: %.80q: %s", a.User, onlyASCII)
	case a.User == "default" || a.User == Administrator || strings.HasPrefix(a.User, Administrator+"-"):
		return fmt.Errorf("username: Invalid value: %.80q: is the server's or Mainstay's own: choose another name", a.User)
	case a.Password == "":
		return errors.New("password: Required value")
	case !IsPassword(a.Password):
		return fmt.Errorf("password: must have from %d to %d printable ASCII characters without spaces and line breaks",
			ShortestPassword, LongestPassword)
	}
	return CheckPrevious(a.Previous)
}

// CheckPrevious returns an error that says why a text can't be Application.Previous. It does not
// contain the text.
func CheckPrevious(text string) error {
	switch {
	case len(text) > LongestPassword:
		return fmt.Errorf("password.previous: Too long: may not be more than %d bytes", LongestPassword)
	case strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }):
		return fmt.Errorf("password.previous: %s", onlyASCII)
	}
	return nil
}

// Hash returns the hash that the server stores and accepts in place of a password, so that the
// password itself is in no command, log or file.
func Hash(password string) string {
	sum := sha256.Sum256([]byte(password))
	return hex.EncodeToString(sum[:])
}

// forbidden are the commands that an application may not use: with them it could change which
// server leads, end the server, read what is not its own, or make the server connect to others.
// Most are also in the category admin, but that may change with a version.
var forbidden = []string{
	"@admin", "acl", "config", "debug", "module", "replicaof", "slaveof", "shutdown", "failover", "cluster", "psync", "sync", "replconf",
	"monitor", "save", "bgsave", "bgrewriteaof", "migrate", "restore-asking", "pfdebug", "pfselftest",
}

// Rules returns the arguments of ACL SETUSER for the application. They replace all earlier rules of
// the user.
func (a Application) Rules() []string {
	rules := []string{"reset", "on", "#" + Hash(a.Password)}
	if a.Previous != "" && a.Previous != a.Password {
		rules = append(rules, "#"+Hash(a.Previous))
	}
	rules = append(rules, "~*", "&*", "+@all")
	for _, command := range forbidden {
		rules = append(rules, "-"+command)
	}
	return append(rules, "+acl|whoami")
}
