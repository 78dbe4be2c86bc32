package postgres

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mainstay-platform/mainstay/test/fuzz"
)

func TestApplicationIsChecked(t *testing.T) {
	for _, test := range []struct {
		a    Application
		want string
	}{
		{Application{"app", "secret", "app", false}, ""},
		{Application{`a"; DROP ROLE "b`, `p'a"ss\`, "größe", false}, ""},
		{Application{"", "secret", "app", false}, `username: Invalid value: "": must have 1 to 63 bytes`},
		{Application{strings.Repeat("a", 64), "secret", "app", false}, "username: Invalid value"},
		{Application{"postgres", "secret", "app", false}, `username: Invalid value: "postgres": is the server's`},
		{Application{"pg_monitor", "secret", "app", false}, "username: Invalid value"},
		{Application{"public", "secret", "app", false}, "username: Invalid value"},
		{Application{ReplicationRole, "secret", "app", false}, "username: Invalid value"},
		{Application{"app\n", "secret", "app", false}, "such as a line break at its end"},
		{Application{"app", "secret", "postgres", false}, "dbname: Invalid value"},
		{Application{"app", "secret", "template1", false}, "dbname: Invalid value"},
		{Application{"app", "secret", "a\x00b", false}, "dbname: Invalid value"},
		{Application{"app", "secret", "\xff", false}, "dbname: Invalid value"},
		{Application{"app", "", "app", false}, "password: Required value"},
		{Application{"app", "secret\n", "app", false}, "no line break at its end"},
		{Application{"app", "sécret", "app", false}, "password: must have letters"},
		{Application{"app", strings.Repeat("secret", 50), "app", false}, "password: Too long: may not be more than 256 bytes"},
	} {
		err := test.a.Check()
		if said := fmt.Sprint(err); err == nil != (test.want == "") || err != nil && !strings.Contains(said, test.want) ||
			strings.Contains(said, "secret") {
			t.Errorf("%+v: got %v, want %q", test.a, err, test.want)
		}
	}
}

// TestVerifier compares with the verifier that PostgreSQL 17 has made for the same password.
func TestVerifier(t *testing.T) {
	const made = "SCRAM-SHA-256$4096:+gJ1aIaCMs39mr2qLqFaGQ==$5ze5VJG8m6y3CPdNhdJ2frwaKTAMz1Ap337GhrxkLYY=:e9JLi+zpoublI+p+z60W3yXYBcL+e0A2ud1e7I01zW4="
	if !Verifies(made, "pencil") || Verifies(made, "Pencil") {
		t.Errorf("%s is not one of the password", made)
	}
	first, err := Verifier("pencil")
	if err != nil {
		t.Fatal(err)
	}
	second, err := Verifier("pencil")
	if err != nil || first == second || !Verifies(first, "pencil") || Verifies(first, "pen") || strings.Contains(first, "pencil") {
		t.Errorf("got %s and %s, %v", first, second, err)
	}
	for _, other := range []string{
		"", "md5c9f1", "SCRAM-SHA-256", "SCRAM-SHA-256$4096:x$y:z", "SCRAM-SHA-256$0:AAAA$A:A", "SCRAM-SHA-256$2147483647:AAAA$A:A",
		strings.Replace(made, "4096", "4097", 1), made + strings.Repeat("$", 2000),
	} {
		if Verifies(other, "pencil") {
			t.Errorf("%.80s is one of the password", other)
		}
	}
}

// FuzzApplication: any name becomes one identifier of SQL, and any verifier of a server is compared
// in bounded time.
func FuzzApplication(f *testing.F) {
	fuzz.AddBombs(f, "app", "secret", "app", "SCRAM-SHA-256$1:AAAA$A:A")
	f.Add(`"; DROP`, `'`, `"`, "")
	f.Fuzz(func(t *testing.T, user, password, database, kept string) {
		defer fuzz.Budget(t, user, password, database, kept)()
		_ = Verifies(kept, password)
		err := Application{User: user, Password: password, Database: database}.Check()
		if err != nil {
			if len(err.Error()) > 700 {
				t.Errorf("%d bytes are said about %q", len(err.Error()), user)
			}
			return
		}
		quoted := QuoteName(user)
		if inner := quoted[1 : len(quoted)-1]; strings.ReplaceAll(inner, `""`, "") != strings.ReplaceAll(user, `"`, "") ||
			strings.Count(inner, `"`)%2 != 0 || strings.ContainsAny(user, "\x00\n") {
			t.Errorf("%q became %q", user, quoted)
		}
	})
}
