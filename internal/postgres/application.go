package postgres

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Application is the role with which an application connects, and the database that the role owns.
type Application struct {
	User, Password, Database string
	// Initialise is true if the user's first statements are to be executed in the database when it is
	// created.
	Initialise bool
}

// Limits in bytes: the server's for names, and ours for passwords.
const (
	maxIdentifier    = 63
	maxPasswordBytes = 256
)

// Check returns an error that says which of the three values can't be used, and why. It does not
// contain the password.
func (a Application) Check() error {
	if err := CheckUser(a.User); err != nil {
		return fmt.Errorf("username: Invalid value: %.80q: %w", a.User, err)
	}
	if err := CheckDatabase(a.Database); err != nil {
		return fmt.Errorf("dbname: Invalid value: %.80q: %w", a.Database, err)
	}
	return CheckPassword(a.Password)
}

// CheckPassword returns why a password can't be used; nil if it can. The error does not contain it.
func CheckPassword(password string) error {
	switch {
	case password == "":
		return errors.New("password: Required value")
	case len(password) > maxPasswordBytes:
		return fmt.Errorf("password: Too long: may not be more than %d bytes", maxPasswordBytes)
	case strings.ContainsFunc(password, func(r rune) bool { return r < ' ' || r > '~' }):
		// Other characters are normalised before they are hashed, by each client in its own way.
		return errors.New("password: must have letters, digits and signs of ASCII only, and no line break at its end")
	}
	return nil
}

// CheckUser returns why a user's role can't have this name; nil if it can. pgbouncer is the name of
// a pooler's administrator.
func CheckUser(name string) error { return checkName(name, "public", "none", "pgbouncer") }

// CheckDatabase returns why a database can't have this name; nil if it can. pgbouncer is the name
// of a pooler's console.
func CheckDatabase(name string) error { return checkName(name, "template0", "template1", "pgbouncer") }

func checkName(name string, reserved ...string) error {
	switch {
	case name == "" || len(name) > maxIdentifier:
		return fmt.Errorf("must have 1 to %d bytes", maxIdentifier)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return errors.New("must be UTF-8 without control characters, such as a line break at its end")
	case name == "postgres" || slices.Contains(reserved, name) || strings.HasPrefix(name, "pg_") || strings.HasPrefix(name, "mainstay_"):
		return errors.New("is the server's or Mainstay's own: choose another name")
	}
	return nil
}

// QuoteName quotes an identifier for SQL.
func QuoteName(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// The parts of a verifier (RFC 5802, RFC 7677), and the server's own number of iterations. A
// verifier with more than maxIterations is not computed.
const (
	scheme        = "SCRAM-SHA-256"
	iterations    = 4096
	maxIterations = 100_000
	saltBytes     = 16
)

// Verifier returns the verifier of a password, with a new random salt: what the server stores in
// place of the password. The server accepts it where a password is set, so that the password itself
// is in no statement, log or statistic.
func Verifier(password string) (string, error) {
	salt := make([]byte, saltBytes)
	if _, err := rand.Read(salt); err != nil {
		return "", fmt.Errorf("making a salt: %w", err)
	}
	return verifier(password, salt, iterations)
}

func verifier(password string, salt []byte, count int) (string, error) {
	salted, err := pbkdf2.Key(sha256.New, password, salt, count, sha256.Size)
	if err != nil {
		return "", fmt.Errorf("hashing a password: %w", err)
	}
	client := sha256.Sum256(sign(salted, "Client Key"))
	encode := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("%s$%d:%s$%s:%s", scheme, count, encode(salt), encode(client[:]), encode(sign(salted, "Server Key"))), nil
}

func sign(key []byte, text string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

// Verifies reports whether kept, a verifier that a server has stored, is one of the password. It
// returns false if kept can't be read.
func Verifies(kept, password string) bool {
	const most = 1 << 10 // bytes
	parts := strings.Split(kept, "$")
	if len(kept) > most || len(parts) != 3 || parts[0] != scheme {
		return false
	}
	count, salt, _ := strings.Cut(parts[1], ":")
	number, err := strconv.Atoi(count)
	if err != nil || number < 1 || number > maxIterations {
		return false
	}
	decoded, err := base64.StdEncoding.DecodeString(salt)
	if err != nil {
		return false
	}
	made, err := verifier(password, decoded, number)
	return err == nil && subtle.ConstantTimeCompare([]byte(made), []byte(kept)) == 1
}
