package postgres

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// Limits of the lines of pg_hba.conf that a user may add.
const (
	MaxAccessLines     = 32
	MaxAccessLineBytes = 512
)

// AccessParameter is the key under which an engine gets these lines among its parameters, joined by
// line feeds. It is not a parameter of the server.
const AccessParameter = "mainstay.pg_hba"

// accessName matches the name of a database or a role in such a line, which needs no quotes.
var accessName = regexp.MustCompile(`^[A-Za-z_][-A-Za-z0-9_]{0,62}$`)

// accessWords are words with a special meaning in place of the name of a database or a role.
var accessWords = []string{"all", "replication", "sameuser", "samerole", "samegroup"}

const accessAccepted = "must be: hostssl DATABASES USERS ADDRESS METHOD, as in hostssl orders shop 10.0.0.0/8 scram-sha-256"

// CheckAccess returns why a user may not add a line to pg_hba.conf; nil if the line is accepted. It
// accepts only lines that allow no more than the last rule of the file, which lets every user with
// a password in over TLS.
func CheckAccess(line string) error {
	_, err := parseAccess(line)
	return err
}

// accessRule is an accepted line. Databases or users that are nil stand for all.
type accessRule struct {
	databases, users []string
	address, method  string
	option           string
}

// parseAccess parses a line, and returns why it is not accepted.
func parseAccess(line string) (accessRule, error) {
	if len(line) > MaxAccessLineBytes {
		return accessRule{}, fmt.Errorf("Too long: may not be more than %d bytes", MaxAccessLineBytes) //nolint:staticcheck // as the API server says it
	}
	if strings.ContainsFunc(line, func(r rune) bool { return r != ' ' && (r <= ' ' || r > '~') }) {
		return accessRule{}, errors.New("must be one line of ASCII, without tabs")
	}
	fields := strings.Fields(line)
	const least, most = 5, 6
	if len(fields) < least || len(fields) > most {
		return accessRule{}, errors.New(accessAccepted)
	}
	if fields[0] != "hostssl" {
		return accessRule{}, errors.New("must begin with hostssl: connections have TLS")
	}
	var rule accessRule
	var err error
	if rule.databases, err = accessNames(fields[1], CheckDatabase, "a database"); err != nil {
		return accessRule{}, err
	}
	checkUser := func(name string) error { return CheckUser(strings.TrimPrefix(name, "+")) }
	if rule.users, err = accessNames(fields[2], checkUser, "a user"); err != nil {
		return accessRule{}, err
	}
	rule.address, rule.method = fields[3], fields[4]
	prefix, err := netip.ParsePrefix(rule.address)
	if rule.address != "all" && (err != nil || prefix.Addr().Is4In6()) {
		return accessRule{}, errors.New("the address must be all or a network, as in 10.0.0.0/8 or fd00::/8")
	}
	if !slices.Contains([]string{"scram-sha-256", "cert", "reject"}, rule.method) {
		return accessRule{}, errors.New("the method must be scram-sha-256, cert or reject")
	}
	if len(fields) == most {
		rule.option = fields[5]
		if rule.method != "scram-sha-256" || rule.option != "clientcert=verify-ca" && rule.option != "clientcert=verify-full" {
			return accessRule{}, errors.New("the only options are clientcert=verify-ca and clientcert=verify-full, of scram-sha-256")
		}
	}
	return rule, nil
}

// accessNames returns the names of a list with commas; nil for "all". check refuses names, and what
// says what they are of, for errors.
func accessNames(list string, check func(string) error, what string) ([]string, error) {
	if list == "all" {
		return nil, nil
	}
	names := strings.Split(list, ",")
	for _, name := range names {
		plain := name
		if what == "a user" {
			plain = strings.TrimPrefix(name, "+")
		}
		if !accessName.MatchString(plain) || slices.Contains(accessWords, strings.ToLower(plain)) {
			return nil, fmt.Errorf("%.70q must be all or the name of %s: letters, digits, _ and -", name, what)
		}
		if err := check(name); err != nil {
			return nil, fmt.Errorf("%.70q %w", name, err)
		}
	}
	return names, nil
}

// accessLines returns the lines in the form that the server gets, without those that are not
// accepted. Names are quoted, so that none is one of the server's keywords, and each user stands
// for both of its roles (see [SecondLogin]).
func accessLines(lines []string) []string {
	var accepted []string
	for _, line := range lines[:min(len(lines), MaxAccessLines)] {
		rule, err := parseAccess(line)
		if err != nil {
			continue
		}
		databases, users := "all", "all"
		if rule.databases != nil {
			databases = quotedNames(rule.databases)
		}
		if rule.users != nil {
			var both []string
			for _, user := range rule.users {
				both = append(both, user)
				if !strings.HasPrefix(user, "+") {
					both = append(both, SecondLogin(user))
				}
			}
			users = quotedNames(both)
		}
		accepted = append(accepted, strings.TrimSpace(strings.Join([]string{"hostssl", databases, users, rule.address, rule.method, rule.option}, " ")))
	}
	return accepted
}

// quotedNames quotes names and joins them by commas. Names of groups are not quoted: their + has
// its meaning only outside of quotes.
func quotedNames(names []string) string {
	quoted := make([]string, 0, len(names))
	for _, name := range names {
		plain, isGroup := strings.CutPrefix(name, "+")
		text := `"` + plain + `"`
		if isGroup {
			text = name
		}
		quoted = append(quoted, text)
	}
	return strings.Join(quoted, ",")
}
