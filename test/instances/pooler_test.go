package instances

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/pgbouncer"
	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// poolerRoot is the variable with the file system of the image of PgBouncer.
const poolerRoot = "MAINSTAY_PGBOUNCER_ROOT"

// pooler is a PgBouncer in front of a database, with the write Service that it connects to.
type pooler struct {
	d       *Database
	address string
	process *Process
	log     string
}

// poolerAddress is where a pooler listens.
func (d *Database) poolerAddress() string { return fmt.Sprintf("127.%d.201.1", d.block) }

// serve forwards connections to the instance that is published when they begin, as the write
// Service does.
func (d *Database) serve() {
	d.t.Helper()
	listener, err := net.Listen("tcp", address(d.serviceAddress(), serverPort))
	d.must(err)
	d.cleanups = append(d.cleanups, func() { _ = listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go d.forward(client)
		}
	}()
}

// dialPrimary connects to the primary, or to the next one; nil if there is none for a while. The
// write Service refuses connections meanwhile, and PgBouncer lets clients wait. This one has taken
// them already: if it ended them at once, that would be a failed login, which ends clients, too.
func (d *Database) dialPrimary() net.Conn {
	const again = 20 * time.Millisecond
	for began := time.Now(); time.Since(began) < pgbouncer.ConnectTimeout; time.Sleep(again) { // Then PgBouncer gives up.
		pod := d.Published(context.Background())
		if pod == nil {
			continue
		}
		if server, err := net.DialTimeout("tcp", address(pod.Address, serverPort), time.Second); err == nil {
			return server
		}
	}
	return nil
}

func (d *Database) forward(client net.Conn) {
	defer func() { _ = client.Close() }()
	server := d.dialPrimary()
	if server == nil {
		return
	}
	go func() { _, _ = io.Copy(server, client); _ = server.Close() }()
	_, _ = io.Copy(&lagging{Writer: client, lag: &d.lag}, server)
}

// lagging passes each chunk on after a while.
type lagging struct {
	io.Writer
	lag *atomic.Int64
}

func (l *lagging) Write(chunk []byte) (int, error) {
	<-time.After(time.Duration(l.lag.Load())) // It stands for a slow network.
	return l.Writer.Write(chunk)
}

// declare lets the primary make what provisions say.
func (d *Database) declare(provisions contract.Provisions) {
	d.t.Helper()
	content := provisions.Encode()
	d.writeProvisions(content)
	d.configure(func(s *contract.Settings) { s.Provisions = contract.ProvisionsRevision(content) })
}

// newPooler starts a pooler. It ends with the test.
func newPooler(d *Database, arguments ...string) *pooler {
	d.t.Helper()
	root := os.Getenv(poolerRoot)
	if root == "" {
		d.t.Fatalf("%s is not set: run `make test-instances`, which builds it", poolerRoot)
	}
	outside, release, err := newFolder(filepath.Join(root, "tmp"), "pgbouncer")
	d.must(err)
	d.t.Cleanup(release)
	content, err := os.ReadFile(os.Getenv("MAINSTAY_INSTANCE"))
	d.must(err)
	d.must(errors.Join(os.Chmod(outside, 0o755), os.WriteFile(filepath.Join(outside, "mainstay-instance"), content, 0o755)))
	for _, folder := range []string{"run", "certificates"} {
		path := filepath.Join(outside, folder)
		d.must(errors.Join(os.MkdirAll(path, 0o700), os.Chown(path, user, user)))
	}
	_, err = d.authority.IssueTo(Subject{Name: postgres.PoolerRole, Hosts: []string{"localhost"}}, filepath.Join(outside, "certificates"),
		time.Now().Add(time.Hour))
	d.must(err)
	p := &pooler{d: d, address: d.poolerAddress(), log: filepath.Join(outside, "log")}
	inside := "/tmp/" + filepath.Base(outside)
	flags := append([]string{
		"pooler", "--host=" + d.serviceAddress(), "--listen=" + p.address, "--run=" + inside + "/run", "--certificates=" + inside + "/certificates",
		"--probes=" + p.address + ":8080", "--log-format=text",
	}, arguments...)
	p.process, err = start(root, p.log, []string{"PATH=/usr/sbin:/usr/bin:/bin", "HOME=/tmp"}, func() {},
		append([]string{inside + "/mainstay-instance"}, flags...)...)
	d.must(err)
	d.t.Cleanup(func() {
		p.process.Kill()
		if text, _ := os.ReadFile(p.log); d.t.Failed() {
			d.t.Logf("log of the pooler:\n%s", text)
		}
	})
	return p
}

// isReady reports whether the pooler has met the primary, as its probe says.
func (p *pooler) isReady() bool {
	request, err := http.NewRequestWithContext(p.d.t.Context(), http.MethodGet, "http://"+p.address+":8080/readyz", http.NoBody)
	p.d.must(err)
	response, err := http.DefaultClient.Do(request)
	return err == nil && response.Body.Close() == nil && response.StatusCode == http.StatusOK
}

// connect connects the application through the pooler to its database.
func (p *pooler) connect(ctx context.Context, password string) (*pgx.Conn, error) {
	return p.connectTo(ctx, "shop", "app", password)
}

func (p *pooler) connectTo(ctx context.Context, database, user, password string) (*pgx.Conn, error) {
	config, err := p.configOf(database, user, password)
	if err != nil {
		return nil, err
	}
	return pgx.ConnectConfig(ctx, config)
}

func (p *pooler) configOf(database, user, password string) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(fmt.Sprintf("host=%s port=%d user=%s dbname=%s sslmode=require", p.address, serverPort, user, database))
	if err != nil {
		return nil, err
	}
	config.Password = password
	config.TLSConfig = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // this is a test's pooler
	return config, nil
}

// load writes through the pooler by some clients, until it is stopped.
type load struct {
	stop     context.CancelFunc
	clients  sync.WaitGroup
	rows     atomic.Int64
	failures atomic.Int64
	refused  atomic.Int64
	mu       sync.Mutex
	last     string
	gap      time.Duration
}

// notUnderWay is in the error of a statement that PgBouncer has not sent to a server: the pool had
// no connection any more, and the newest one could not be made (its check_fast_fail).
const notUnderWay = "server_login_retry"

// clients is how many write, and some how many rows show that they do: more than one of each.
const (
	clients = 200
	some    = 2 * clients
)

// newLoad starts clients, each of which has one connection, and connects again after a failure.
func newLoad(t *testing.T, p *pooler) *load {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	l := &load{stop: stop}
	for range clients {
		l.clients.Go(func() { l.client(ctx, p) })
	}
	t.Cleanup(l.end)
	return l
}

func (l *load) end() {
	l.stop()
	l.clients.Wait()
}

func (l *load) client(ctx context.Context, p *pooler) {
	const pause = 200 * time.Millisecond
	var session *pgx.Conn
	var err error
	last := time.Now()
	for ; ctx.Err() == nil; time.Sleep(pause) {
		if session == nil {
			if session, err = p.connect(ctx, "secret"); err != nil {
				session = nil
			}
		}
		if session != nil {
			_, err = session.Exec(ctx, "INSERT INTO rows VALUES (1)")
		}
		l.note(ctx, err, time.Since(last))
		last = time.Now()
		if err != nil && session != nil {
			_ = session.Close(context.Background())
			session = nil
		}
	}
	if session != nil {
		_ = session.Close(context.Background())
	}
}

func (l *load) note(ctx context.Context, err error, took time.Duration) {
	if ctx.Err() != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gap = max(l.gap, took)
	if err != nil {
		l.failures.Add(1)
		if l.last = err.Error(); strings.Contains(l.last, notUnderWay) {
			l.refused.Add(1)
		}
		return
	}
	l.rows.Add(1)
}

// reset forgets what was counted, and waits for the next rows.
func (l *load) reset(d *Database) {
	d.t.Helper()
	l.mu.Lock()
	l.gap, l.last = 0, ""
	l.failures.Store(0)
	l.refused.Store(0)
	l.rows.Store(0)
	l.mu.Unlock()
	d.Await("rows of the clients", func() bool { return l.rows.Load() > some })
}

// TestPooler: clients of a pooler wait, and none of their statements fails, while the primary hands
// over. After a failover they go on. Logins that the server refuses are refused here.
//
// It is not parallel, so that it runs before the others: no statement may wait for longer than a
// minute, and where the processors are shared by too many, hundreds of logins alone take that.
func TestPooler(t *testing.T) {
	d := New(t, server, contract.Settings{FailoverAfter: longAfter}, 3)
	d.mount(map[string]string{"username": "app", "password": "secret", "dbname": "shop"})
	d.Await("three instances that serve", func() bool { return d.IsWhole(t.Context()) })
	d.declare(contract.Provisions{Pooler: true})
	d.serve()
	p := newPooler(d, "--ignore="+ignored)
	d.Await("a statement through the pooler", func() bool {
		session, err := p.connect(t.Context(), "secret")
		if err != nil {
			return false
		}
		defer func() { _ = session.Close(context.Background()) }()
		_, err = session.Exec(t.Context(), "CREATE TABLE IF NOT EXISTS rows (number int)")
		return err == nil
	})
	p.refuses()
	p.startsUp(t)
	l := newLoad(t, p)
	p.handsOver(l)
	d.Await("three instances that serve again", func() bool { return d.IsWhole(t.Context()) })
	p.failsOver(l)
	p.ends(l)
	for _, pod := range d.Pods {
		if strings.Contains(pod.log(), "secret") {
			t.Errorf("the log of %s has the password", pod.Name)
		}
	}
}

// refuses checks who can't log in: least of all as the pooler itself, or to its console.
func (p *pooler) refuses() {
	p.d.t.Helper()
	for _, one := range [][2]string{
		{"app", "wrong"}, {"app", ""}, {"postgres", ""}, {postgres.PoolerRole, ""}, {postgres.PoolerRole, postgres.PoolerRole}, {"nobody", "secret"},
		{"pgbouncer", ""}, {postgres.ReplicationRole, ""},
	} {
		for _, database := range []string{"shop", "postgres", "pgbouncer"} {
			if session, err := p.connectTo(p.d.t.Context(), database, one[0], one[1]); err == nil {
				_ = session.Close(context.Background())
				p.d.t.Errorf("%s connects to %s with the password %q", one[0], database, one[1])
			}
		}
	}
	if session, err := p.connectTo(p.d.t.Context(), "pgbouncer", "app", "secret"); err == nil {
		_ = session.Close(context.Background())
		p.d.t.Error("a user of the database is an administrator of the pooler")
	}
}

// handsOver lets the primary hand over: no statement fails.
func (p *pooler) handsOver(l *load) {
	d := p.d
	d.t.Helper()
	l.reset(d)
	former := d.Published(d.t.Context())
	term := d.Record(d.t.Context()).Term
	d.configure(func(s *contract.Settings) { s.SwitchFrom = term })
	d.Await("another primary", func() bool {
		now := d.Published(d.t.Context())
		return now != nil && now != former
	})
	rows := l.rows.Load()
	d.Await("rows after the handover", func() bool { return l.rows.Load() > rows+some })
	d.t.Logf("a planned handover: the longest wait of a statement was %s", l.gap.Round(time.Millisecond))
	if l.failures.Load() > 0 {
		d.t.Errorf("%d statements failed, the last with %s", l.failures.Load(), l.last)
	}
}

// failsOver kills the primary: what was under way fails, and what comes before PgBouncer holds
// statements back may be refused, which takes milliseconds, or a tenth of a second on a busy
// machine: no client is refused again and again. That statements are held back at all is what
// handsOver shows: without it, hundreds fail there.
func (p *pooler) failsOver(l *load) {
	const pool = 20
	d := p.d
	d.t.Helper()
	l.reset(d)
	d.Published(d.t.Context()).Kill()
	d.Await("another primary", func() bool {
		now := d.Published(d.t.Context())
		return now != nil && now.Running()
	})
	rows := l.rows.Load()
	d.Await("rows after the failover", func() bool { return l.rows.Load() > rows+some })
	refused := l.refused.Load()
	if failed := l.failures.Load() - refused; failed > 2*pool {
		d.t.Errorf("%d statements failed, and %d at most were under way: the last with %s", failed, pool, l.last)
	}
	if refused > 2*clients {
		d.t.Errorf("%d statements of %d clients were refused: the same ones again and again", refused, clients)
	}
	d.t.Logf("a failover: the longest wait was %s, %d statements failed, %d of them refused, last: %s", l.gap.Round(time.Millisecond),
		l.failures.Load(), refused, l.last)
}

// ends lets the pooler end: clients that are there go on until they leave, and then it is gone.
func (p *pooler) ends(l *load) {
	d := p.d
	d.t.Helper()
	l.reset(d)
	p.process.Signal(syscall.SIGTERM)
	rows := l.rows.Load()
	d.Await("rows while the pooler waits for its clients", func() bool { return l.rows.Load() > rows+some })
	if l.failures.Load() > 0 {
		d.t.Errorf("%d statements failed while the pooler ended, the last with %s", l.failures.Load(), l.last)
	}
	l.end()
	select {
	case <-p.process.ended:
	case <-time.After(within):
		d.t.Error("the pooler does not end after its clients")
	}
}
