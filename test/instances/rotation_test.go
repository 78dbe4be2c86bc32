package instances

import (
	"context"
	"crypto/tls"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/kinds/postgresql"
	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// rotator does what the manager does about one user, with a Secret of its own.
type rotator struct {
	d      *Database
	user   databasev1.User
	before contract.Provisions
	now    time.Time
	drawn  int
	// further is what the primary is to make beside the user.
	further contract.Provisions
	// secret is what clients read.
	secret atomic.Pointer[postgresql.ObservedUser]
}

// reconcile decides once, and waits until the primary has made what was decided. The Secret is
// written first.
func (r *rotator) reconcile() postgresql.ObservedUser {
	r.d.t.Helper()
	before := postgresql.Before{Provisions: r.before, IsMade: true}.LoginsOf(r.user.Name)
	one := postgresql.ObservedUser{}
	if stored := r.secret.Load(); stored != nil {
		one = postgresql.ObservedUser{Login: stored.Login, IsStored: true, Password: stored.Password, Next: stored.Next}
	}
	draw := func() string {
		r.drawn++
		return fmt.Sprintf("9f2c-password-%d-%d", r.d.block, r.drawn)
	}
	if one.Password == "" {
		one.Password = draw()
	} else if one.Next == "" && postgresql.IsDue(r.user, before, r.now) {
		one.Next = draw()
	}
	verifier := func(login, password string) string {
		for _, user := range r.before.Users {
			if user.Name == login && postgres.Verifies(user.Verifier, password) {
				return user.Verifier
			}
		}
		made, err := postgres.Verifier(password)
		r.d.must(err)
		return made
	}
	one.Verifier = verifier(before.Named(r.user, one.Login), one.Password)
	if one.Next != "" {
		one.NextVerifier = verifier(before.Waiting(r.user.Name), one.Next)
	}
	one = one.Rotate(r.user, before, r.now)
	r.secret.Store(&one)
	next := r.further
	next.Pooler, next.Users = true, nil
	for _, user := range one.Users {
		user.ConnectionLimit = -1
		if user.As != "" {
			user.Roles = []string{user.As}
		}
		next.Users = append(next.Users, user)
	}
	r.before = next
	r.d.declare(next)
	revision := contract.ProvisionsRevision(next.Encode())
	r.d.Await("the primary to make the user", func() bool {
		primary := r.d.Published(r.d.t.Context())
		return primary != nil && primary.Report(r.d.t.Context()).Provisions == revision
	})
	return one
}

// reconnecting clients connect again and again, each time as the Secret says.
type reconnecting struct {
	clients sync.WaitGroup
	// rounds counts the connections of each client.
	rounds   []atomic.Int64
	failures atomic.Int64
	mu       sync.Mutex
	last     string
}

func (r *reconnecting) note(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = err.Error()
	r.failures.Add(1)
}

// everyone waits until each client has connected twice more: once surely as the Secret says now.
func (r *reconnecting) everyone(d *Database) {
	d.t.Helper()
	before := make([]int64, len(r.rounds))
	for i := range r.rounds {
		before[i] = r.rounds[i].Load()
	}
	d.Await("connections of every client", func() bool {
		for i := range r.rounds {
			if r.rounds[i].Load() < before[i]+2 && r.failures.Load() == 0 {
				return false
			}
		}
		return true
	})
}

// logIn connects to a server or a pooler, and returns as whom.
func logIn(ctx context.Context, host, user, password string) (string, error) {
	config, err := pgx.ParseConfig(fmt.Sprintf("host=%s port=%d user=%s dbname=shop sslmode=require", host, serverPort, user))
	if err != nil {
		return "", err
	}
	config.Password = password
	config.TLSConfig = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // this is a test's server
	session, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return "", err
	}
	defer func() { _ = session.Close(context.Background()) }()
	var as string
	err = session.QueryRow(ctx, "SELECT current_user").Scan(&as)
	return as, err
}

// TestRotation: while a password rotates, no client that reads the Secret before it connects is
// refused, by the server or by a pooler, and each is the user; the former password ends.
func TestRotation(t *testing.T) {
	t.Parallel()
	d := New(t, server, contract.Settings{FailoverAfter: after, Parameters: map[string]string{"max_connections": "300"}}, 1)
	d.mount(map[string]string{"username": "app", "password": "secret", "dbname": "shop"})
	d.Await("an instance that serves", func() bool { return d.IsWhole(t.Context()) })
	r := &rotator{d: d, user: databasev1.User{Name: "orders"}, now: time.Now()}
	r.reconcile()
	d.serve()
	p := newPooler(d)
	primary := d.Published(t.Context()).Address
	d.Await("a login through the pooler", func() bool {
		_, err := logIn(t.Context(), p.address, "orders", r.secret.Load().Password)
		return err == nil
	})
	// Each login costs processor time: with a shorter pause, this test uses all that others leave.
	const clients, pause = 200, 2 * time.Second
	ctx, stop := context.WithCancel(t.Context())
	c := &reconnecting{rounds: make([]atomic.Int64, clients)}
	for i := range clients {
		host := []string{primary, p.address}[i%2]
		c.clients.Go(func() {
			for ; ctx.Err() == nil; time.Sleep(pause) {
				secret := r.secret.Load()
				as, err := logIn(ctx, host, secret.Login, secret.Password)
				if err == nil && as != "orders" {
					err = fmt.Errorf("logged in as %s", as)
				}
				if err != nil && ctx.Err() == nil {
					c.note(fmt.Errorf("%s at %s: %w", secret.Login, host, err))
				}
				c.rounds[i].Add(1)
			}
		})
	}
	t.Cleanup(func() { stop(); c.clients.Wait() })
	c.everyone(d)
	for _, want := range []string{"orders.2", "orders", "orders.2"} {
		r.rotates(c, []string{primary, p.address}, want)
	}
	stop()
	c.clients.Wait()
	var connections int64
	for i := range c.rounds {
		connections += c.rounds[i].Load()
	}
	t.Logf("%d connections by %d clients in three rotations, %d refused", connections, clients, c.failures.Load())
	if c.failures.Load() > 0 {
		t.Errorf("%d connections failed, the last with %s", c.failures.Load(), c.last)
	}
}

// rotates lets the password of the user rotate once, until the former one has ended.
func (r *rotator) rotates(c *reconnecting, hosts []string, want string) {
	d := r.d
	d.t.Helper()
	former := *r.secret.Load()
	r.now = r.now.Add(time.Minute)
	r.user.RotatedAt = new(metav1.NewTime(r.now))
	if one := r.reconcile(); one.Login != former.Login || one.Password != former.Password || one.Next == "" {
		d.t.Errorf("before the next password is made, the Secret has %s", one.Login)
	}
	c.everyone(d)
	if one := r.reconcile(); one.Login != want || one.Password == former.Password || one.Next != "" {
		d.t.Errorf("then the Secret has %s, want %s", one.Login, want)
	}
	for _, host := range hosts {
		if as, err := logIn(d.t.Context(), host, former.Login, former.Password); err != nil || as != "orders" {
			d.t.Errorf("the former password within the overlap: got %s, %v", as, err)
		}
	}
	c.everyone(d)
	r.now = r.now.Add(time.Hour)
	r.reconcile()
	for _, host := range hosts {
		if _, err := logIn(d.t.Context(), host, former.Login, former.Password); err == nil {
			d.t.Error("the former password is still accepted")
		}
	}
	c.everyone(d)
}

// rotateNow lets the user get its next password.
func (r *rotator) rotateNow() {
	r.d.t.Helper()
	r.user.RotatedAt = new(metav1.NewTime(r.now))
	r.reconcile()
	r.reconcile()
}

// writeProvisions writes the Secret with what the primary is to make.
func (d *Database) writeProvisions(content []byte) {
	d.t.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.namespace, Name: contract.ProvisionsName(name)},
		Data:       map[string][]byte{contract.ProvisionsKey: content},
	}
	if err := d.server.Client.Create(d.t.Context(), secret.DeepCopy()); err != nil {
		d.must(d.server.Client.Update(d.t.Context(), secret))
	}
}
