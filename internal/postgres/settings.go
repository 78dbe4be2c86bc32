package postgres

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Setting is one parameter, of the server or of a connection string.
type Setting struct{ Name, Value string }

// maxSettingBytes is how long a value may be. The server reads lines of any length, but no sensible
// value is longer.
const maxSettingBytes = 8 << 10

// settingName matches what the server accepts as the name of a parameter; those of extensions have
// a dot.
var settingName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}(\.[a-z_][a-z0-9_]{0,62})?$`)

// checkSetting returns an error for a setting that could end its line or its quotes early, or
// include a file. The error does not contain the value, which may be secret.
func checkSetting(s Setting) error {
	switch {
	case strings.HasPrefix(s.Name, "include"):
		return fmt.Errorf("%s: must not be set: it would include a file", s.Name)
	case !settingName.MatchString(s.Name):
		return fmt.Errorf("%.80q is not the name of a parameter: must have lower case letters, digits, _ and at most one dot", s.Name)
	case len(s.Value) > maxSettingBytes:
		return fmt.Errorf("%s: has %d bytes: must have at most %d", s.Name, len(s.Value), maxSettingBytes)
	case !utf8.ValidString(s.Value):
		return fmt.Errorf("%s: is not UTF-8", s.Name)
	case strings.ContainsFunc(s.Value, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return fmt.Errorf("%s: has a control character: must be one line", s.Name)
	}
	return nil
}

// Configuration returns the content of postgresql.conf: one line for each setting. If several have
// the same name, the server uses the last one.
func Configuration(settings []Setting) (string, error) {
	var text strings.Builder
	for _, setting := range settings {
		if err := checkSetting(setting); err != nil {
			return "", err
		}
		text.WriteString(setting.Name + " = '" + strings.NewReplacer(`\`, `\\`, `'`, `''`).Replace(setting.Value) + "'\n")
	}
	return text.String(), nil
}

// Connection returns a connection string for libpq, of the settings that have a value.
func Connection(settings []Setting) (string, error) {
	var parts []string
	for _, setting := range settings {
		if err := checkSetting(setting); err != nil {
			return "", err
		}
		if setting.Value != "" {
			parts = append(parts, setting.Name+"='"+strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(setting.Value)+"'")
		}
	}
	return strings.Join(parts, " "), nil
}

const (
	// ReplicationRole is the role with which instances replicate and clone.
	ReplicationRole = "mainstay_replication"
	// CertificateRole is a role whose member roles log in with a client certificate that names them,
	// and not with a password.
	CertificateRole = "mainstay_certificate"
	// CertificatePrefix precedes the pod's name in the common name of an instance's certificate. With
	// it, the longest name has 61 characters, of the 64 that a common name may have.
	CertificatePrefix = "mainstay:"
)

// Access returns the content of pg_hba.conf. Over the socket, whose mode lets only our own
// operating system user connect, every role may log in. All others need TLS: users with a password
// or a certificate, and instances with a certificate. A server that does not lead accepts no
// receivers. While clients is false, only the superuser may connect, over the socket. The user's
// lines come after those that protect the server's own roles, and before the last rule, for
// everyone else.
func Access(clients, leads bool, users []string) string {
	lines := []string{"local all postgres trust"}
	if leads {
		lines = append(lines, "hostssl replication "+ReplicationRole+" all cert map=mainstay")
	}
	lines = append(lines, "host replication all all reject", "host all postgres all reject", "host all "+ReplicationRole+" all reject")
	if clients {
		lines = append(lines, "local all all trust", "hostssl all +"+CertificateRole+" all cert")
		lines = append(append(lines, accessLines(users)...), "hostssl all all all scram-sha-256")
	}
	return strings.Join(lines, "\n") + "\n"
}

// Identities returns the content of pg_ident.conf: a client with an instance's certificate may log
// in as ReplicationRole.
func Identities() string {
	return `mainstay "/^` + CertificatePrefix + `[a-z0-9.-]+$" ` + ReplicationRole + "\n"
}
