//go:build instances

package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/onsi/gomega"

	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/instance/engine"
	"github.com/mainstay-platform/mainstay/internal/instance/supervise"
	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// dial connects over TCP with those settings, and a certificate if there is one.
func (i *instance) dial(t *testing.T, certificates, text string) (*pgconn.PgConn, error) {
	t.Helper()
	config, err := pgconn.ParseConfig(fmt.Sprintf("host=%s port=%d connect_timeout=60 %s", i.host, testPort, text))
	check(t, err)
	if certificates != "" {
		content, err := os.ReadFile(filepath.Join(certificates, "ca.crt"))
		check(t, err)
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(content)
		pair, err := tls.LoadX509KeyPair(filepath.Join(certificates, "tls.crt"), filepath.Join(certificates, "tls.key"))
		check(t, err)
		config.TLSConfig = &tls.Config{RootCAs: roots, ServerName: i.host, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	}
	connection, err := pgconn.ConnectConfig(t.Context(), config)
	if err == nil {
		t.Cleanup(func() { _ = connection.Close(context.Background()) })
	}
	return connection, err
}

// TestPromotedByHand: a standby that a user promotes accepts writes for a moment at most; it
// restarts as a standby whose data are not part of the leader's history.
func TestPromotedByHand(t *testing.T) {
	c := newCluster(t)
	a, b, _ := c.begin(2)
	_, err := b.session().Exec(t.Context(), "SELECT pg_promote(wait => false)")
	check(t, err)
	b.wait("the server that was promoted is killed", func(o engine.Observation) bool {
		return o.Server.State == election.Stopped && strings.Contains(o.Problem, "it was promoted, but not by Mainstay")
	})
	diverged := b.start()
	history := a.observe().Server.History
	if (postgres.Positions{}).Holds(history, diverged) {
		t.Errorf("%s counts as a part of %s", diverged, history)
	}
}

// TestUselessData: data that no server can use count as damaged after several starts, and no longer
// once they are rebuilt.
func TestUselessData(t *testing.T) {
	a, b, _ := newCluster(t).begin(2)
	b.do(Call{Do: "kill"})
	check(t, os.WriteFile(filepath.Join(filepath.Dir(b.run), "volume", "data", "global", "pg_control"), make([]byte, 8192), 0o600))
	for range 3 {
		if b.observe().Server.Damaged {
			t.Error("the data count as damaged at once")
		}
		if _, err := b.try(Call{Do: "start"}); err == nil {
			t.Error("the server starts")
		}
	}
	b.wait("damaged", func(o engine.Observation) bool { return o.Server.Damaged })
	b.do(Call{Do: "clone", From: a.upstream(1)})
	b.start()
	if b.observe().Server.Damaged {
		t.Error("the rebuilt data count as damaged")
	}
}

// TestAccess: instances replicate from the leader by certificate, users connect by password and
// TLS, and no other client can.
func TestAccess(t *testing.T) {
	c := newCluster(t)
	a, b, d := c.begin(2)
	_, err := a.session().Exec(t.Context(), "CREATE ROLE app LOGIN REPLICATION PASSWORD 'secret'; GRANT ALL ON SCHEMA public TO app")
	check(t, err)
	standby := b.session()
	gomega.NewWithT(t).Eventually(func() (is bool, err error) {
		err = standby.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = 'app')").Scan(&is)
		return is, err
	}).WithTimeout(waitLimit).Should(gomega.BeTrue(), "the user reaches the standby")
	own := filepath.Join(filepath.Dir(d.run), "certificates")
	foreign, other := t.TempDir(), t.TempDir()
	newAuthority(t).sign(t, foreign, d)
	c.authority.signAs(t, other, d, "somebody")
	replicate := "replication=yes user=" + postgres.ReplicationRole
	for _, test := range []struct {
		name, certificates, text, want string
		to                             *instance
	}{
		{"a user", own, "user=app password=secret dbname=postgres", "", a},
		{"a reader at a standby", own, "user=app password=secret dbname=postgres", "", b},
		{"an instance", own, replicate, "", a},
		{"without TLS", "", "sslmode=disable user=app password=secret dbname=postgres", "no encryption", a},
		{"a wrong password", own, "user=app password=wrong dbname=postgres", "password authentication failed", a},
		{"the superuser", own, "user=postgres dbname=postgres", "rejects connection", a},
		{"the role of instances in a database", own, "dbname=postgres user=" + postgres.ReplicationRole, "rejects connection", a},
		{"a user who replicates", own, "replication=yes user=app password=secret", "rejects", a},
		{"an instance at a standby", own, replicate, "rejects", b},
		{"another certificate", other, replicate, "certificate authentication failed", a},
		{"a foreign certificate", foreign, replicate, "tls: ", a},
	} {
		_, err := test.to.dial(t, test.certificates, test.text)
		said := strings.ReplaceAll(fmt.Sprint(err), "SSL off", "no encryption")
		if err == nil != (test.want == "") || err != nil && !strings.Contains(said, test.want) {
			t.Errorf("%s: got %v, want %q", test.name, err, test.want)
		}
	}
	slot, err := postgres.SlotName(b.member())
	check(t, err)
	session, err := a.dial(t, own, replicate)
	check(t, err)
	if _, err := session.Exec(t.Context(), "START_REPLICATION SLOT "+slot+" PHYSICAL 0/3000000 TIMELINE 2").ReadAll(); err == nil ||
		!strings.Contains(err.Error(), "is active") {
		t.Errorf("a second connection of one member: got %v", err)
	}
}

// TestAlterSystem: settings on which the safety of the data depends can't be changed in the server
// for long.
func TestAlterSystem(t *testing.T) {
	a, b, d := newCluster(t).begin(2)
	session := a.session()
	for _, setting := range []string{"fsync", "synchronous_standby_names"} {
		if _, err := session.Exec(t.Context(), "ALTER SYSTEM SET "+setting+" = ''"); err != nil {
			_, err = session.Exec(t.Context(), "ALTER SYSTEM SET "+setting+" = 'off'")
			t.Logf("%s: %v", setting, err)
		}
	}
	a.do(Call{Do: "rule", Rule: rule(a, b, d)})
	a.wait("leading under its rule", isLeading)
	for setting, want := range map[string]string{"fsync": "on", "synchronous_standby_names": "ANY 1 ("} {
		var got string
		check(t, a.session().QueryRow(t.Context(), "SHOW "+setting).Scan(&got))
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s is %s", setting, got)
		}
	}
}

// stopAll sends a signal to a server's processes, so that they stop or go on.
func stopAll(pid int, signal syscall.Signal) {
	_ = syscall.Kill(pid, signal)
	for child := range supervise.Children(pid) {
		_ = syscall.Kill(child, signal)
	}
}

// TestFrozen: a server that hangs is found by its heartbeat, and killed.
func TestFrozen(t *testing.T) {
	a, _, _ := newCluster(t).begin(2)
	pid := a.pid()
	stopAll(pid, syscall.SIGSTOP)
	a.wait("not flushing", func(o engine.Observation) bool {
		return !o.UnflushedSince.IsZero() && time.Since(o.UnflushedSince) > 3*time.Second
	})
	stopAll(pid, syscall.SIGCONT)
	a.wait("flushing", func(o engine.Observation) bool { return o.UnflushedSince.IsZero() })
	stopAll(pid, syscall.SIGSTOP)
	began := time.Now()
	a.do(Call{Do: "kill"})
	if took := time.Since(began); took > time.Second {
		t.Errorf("the kill took %s", took)
	}
	if left := supervise.Children(a.cmd.Process.Pid); len(left) != 0 {
		t.Errorf("%v run still", left)
	}
}

// TestSlowServer: a server that accepts no session for a while is not killed for that, neither
// while it stops receiving nor while it is promoted, because it would have to recover then.
func TestSlowServer(t *testing.T) {
	const stall = 3 * time.Second
	a, b, d := newCluster(t).begin(2)
	pid := b.pid()
	slowly := func(call Call) {
		t.Helper()
		check(t, syscall.Kill(pid, syscall.SIGSTOP))
		time.AfterFunc(stall, func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
		began := time.Now()
		b.do(call)
		if took := time.Since(began); took < stall {
			t.Errorf("%s took only %s: it did not need the server", call.Do, took)
		}
	}
	a.do(Call{Do: "stop"})
	d.final()
	slowly(Call{Do: "unfollow"})
	b.do(Call{Do: "rule", Rule: rule(b, a, d)})
	slowly(Call{Do: "promote", Timeline: 5})
	if now := b.pid(); now != pid {
		t.Errorf("the server was started again: its process is %d, and was %d", now, pid)
	}
}

// TestFrozenReceiver: no promise is given while a process may still receive.
func TestFrozenReceiver(t *testing.T) {
	_, b, _ := newCluster(t).begin(2)
	frozen := 0
	for child, title := range supervise.Children(b.pid()) {
		if strings.Contains(title, "walreceiver") {
			frozen = child
		}
	}
	check(t, syscall.Kill(frozen, syscall.SIGSTOP))
	answer, err := b.try(Call{Do: "unfollow"})
	if b.major() < 13 {
		// It has no source that a reload could remove: the server is restarted, and what does not
		// end in time is killed.
		if err != nil || !answer.Observed.Server.Final {
			t.Errorf("got %v, %+v", err, answer.Observed.Server)
		}
		return
	}
	if err == nil || !strings.Contains(err.Error(), "the WAL receiver does not end") || answer.Observed.Server.Final {
		t.Errorf("got %v, %+v", err, answer.Observed.Server)
	}
	b.do(Call{Do: "kill"})
	if position := b.start(); !strings.HasPrefix(string(position), "2:") {
		t.Errorf("got %s", position)
	}
}

// TestKillInBetween: whatever operation is in progress, no process runs after a kill.
func TestKillInBetween(t *testing.T) {
	a, b, d := newCluster(t).begin(2)
	a.do(Call{Do: "kill"})
	for _, call := range []Call{{Do: "start"}, {Do: "resume", Rule: rule(a, b, d)}, {Do: "stop"}, {Do: "initialise"}} {
		for round := 1; round < 6; round++ {
			ended := make(chan error, 1)
			go func() {
				_, err := a.try(call)
				ended <- err
			}()
			<-time.After(time.Duration(round) * 15 * time.Millisecond)
			a.do(Call{Do: "kill"})
			left := supervise.Children(a.cmd.Process.Pid)
			if err := <-ended; len(left) != 0 {
				t.Errorf("%s, round %d: %v run still; %v", call.Do, round, left, err)
			}
			a.do(Call{Do: "kill"})
		}
	}
	a.do(Call{Do: "inspect"})
	a.do(Call{Do: "resume", Rule: rule(a, b, d)})
	a.has(1)
}

// TestNoSlotLeft: a leader that has no replication slot left for a member reports that, and goes on
// measuring the others.
func TestNoSlotLeft(t *testing.T) {
	a, b, _ := newCluster(t).begin(2)
	a.counts("0", "FROM pg_replication_slots WHERE temporary")
	b.do(Call{Do: "kill"})
	slot, err := postgres.SlotName(b.member())
	check(t, err)
	session := a.session()
	exec := func(statement string) error {
		_, err := session.Exec(t.Context(), statement)
		return err
	}
	check(t, exec("SELECT pg_create_physical_replication_slot('user_' || n) FROM generate_series(1, 18) AS n"))
	const another = ", pg_create_physical_replication_slot('user_19')"
	gomega.NewWithT(t).Eventually(exec).WithArguments("SELECT pg_drop_replication_slot(" + quote(slot) + ")" + another).
		WithTimeout(waitLimit).WithPolling(20 * time.Millisecond).Should(gomega.Succeed())
	a.wait("without a slot", func(o engine.Observation) bool { return strings.Contains(o.Problem, "making the slot of db-1") })
	a.wait("measured", func(o engine.Observation) bool { return len(o.Receivers) == 1 && o.Receivers[0].Member.Name == "db-2" })
}

// TestForeignSlots: a leader that is restarted keeps the slots that a user has made; a standby
// drops them before it follows, because they would keep its log for ever.
func TestForeignSlots(t *testing.T) {
	a, b, d := newCluster(t).begin(2)
	const ofUser = "FROM pg_replication_slots WHERE slot_name = 'user_1'"
	_, err := a.session().Exec(t.Context(), "SELECT pg_create_physical_replication_slot('user_1', true)")
	check(t, err)
	a.do(Call{Do: "kill"})
	a.do(Call{Do: "resume", Rule: rule(a, b, d)})
	a.wait("leading", isLeading)
	a.counts("1", ofUser)
	a.do(Call{Do: "stop"})
	b.final()
	d.final()
	b.do(Call{Do: "rule", Rule: rule(b, a, d)})
	b.do(Call{Do: "promote", Timeline: 5})
	a.start()
	a.counts("1", ofUser)
	a.follow(b, 2)
	a.counts("0", ofUser)
}

// TestLogicalSlotOutlivesItsParameter: a server with a logical slot starts, also when the user has
// removed wal_level since.
func TestLogicalSlotOutlivesItsParameter(t *testing.T) {
	a, b, d := newCluster(t).begin(2)
	again := func() {
		t.Helper()
		a.do(Call{Do: "kill"})
		a.do(Call{Do: "resume", Rule: rule(a, b, d)})
		a.wait("leading", isLeading)
	}
	a.sets(map[string]string{"wal_level": "logical"})
	again()
	_, err := a.session().Exec(t.Context(), "SELECT pg_create_logical_replication_slot('user_1', 'pgoutput')")
	check(t, err)
	a.sets(nil)
	again()
	if got := a.shows("wal_level"); got != "logical" {
		t.Errorf("wal_level is %s", got)
	}
	_, err = a.session().Exec(t.Context(), "SELECT pg_drop_replication_slot('user_1')")
	check(t, err)
	a.sets(nil)
	again()
	if got := a.shows("wal_level"); got != "replica" {
		t.Errorf("without a slot, wal_level is %s", got)
	}
}

// TestPoolerGainsNothing: the function that poolers call runs nothing of theirs with the rights of
// the superuser.
func TestPoolerGainsNothing(t *testing.T) {
	a, _, _ := newCluster(t).begin(2)
	app := postgres.Application{User: "app", Password: "first", Database: "app"}
	a.do(Call{Do: "provide", Application: app})
	a.do(Call{Do: "declared", Application: app, Provisions: contract.Provisions{Pooler: true}})
	_, err := a.session().Exec(t.Context(), `SET SESSION AUTHORIZATION `+postgres.PoolerRole+`;
		CREATE FUNCTION pg_temp.evil() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'runs as %', current_user; END $$;
		CREATE TEMPORARY VIEW pg_authid AS SELECT 'x'::name AS rolname, 'y'::text AS rolpassword, pg_temp.evil() AS rolcanlogin,
			false AS rolsuper, false AS rolreplication, NULL::timestamptz AS rolvaliduntil;
		SELECT * FROM `+postgres.PoolerLookup+`('x')`)
	check(t, err)
}

// TestSlotsThatHang: while the query for slots hangs, the leader still measures which members
// receive from it, with gaps of less than five seconds.
func TestSlotsThatHang(t *testing.T) {
	a, _, _ := newCluster(t).begin(2)
	_, err := a.session().Exec(t.Context(), `SET allow_system_table_mods = on; DO $$ BEGIN
		EXECUTE 'CREATE OR REPLACE VIEW pg_catalog.pg_replication_slots AS SELECT s.* FROM ('
			|| rtrim(pg_get_viewdef('pg_replication_slots'), ';') || ') s, pg_sleep(60)';
	END $$`)
	check(t, err)
	last, measures := a.observe().ReceiversAt, 0
	a.wait("measured without its slots", func(o engine.Observation) bool {
		if gap := o.ReceiversAt.Sub(last); gap >= 5*time.Second {
			t.Fatalf("nothing was said of the receivers for %s", gap)
		}
		if len(o.Receivers) != 2 || o.Receivers[0].FlushedAt.IsZero() || o.Receivers[1].FlushedAt.IsZero() {
			t.Errorf("got %+v", o.Receivers)
		}
		if o.ReceiversAt.After(last) && strings.HasPrefix(o.Problem, "asking for the slots") {
			measures++
		}
		last = o.ReceiversAt
		return measures == 3
	})
}

// TestDropUsed: the slot of a member that reconnects again and again can be dropped.
func TestDropUsed(t *testing.T) {
	a, b, _ := newCluster(t).begin(2)
	for range 5 {
		gomega.NewWithT(t).Eventually(func() error {
			_, err := a.try(Call{Do: "drop used", From: b.upstream(1)})
			if err != nil && !strings.Contains(err.Error(), "no receiver uses the slot") {
				t.Error(err)
			}
			return err
		}).WithTimeout(waitLimit).WithPolling(20 * time.Millisecond).Should(gomega.Succeed())
	}
}

// TestDamagedData: the server's own message is reported.
func TestDamagedData(t *testing.T) {
	a := newCluster(t).instances[0]
	a.do(Call{Do: "initialise"})
	data := filepath.Join(filepath.Dir(a.run), "volume", "data")
	check(t, os.Chmod(data, 0o770|os.ModeSetgid)) // As the kubelet does, for the group of a volume.
	a.do(Call{Do: "start"})
	a.do(Call{Do: "kill"})
	segments, err := filepath.Glob(filepath.Join(data, "pg_wal", "0000*"))
	check(t, err)
	for _, segment := range segments {
		check(t, os.Remove(segment))
	}
	_, err = a.try(Call{Do: "start", Within: 10 * time.Second})
	if err == nil || !strings.Contains(err.Error(), "deadline exceeded: LOG:  ") {
		t.Errorf("got %v", err)
	}
	control := filepath.Join(data, "global", "pg_control")
	content, err := os.ReadFile(control)
	check(t, err)
	content[40]++
	check(t, os.WriteFile(control, content, 0o600))
	if _, err := a.try(Call{Do: "inspect"}); err == nil || !strings.Contains(err.Error(), "does not match its checksum") {
		t.Errorf("got %v", err)
	}
}

// TestLocksOfAKilledServer: a server that was killed while it wrote its lock files does not prevent
// the next one from starting.
func TestLocksOfAKilledServer(t *testing.T) {
	a := newCluster(t).instances[0]
	a.do(Call{Do: "initialise"})
	a.do(Call{Do: "start"})
	a.do(Call{Do: "kill"})
	locks, err := filepath.Glob(filepath.Join(a.run, ".s.PGSQL.*.lock"))
	check(t, err)
	if len(locks) != 1 {
		t.Fatalf("a killed server left %q", locks)
	}
	for _, lock := range append(locks, filepath.Join(filepath.Dir(a.run), "volume", "data", "postmaster.pid")) {
		check(t, os.Truncate(lock, 0))
	}
	a.do(Call{Do: "start"})
}

// TestForeignData: data that are not Mainstay's are not changed, and the error says what they are.
func TestForeignData(t *testing.T) {
	a := newCluster(t).instances[0]
	data := filepath.Join(filepath.Dir(a.run), "volume", "data")
	check(t, os.Mkdir(data, 0o700))
	check(t, os.WriteFile(filepath.Join(data, "photo.jpg"), nil, 0o600))
	refused := func(what, want string) {
		t.Helper()
		if _, err := a.try(Call{Do: "inspect"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", what, err, want)
		}
	}
	refused("of another owner", "belongs to user 0")
	check(t, os.Chown(data, testUser, testUser))
	refused("no database", "no PG_VERSION")
	check(t, os.WriteFile(filepath.Join(data, "PG_VERSION"), []byte("9.6\n"), 0o644))
	refused("an old version", `"9.6": 12 to 18`)
	check(t, os.WriteFile(filepath.Join(data, "PG_VERSION"), []byte("17\n"), 0o644))
	refused("half made", "pg_control is missing")
	if names, err := os.ReadDir(data); err != nil || len(names) != 2 {
		t.Errorf("got %v, %v", names, err)
	}
}
