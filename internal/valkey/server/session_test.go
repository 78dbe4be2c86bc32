package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/instance/engine"
	"github.com/mainstay-platform/mainstay/internal/valkey"
)

// fake is a server that answers commands with answer. While it stalls, it reads none.
type fake struct {
	answer func(command string) string
	done   chan struct{}

	mu    sync.Mutex
	until time.Time
	said  []string
	dials int
	last  net.Conn
}

// stall lets the server do nothing for a duration from now on.
func (f *fake) stall(duration time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.until = time.Now().Add(duration)
}

// dial opens a connection to the server.
func (f *fake) dial(context.Context, *net.Dialer) (net.Conn, error) {
	here, there := net.Pipe()
	f.mu.Lock()
	f.dials, f.last = f.dials+1, there
	f.mu.Unlock()
	go f.serve(there)
	return here, nil
}

func (f *fake) serve(connection net.Conn) {
	for reader := bufio.NewReader(connection); ; {
		command, err := valkey.ReadCommand(reader)
		if err != nil {
			return
		}
		f.mu.Lock()
		rest := time.Until(f.until)
		f.mu.Unlock()
		select {
		case <-time.After(rest):
		case <-f.done:
			return
		}
		text := strings.Join(command, " ")
		f.mu.Lock()
		f.said = append(f.said, text)
		f.mu.Unlock()
		answer := f.answer(text)
		if answer == "" {
			answer = "+OK\r\n"
		}
		if _, err := io.WriteString(connection, answer); err != nil {
			return
		}
	}
}

// count returns how often the server has got a command with that beginning, and how often a session
// was opened.
func (f *fake) count(start string) (commands, dials int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, command := range f.said {
		if strings.HasPrefix(command, start) {
			commands++
		}
	}
	return commands, f.dials
}

// bulk is a text as the server sends it.
func bulk(text string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text) }

// replicates is what a standby says that follows nobody, or a leader with a replica.
func replicates(role string) string {
	return bulk("role:" + role + "\r\nmaster_link_status:down\r\nmaster_replid:" + strings.Repeat("a", 40) +
		"\r\nmaster_repl_offset:0\r\nslave_repl_offset:0\r\nrepl_backlog_active:1\r\n")
}

// run returns an engine with a life whose server is the fake. It has no supervisor: a test in which
// the server is killed panics.
//
// A fake that stalls already does so while the session logs in.
func (f *fake) run(t *testing.T) (*Engine, *life) {
	t.Helper()
	e, _ := made(t)
	e.Clock, f.done = clock.RealClock{}, make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	relay, err := newRelay(e)
	if err != nil {
		t.Fatal(err)
	}
	l := &life{ctx: ctx, cancel: cancel, relay: relay, given: map[string]string{}, streams: map[int]context.CancelFunc{}}
	session, err := openSession("mainstay", "secret", f.dial)
	if err != nil {
		t.Fatal(err)
	}
	l.session.Store(session)
	t.Cleanup(func() {
		cancel()
		relay.close()
		close(f.done)
		session.Close()
		_ = f.last.Close()
	})
	e.life, e.observed.Server.State = l, election.Standby
	return e, l
}

// TestSilence: a session outlives an answer that takes an hour, because there might be no room for
// another one. Meanwhile the same command is sent once, however often it is repeated.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{answer: func(string) string { return "" }}
		_, l := f.run(t)
		f.stall(time.Hour)
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			_, err := l.do(ctx, "PING")
			if cancel(); !errors.Is(err, context.DeadlineExceeded) || isLasting(err) {
				t.Errorf("got %v", err)
			}
		}
		time.Sleep(time.Hour)
		if _, err := l.do(t.Context(), "PING"); err != nil {
			t.Errorf("afterwards: %v", err)
		}
		time.Sleep(2 * time.Hour)
		if commands, dials := f.count("PING"); commands != 2 || dials != 1 {
			t.Errorf("got %d commands in %d sessions", commands, dials)
		}
	})
}

// TestSlowLogin: the administrator's login may take longer than that of others.
func TestSlowLogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{answer: func(string) string { return "" }}
		f.stall(8 * time.Second)
		_, l := f.run(t)
		if l.session.Load() == nil {
			t.Error("there is no session")
		}
	})
}

// TestInsist: a command is repeated until the server answers it, and not if the answer would be the
// same. It ends with the server.
func TestInsist(t *testing.T) {
	for name, test := range map[string]struct {
		first string
		stall time.Duration
		ends  bool
		want  string
	}{
		"an answer":          {want: "yes"},
		"a slow answer":      {stall: time.Minute, want: "yes"},
		"a script":           {first: "-BUSY a script runs\r\n", want: "yes"},
		"data to be loaded":  {first: "-LOADING the data\r\n", want: "yes"},
		"another error":      {first: "-ERR unknown command\r\n", want: "unknown command"},
		"a lost connection":  {first: "close", want: "yes"},
		"the server's end":   {stall: time.Minute, ends: true, want: "context canceled"},
		"a command too many": {first: "-ERR max number of clients reached\r\n", want: "yes"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, asked := &fake{}, 0
				f.answer = func(command string) string {
					if command != "GET x" {
						return ""
					}
					if asked++; asked > 1 || test.first == "" {
						return "+yes\r\n"
					}
					if test.first == "close" {
						_ = f.last.Close()
					}
					return test.first
				}
				e, l := f.run(t)
				f.stall(test.stall)
				if test.ends {
					time.AfterFunc(20*time.Second, l.cancel)
				}
				text, err := e.insist(t.Context(), l, "GET", "x")
				got := text
				if err != nil {
					got = err.Error()
				}
				if !strings.Contains(got, test.want) {
					t.Errorf("got %q", got)
				}
				kills, _ := f.count("SCRIPT KILL")
				if (kills > 0) != strings.HasPrefix(test.first, "-BUSY") {
					t.Errorf("scripts were ended %d times", kills)
				}
			})
		})
	}
}

// TestSlowUnfollow: a standby that does not answer while it is to stop receiving may do so later.
func TestSlowUnfollow(t *testing.T) {
	for _, test := range []struct {
		stall          time.Duration
		inMemory, want bool
	}{{unfollowTimeout / 2, false, true}, {time.Minute, false, false}, {time.Minute, true, true}, {2 * unfollowTimeoutInMemory, true, false}} {
		stall, want := test.stall, test.want
		synctest.Test(t, func(t *testing.T) {
			f := &fake{answer: func(command string) string {
				if strings.HasPrefix(command, "INFO") {
					return replicates("slave")
				}
				return ""
			}}
			e, l := f.run(t)
			l.inMemory = test.inMemory
			e.note(l, func(o *engine.Observation) { o.Server.Source.Term = 4 })
			f.stall(stall)
			if err := e.Unfollow(t.Context()); (err == nil) != want {
				t.Errorf("%s: got %v", stall, err)
			}
			if server := e.Observe().Server; want && (server.Source != election.Source{} || !server.Final) {
				t.Errorf("%s: got %+v", stall, server)
			}
		})
	}
}

// TestSlowStart: a server that takes long for its first commands is not killed for that.
func TestSlowStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		f.answer = func(command string) string {
			if strings.HasPrefix(command, "INFO") {
				f.stall(8 * time.Second)
				return replicates("slave")
			}
			if strings.HasPrefix(command, "ACL") || strings.HasPrefix(command, "CONFIG") {
				f.stall(8 * time.Second)
			}
			return ""
		}
		e, l := f.run(t)
		f.stall(8 * time.Second)
		e.application = valkey.Application{User: "app", Password: "password"}
		state, err := readState(e.Data)
		if err == nil {
			err = e.afterLoading(t.Context(), l, state)
		}
		if err == nil {
			err = e.begin(t.Context(), l)
		}
		if err != nil {
			t.Error(err)
		}
		l.cancel()
	})
}

// TestSlowPromotion: a server that takes long for one command of its promotion leads in the end,
// and so does one that has carried out a command, but whose answer is lost.
func TestSlowPromotion(t *testing.T) {
	for _, slow := range []string{"CLIENT PAUSE", "REPLICAOF NO ONE", "INFO replication", "CLIENT UNPAUSE"} {
		for _, isLost := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				f, role, done := &fake{}, "slave", false
				f.answer = func(command string) string {
					if command == "REPLICAOF NO ONE" {
						role = "master"
					}
					if strings.HasPrefix(command, slow) && !done {
						done = true
						if isLost {
							_ = f.last.Close()
						} else {
							time.Sleep(changeTime * 3 / 4)
						}
					}
					if strings.HasPrefix(command, "INFO") {
						return replicates(role)
					}
					return ""
				}
				e, l := f.run(t)
				if err := e.lead(t.Context(), l, 4); err != nil {
					t.Errorf("%s, lost %t: %v", slow, isLost, err)
				}
				if server := e.Observe().Server; server.State != election.Leading || server.Timeline != 4 || !done {
					t.Errorf("%s, lost %t: got %+v", slow, isLost, server)
				}
				if _, dials := f.count(""); (dials > 1) != isLost {
					t.Errorf("%s, lost %t: %d sessions", slow, isLost, dials)
				}
			})
		}
	}
}

// TestStopStores: a leader that stores its data is stopped cleanly only once it has written what it
// has acknowledged, unless another member is about to have that. A disk that is too slow, or full,
// does not keep it from stopping.
func TestStopStores(t *testing.T) {
	for name, test := range map[string]struct {
		persists, isNear, isFull bool
		// buffers is for how long the server does not write, and want is when it has stopped.
		buffers, want time.Duration
	}{
		"nothing to write":      {persists: true},
		"a slow disk":           {persists: true, buffers: 2 * time.Second, want: 2 * time.Second},
		"a disk that hangs":     {persists: true, buffers: time.Hour, want: storeTime},
		"a full disk":           {persists: true, isFull: true, buffers: time.Hour},
		"a successor":           {persists: true, isNear: true, buffers: time.Hour},
		"data in memory only":   {buffers: time.Hour},
		"a disk that hung once": {persists: true, buffers: storeTime - time.Second, want: storeTime - time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, begun, stopped := &fake{}, time.Now(), time.Duration(-1)
				f.answer = func(command string) string {
					switch {
					case command == "CLIENT UNPAUSE":
						stopped = time.Since(begun)
					case command == "INFO persistence" && time.Since(begun) < test.buffers && test.isFull:
						return bulk("aof_last_write_status:err\r\naof_buffer_length:100\r\n")
					case command == "INFO persistence" && time.Since(begun) < test.buffers:
						return bulk("aof_last_write_status:ok\r\naof_buffer_length:100\r\n")
					case command == "INFO persistence":
						return bulk("aof_last_write_status:ok\r\naof_buffer_length:0\r\n")
					case strings.HasPrefix(command, "INFO"):
						return bulk("role:slave\r\nmaster_link_status:down\r\nmaster_replid:" + strings.Repeat("a", 40) + "\r\nslave_repl_offset:150\r\n")
					}
					return ""
				}
				e, l := f.run(t)
				l.persists = test.persists
				e.lines, _ = promotions(t)
				e.note(l, func(o *engine.Observation) { o.Receivers = []engine.Receiver{{Near: test.isNear}} })
				if err := e.StopCleanly(t.Context()); err != nil {
					t.Error(err)
				}
				if stopped < test.want || stopped > test.want+time.Second/2 || !e.Observe().Server.Clean {
					t.Errorf("stopped after %s, want %s: %+v", stopped, test.want, e.Observe().Server)
				}
			})
		})
	}
}

// TestReloadAgain: a parameter is refused only if the server says so. Without an answer about the
// parameter, the reload fails, so that it is tried again.
func TestReloadAgain(t *testing.T) {
	for answer, want := range map[string]string{
		"-BUSY a script runs\r\n": "fails", "close": "fails", "+OK\r\n": "", "-ERR must be a number\r\n": "hz: CONFIG: must be a number",
		"-ERR can't set immutable config\r\n": "pending",
	} {
		synctest.Test(t, func(t *testing.T) {
			f := &fake{}
			f.answer = func(command string) string {
				if !strings.HasPrefix(command, "CONFIG SET hz") {
					return ""
				}
				if answer == "close" {
					_ = f.last.Close()
				}
				return answer
			}
			e, _ := f.run(t)
			e.SetParameters(map[string]string{"hz": "100"})
			err := e.Reload(t.Context())
			got := e.Observe().Problem
			switch {
			case err != nil && got == "":
				got = "fails"
			case e.Observe().PendingRestart:
				got = "pending"
			}
			if !strings.Contains(got, want) || (got == "") != (want == "") {
				t.Errorf("%q: got %q, %v", answer, got, err)
			}
		})
	}
}

// TestReloadAndBack: a change that got no answer, and may be in effect, is undone if the value goes
// back.
func TestReloadAndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{answer: func(string) string { return "" }}
		e, _ := f.run(t)
		sets := func(hz string, stall time.Duration) error {
			e.SetParameters(map[string]string{"hz": hz})
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			f.stall(stall)
			return e.Reload(ctx)
		}
		if err := sets("10", 0); err != nil {
			t.Fatal(err)
		}
		f.answer = func(command string) string {
			if command == "CONFIG SET hz 100" {
				time.Sleep(5 * time.Second)
			}
			return ""
		}
		if err := sets("100", 0); err == nil {
			t.Error("without an answer, it succeeds")
		}
		time.Sleep(10 * time.Second)
		if err := sets("10", 0); err != nil {
			t.Error(err)
		}
		if commands, _ := f.count("CONFIG SET hz 10"); commands != 3 { // two with 10, one with 100
			t.Errorf("it was set %d times", commands)
		}
	})
}

// TestLatestPassword: the server never gets an older password after a newer one, although starts of
// the server give it the application's user at the same time.
func TestLatestPassword(t *testing.T) {
	f := &fake{answer: func(string) string { return "" }}
	e, l := f.run(t)
	ctx, cancel := context.WithCancel(t.Context())
	var starts sync.WaitGroup
	for range 4 {
		starts.Go(func() {
			for ctx.Err() == nil {
				_ = e.provideAgain(ctx, l)
			}
		})
	}
	order := map[string]int{}
	for i := range 2000 {
		a := valkey.Application{User: "app", Password: fmt.Sprintf("password-%d", i)}
		order[valkey.Hash(a.Password)] = i
		if err := e.Provide(t.Context(), a); err != nil {
			t.Error(err)
		}
	}
	cancel()
	starts.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	newest := 0
	for _, command := range f.said {
		_, rest, _ := strings.Cut(command, "#")
		if hash, _, isUser := strings.Cut(rest, " "); isUser {
			if order[hash] < newest {
				t.Fatalf("the server got password %d after password %d", order[hash], newest)
			}
			newest = order[hash]
		}
	}
	if newest != len(order)-1 {
		t.Errorf("the last password is %d", newest)
	}
}
