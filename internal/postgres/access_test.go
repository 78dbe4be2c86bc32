package postgres

import (
	"strings"
	"testing"

	"github.com/mainstay-platform/mainstay/test/fuzz"
)

// TestCheckAccess has an accepted and a refused line for each check.
func TestCheckAccess(t *testing.T) {
	for line, want := range map[string]string{
		"hostssl all all all reject":                                "",
		"hostssl orders,app shop,+Readers 10.0.0.0/8 scram-sha-256": "",
		"  hostssl  orders  shop  fd00::/8  cert ":                  "",
		"hostssl all all all scram-sha-256 clientcert=verify-full":  "",
		"":                    "must be: hostssl DATABASES USERS ADDRESS METHOD",
		"hostssl all all all": "must be: hostssl",
		"hostssl all all 10.0.0.0 255.0.0.0 scram-sha-256 x":             "must be: hostssl",
		"host all all all scram-sha-256":                                 "must begin with hostssl",
		"hostnossl all all all reject":                                   "must begin with hostssl",
		"local all all all trust":                                        "must begin with hostssl",
		"HOSTSSL all all all reject":                                     "must begin with hostssl",
		"hostssl all all all trust":                                      "the method must be",
		"hostssl all all all md5":                                        "the method must be",
		"hostssl all all all ldap":                                       "the method must be",
		"hostssl replication all all scram-sha-256":                      `"replication" must be all or the name of a database`,
		"hostssl orders,all all all scram-sha-256":                       `"all" must be all or the name of a database`,
		"hostssl @file all all scram-sha-256":                            `"@file" must be all`,
		"hostssl /re all all scram-sha-256":                              `"/re" must be all`,
		`hostssl "orders" all all scram-sha-256`:                         `must be all or the name of a database`,
		"hostssl all postgres all scram-sha-256":                         `"postgres" is the server's or Mainstay's own`,
		"hostssl all +mainstay_certificate all scram-sha-256":            `"+mainstay_certificate" is the server's or Mainstay's own`,
		"hostssl all mainstay_replication all cert":                      `"mainstay_replication" is the server's`,
		"hostssl all +pg_monitor all scram-sha-256":                      `"+pg_monitor" is the server's`,
		"hostssl +orders all all scram-sha-256":                          `"+orders" must be all or the name of a database`,
		"hostssl all ++a all scram-sha-256":                              `"++a" must be all`,
		"hostssl all shop, all scram-sha-256":                            `"" must be all`,
		"hostssl all all 10.0.0.1 reject":                                "the address must be",
		"hostssl all all example.com reject":                             "the address must be",
		"hostssl all all ::ffff:10.0.0.0/104 reject":                     "the address must be",
		"hostssl all all samenet reject":                                 "the address must be",
		"hostssl all all all cert map=mainstay":                          "the only options are",
		"hostssl all all all scram-sha-256 clientcert=no-verify":         "the only options are",
		"hostssl all all all scram-sha-256 # comment":                    "must be: hostssl",
		"hostssl all all all reject\nlocal all all trust":                "must be one line of ASCII",
		"hostssl all all all reject\tx":                                  "must be one line of ASCII",
		"hostssl all all all " + strings.Repeat("x", MaxAccessLineBytes): "Too long",
	} {
		got := ""
		if err := CheckAccess(line); err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%q: got %q, want %q", line, got, want)
		}
	}
}

// TestAccessOfUsers: the user's lines are after those that protect our own roles, before the last
// rule, and only there while clients may connect. A user in a line stands for both of its roles.
func TestAccessOfUsers(t *testing.T) {
	lines := []string{"hostssl orders shop,+Readers 10.0.0.0/8 scram-sha-256", "local all all trust", "hostssl all all all reject"}
	got := Access(true, true, lines)
	want := "hostssl all +mainstay_certificate all cert\n" +
		`hostssl "orders" "shop","shop.2",+Readers 10.0.0.0/8 scram-sha-256` + "\nhostssl all all all reject\nhostssl all all all scram-sha-256\n"
	if !strings.HasSuffix(got, want) || strings.Count(got, "local all all trust") != 1 {
		t.Errorf("got\n%s", got)
	}
	if got := Access(false, true, lines); strings.Contains(got, "shop") {
		t.Errorf("while no clients connect:\n%s", got)
	}
}

// FuzzAccess: any text of a user results in one line or none. The line requires TLS, names none of
// our own roles, and has no method trust.
func FuzzAccess(f *testing.F) {
	fuzz.AddBombs(f, "hostssl all all all reject")
	f.Add("hostssl orders shop,+readers fd00::/8 scram-sha-256 clientcert=verify-full")
	f.Add("hostssl all all all reject\nlocal all all trust")
	f.Add(`hostssl "a b" "postgres" all cert map=mainstay`)
	f.Fuzz(func(t *testing.T, line string) {
		defer fuzz.Budget(t, line)()
		err := CheckAccess(line)
		if err != nil && len(err.Error()) > 300 {
			t.Errorf("a long error: %s", err)
		}
		text := strings.Join(accessLines([]string{line}), "|")
		if (err == nil) != (text != "") {
			t.Fatalf("%q: %v, and becomes %q", line, err, text)
		}
		fields := strings.Fields(text)
		if err == nil && (!strings.HasPrefix(text, "hostssl ") || strings.ContainsAny(text, "\n\r\t#@\\") ||
			strings.Contains(text, "mainstay_") || strings.Contains(text, `"postgres"`) || strings.Contains(fields[1], "replication") ||
			fields[4] != "reject" && fields[4] != "cert" && fields[4] != "scram-sha-256") {
			t.Errorf("%q became %q", line, text)
		}
	})
}
