//go:build instances

package server

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/onsi/gomega"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/instance/engine"
	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// shows returns the value of a parameter in the server.
func (i *instance) shows(name string) string {
	i.t.Helper()
	var value string
	check(i.t, i.session().QueryRow(i.t.Context(), "SHOW "+name).Scan(&value))
	return value
}

// sets changes the user's parameters.
func (i *instance) sets(parameters map[string]string) engine.Observation {
	i.t.Helper()
	return i.do(Call{Do: "parameters", Parameters: parameters}).Observed
}

// TestParameters: a user's parameters take effect at once where the server allows that. Parameters
// that are ours, are unknown, or are refused by the server do not. They are reported, and do not
// prevent the use of the others.
func TestParameters(t *testing.T) {
	a, b, d := newCluster(t).begin(2)
	if o := a.sets(map[string]string{"work_mem": "7MB", "timezone": "Europe/Zurich"}); o.Problem != "" || o.PendingRestart {
		t.Errorf("got %q, %t", o.Problem, o.PendingRestart)
	}
	o := a.sets(map[string]string{
		"work_mem": "9MB", "fsync": "off", "synchronous_standby_names": "", "max_wal_senders": "0", "timezone": "Nowhere/Else",
		"not_there": "1", "lc_monetary": "xx_XX", "hash_mem_multiplier": "many", "client_min_messages": "error",
		"default_transaction_isolation": "serializable", "pg_stat_statements.max": "x", "track_activity_query_size": "2kB",
	})
	if want := `parameters[fsync]: Invalid value: "off": must not be set: durability depends on it`; !strings.HasPrefix(o.Problem, want) ||
		!strings.HasSuffix(o.Problem, "(and 6 more)") || !o.PendingRestart {
		t.Errorf("got %q, %t", o.Problem, o.PendingRestart)
	}
	for name, want := range map[string]string{
		"work_mem": "9MB", "fsync": "on", "max_wal_senders": "20", "timezone": "Europe/Zurich", "track_activity_query_size": "1kB", "lc_monetary": "C",
	} {
		if got := a.shows(name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	if got := a.shows("synchronous_standby_names"); !strings.HasPrefix(got, "ANY 1 (") {
		t.Errorf("commits wait for %s", got)
	}
	a.do(Call{Do: "kill"})
	a.do(Call{Do: "resume", Rule: rule(a, b, d)})
	a.wait("leading", isLeading)
	if got := a.shows("track_activity_query_size"); got != "2kB" || a.observe().PendingRestart {
		t.Errorf("after a restart, track_activity_query_size is %s", got)
	}
	a.sets(nil)
	a.wait("waiting for a restart without parameters", func(o engine.Observation) bool { return o.Problem == "" && o.PendingRestart })
	if got := a.shows("timezone"); got != "UTC" {
		t.Errorf("without parameters: the time zone is %s", got)
	}
}

// TestParametersThatDoNotStart: a server that does not start with a user's parameters is started
// without them, and that is reported until they are changed.
func TestParametersThatDoNotStart(t *testing.T) {
	a := newCluster(t).instances[0]
	a.do(Call{Do: "initialise"})
	a.sets(map[string]string{"timezone": "Nowhere/Else"})
	if _, err := a.try(Call{Do: "start"}); err == nil || !strings.Contains(err.Error(), "contains errors") {
		t.Errorf("got %v", err)
	}
	a.start()
	if o := a.observe(); !strings.HasPrefix(o.Problem, "the server did not start with the parameters, and runs without them: FATAL:") {
		t.Errorf("got %q", o.Problem)
	}
	if o := a.sets(map[string]string{"timezone": "Europe/Zurich"}); o.Problem != "" {
		t.Errorf("got %q", o.Problem)
	}
}

// again kills a standby, starts it, and makes it follow the leader.
func (i *instance) again(leader *instance, term uint64) {
	i.t.Helper()
	i.do(Call{Do: "kill"})
	i.following(leader, term)
}

// TestRaisedAndLowered: a parameter of which a standby needs at least its leader's value can be
// raised and lowered, whichever of them is restarted first.
func TestRaisedAndLowered(t *testing.T) {
	a, b, d := newCluster(t).begin(2)
	more, less := map[string]string{"max_connections": "150", "max_worker_processes": "12"}, map[string]string{"max_connections": "40"}
	for _, i := range []*instance{a, b, d} {
		if !i.sets(more).PendingRestart {
			t.Errorf("%s: no restart is needed", i.name)
		}
	}
	b.again(a, 1)
	a.do(Call{Do: "kill"})
	a.do(Call{Do: "resume", Rule: rule(a, b, d)})
	a.wait("leading", isLeading)
	check(t, a.write(2, waitLimit))
	// Its replay waits, or the server ends: in both cases it is restarted, and goes on.
	d.wait("stopped", func(o engine.Observation) bool { return o.Server.State == election.Stopped })
	d.start()
	d.follow(a, 1)
	for _, i := range []*instance{a, b, d} {
		if got := i.shows("max_connections"); got != "150" || i.observe().PendingRestart {
			t.Errorf("%s: max_connections is %s", i.name, got)
		}
		pending := i.sets(less).PendingRestart
		if pending != (i == a) {
			t.Errorf("%s: a restart for less is needed: %t", i.name, pending)
		}
	}
	b.again(a, 1)
	a.wait("sending to both", func(o engine.Observation) bool {
		return len(o.Receivers) == 2 && o.Receivers[0].Near && o.Receivers[1].Near
	})
	a.do(Call{Do: "stop"})
	b.final()
	d.final()
	b.do(Call{Do: "rule", Rule: rule(b, a, d)})
	b.do(Call{Do: "promote", Timeline: 9})
	a.start()
	a.follow(b, 2)
	d.follow(b, 2)
	b.wait("leading", isLeading)
	check(t, b.write(3, waitLimit))
	if got := b.shows("max_connections") + " " + b.shows("max_worker_processes"); got != "40 8" || b.observe().PendingRestart {
		t.Errorf("got %s", got)
	}
	replayed := func() bool { return slices.Contains(a.numbers(), 3) && slices.Contains(d.numbers(), 3) }
	gomega.NewWithT(t).Eventually(replayed).WithTimeout(waitLimit).Should(gomega.BeTrue(), "the standbys have what was written")
	a.again(b, 2)
	if got := a.shows("max_connections"); got != "40" {
		t.Errorf("a standby that was started since has %s", got)
	}
}

// TestParametersOfLibraries: which parameters of the libraries that may be preloaded take effect
// only at a start of the server is known, because their change must replace the pods.
func TestParametersOfLibraries(t *testing.T) {
	a := newCluster(t).instances[0]
	a.do(Call{Do: "initialise"})
	a.sets(map[string]string{"shared_preload_libraries": "pg_stat_statements, auto_explain, pg_prewarm"})
	a.start()
	var names string
	check(t, a.session().QueryRow(t.Context(), `SELECT coalesce(string_agg(name, ' ' ORDER BY name), '') FROM pg_settings
		WHERE context = 'postmaster' AND name LIKE '%.%'`).Scan(&names))
	if names != "pg_prewarm.autoprewarm pg_stat_statements.max" {
		t.Errorf("the server has %s", names)
	}
	for name := range strings.FieldsSeq(names) {
		if !postgres.NeedsRestart(a.major(), name) {
			t.Errorf("%s counts as one that needs no restart", name)
		}
	}
}

// TestParametersTable: the table has all parameters of this server, as the server describes them,
// except refused ones.
func TestParametersTable(t *testing.T) {
	a := newCluster(t).instances[0]
	a.do(Call{Do: "initialise"})
	a.start()
	content, err := os.ReadFile("../parameters.tsv")
	check(t, err)
	known := map[string][]string{}
	for line := range strings.Lines(string(content)) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if strings.HasPrefix(line, "#") {
			continue
		}
		since, _ := strconv.Atoi(fields[1])
		until, _ := strconv.Atoi(fields[2])
		if since <= a.major() && a.major() <= until {
			known[fields[0]] = fields[3:]
		}
	}
	rows, err := a.session().Query(t.Context(), postgres.ParametersQuery)
	check(t, err)
	for rows.Next() {
		described := make([]string, 7)
		check(t, rows.Scan(&described[0], &described[1], &described[2], &described[3], &described[4], &described[5], &described[6]))
		name, in := described[0], known[described[0]]
		delete(known, name)
		if postgres.Refused(name) != "" {
			continue
		}
		if in == nil || !slices.Equal(in[:5], described[1:6]) {
			t.Errorf("%s: the server says %q, the table %q", name, described[1:], in)
			continue
		}
		for value := range strings.SplitSeq(described[6], ",") {
			if !slices.Contains(strings.Split(in[5], ","), value) {
				t.Errorf("%s: the table lacks %s", name, value)
			}
		}
	}
	check(t, rows.Err())
	if len(known) > 0 {
		t.Errorf("the server does not have %v", known)
	}
}
