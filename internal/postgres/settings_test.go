package postgres

import (
	"regexp"
	"strings"
	"testing"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/test/fuzz"
)

func TestConfiguration(t *testing.T) {
	got, err := Configuration([]Setting{{"port", "5432"}, {"pg_stat.x", `it's a \ back`}, {"port", "1"}})
	if want := "port = '5432'\npg_stat.x = 'it''s a \\\\ back'\nport = '1'\n"; err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	connection, err := Connection([]Setting{{"host", "db-0.db"}, {"user", ""}, {"password", `a'b\ c`}})
	if want := `host='db-0.db' password='a\'b\\ c'`; err != nil || connection != want {
		t.Errorf("got %q, %v, want %q", connection, err, want)
	}
}

func TestSettingsThatAreRefused(t *testing.T) {
	for _, test := range []struct {
		setting Setting
		want    string
	}{
		{Setting{"a\nfsync", "off"}, "is not the name of a parameter"},
		{Setting{"Port", "1"}, "is not the name of a parameter"},
		{Setting{"a.b.c", "1"}, "is not the name of a parameter"},
		{Setting{"", "1"}, "is not the name of a parameter"},
		{Setting{"include_dir", "/tmp"}, "would include a file"},
		{Setting{"work_mem", "1\nfsync = off"}, "must be one line"},
		{Setting{"work_mem", "1\x00"}, "must be one line"},
		{Setting{"work_mem", "\xff"}, "is not UTF-8"},
		{Setting{"work_mem", strings.Repeat("x", maxSettingBytes+1)}, "must have at most 8192"},
	} {
		if _, err := Configuration([]Setting{test.setting}); err == nil || !strings.Contains(err.Error(), test.want) || len(err.Error()) > 300 {
			t.Errorf("%.40q: got %v, want %q", test.setting, err, test.want)
		}
		if _, err := Connection([]Setting{test.setting}); err == nil {
			t.Errorf("%.40q is accepted in a connection", test.setting)
		}
	}
}

// TestAccess: no member can receive from a server that does not lead, and only the superuser can
// connect before clients may.
func TestAccess(t *testing.T) {
	for _, test := range []struct {
		clients, leads bool
		want           []string
		not            []string
	}{
		{false, false, []string{"local all postgres trust", "reject"}, []string{"hostssl", "scram", "local all all"}},
		{true, false, []string{"local all all trust\n", "hostssl all all all scram-sha-256"}, []string{"hostssl replication"}},
		{true, true, []string{"hostssl replication mainstay_replication all cert map=mainstay"}, []string{"host all all all", "md5"}},
	} {
		got := Access(test.clients, test.leads, nil)
		for _, want := range test.want {
			if !strings.Contains(got, want) {
				t.Errorf("%+v: no %q in\n%s", test, want, got)
			}
		}
		for _, not := range test.not {
			if strings.Contains(got, not) {
				t.Errorf("%+v: %q in\n%s", test, not, got)
			}
		}
	}
	if got, want := Identities(), `mainstay "/^mainstay:[a-z0-9.-]+$" mainstay_replication`+"\n"; got != want {
		t.Errorf("got %q", got)
	}
}

func TestMembers(t *testing.T) {
	a, b, c := election.Member{Name: "db-0", Incarnation: "1f"}, election.Member{Name: "db-1", Incarnation: "2e"}, election.Member{Name: "db-2", Incarnation: "3"}
	for want, rule := range map[string]election.Rule{
		"":                                   {Leader: a},
		`ANY 1 ("db-1/2e")`:                  {Leader: a, Set: []election.Member{b}, Acks: 1},
		`ANY 2 ("db-1/2e", "db-2/3")`:        {Leader: a, Set: []election.Member{b, c}, Acks: 2},
		"waits for 2 of 1 members":           {Leader: a, Set: []election.Member{b}, Acks: 2},
		"waits for 0 of 1 members":           {Leader: a, Set: []election.Member{b}},
		"a rule of db-0/1f waits for itself": {Leader: a, Set: []election.Member{a}, Acks: 1},
		"is not the name of a member":        {Leader: a, Set: []election.Member{{Name: `d", "b`, Incarnation: "1"}}, Acks: 1},
		"at most 62":                         {Leader: a, Set: []election.Member{{Name: strings.Repeat("d", 60), Incarnation: "123"}}, Acks: 1},
	} {
		got, err := Synchronous(rule)
		if err != nil {
			got = err.Error()
		}
		if got != want && (err == nil || !strings.Contains(got, want)) {
			t.Errorf("%+v: got %s, want %s", rule, got, want)
		}
	}
	if _, isMember := ParseApplicationName(Nobody); isMember {
		t.Error("a member has the name that is reserved for none")
	}
	if got, err := SlotName(election.Member{Name: "db-0", Incarnation: "1f-2"}); err != nil || got != "mainstay_1f_2" {
		t.Errorf("got %s, %v", got, err)
	}
}

// FuzzConfiguration: no name or value adds a line or ends its quotes early, and the server reads
// exactly the value.
func FuzzConfiguration(f *testing.F) {
	fuzz.AddBombs(f, "work_mem", "4MB")
	f.Add("search_path", `a'b\'c`)
	f.Add("x", "1\nfsync = off")
	line := regexp.MustCompile(`^([a-z0-9_.]+) = '((?:[^'\\]|''|\\\\)*)'\n$`)
	f.Fuzz(func(t *testing.T, name, value string) {
		defer fuzz.Budget(t, name, value)()
		text, err := Configuration([]Setting{{name, value}})
		if err != nil {
			return
		}
		found := line.FindStringSubmatch(text)
		if found == nil || strings.Count(text, "\n") != 1 || found[1] != name ||
			strings.NewReplacer(`''`, `'`, `\\`, `\`).Replace(found[2]) != value {
			t.Errorf("%q = %q became %q", name, value, text)
		}
	})
}

// FuzzMember: the application_name of a member is unique, and can't end its quotes early.
func FuzzMember(f *testing.F) {
	fuzz.AddBombs(f, "db-0", "1f2e", "db-0/1f2e")
	f.Add("a/b", "c", "a/b/c")
	f.Fuzz(func(t *testing.T, pod, incarnation, text string) {
		defer fuzz.Budget(t, pod, incarnation, text)()
		member := election.Member{Name: pod, Incarnation: incarnation}
		if name, err := ApplicationName(member); err == nil {
			if got, isMember := ParseApplicationName(name); !isMember || got != member || strings.ToLower(name) != name || strings.ContainsAny(name, "\"\\\n") {
				t.Errorf("%+v became %q, and that %+v", member, name, got)
			}
		}
		if member, isMember := ParseApplicationName(text); isMember {
			if name, err := ApplicationName(member); err != nil || name != text {
				t.Errorf("%q is %+v, and that %q, %v", text, member, name, err)
			}
		}
	})
}
