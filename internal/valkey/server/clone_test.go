package server

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/instance/engine"
	"github.com/mainstay-platform/mainstay/internal/valkey"
)

// cloned returns an engine that has cloned the data of a leader whose history began at 7:500, and
// the directory of the clone. listen gets the leader's end of the stream.
func cloned(t *testing.T, listen func(stream net.Conn)) (*Engine, string) {
	t.Helper()
	lines, err := valkey.Lines{}.Promoted("", 7, strings.Repeat("b", 40), 600)
	if err != nil {
		t.Fatal(err)
	}
	lines[0].Start = 500
	e, _ := made(t)
	e.Me = func() election.Member { return election.Member{Name: "db-1"} }
	e.Stream = func(context.Context, string) (io.ReadWriteCloser, error) {
		here, there := net.Pipe()
		go listen(there)
		go func() {
			_ = writeJSON(there, welcome{System: "abcdefghijklm", Version: "8", Lines: lines})
			_, _ = io.WriteString(there, "+OK\r\n+FULLRESYNC "+lines[0].ID+" 640\r\n$3\r\nabc")
		}()
		return here, nil
	}
	t.Cleanup(func() { letGo(e) })
	directory := filepath.Join(t.TempDir(), "new")
	if err := e.Clone(t.Context(), directory, engine.Upstream{Leader: election.Member{Name: "db-0"}}, nil); err != nil {
		t.Fatal(err)
	}
	return e, directory
}

// letGo releases the stream of an engine's last clone.
func letGo(e *Engine) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.release()
}

// TestCloneHasReached: a clone has all that came before its leader's promotion.
func TestCloneHasReached(t *testing.T) {
	_, directory := cloned(t, func(stream net.Conn) { _, _ = io.Copy(io.Discard, stream) })
	state, err := readState(directory)
	if got := readEnd(directory, state); err != nil || got != "7:500" {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestCloneIsHeld: after the snapshot, the leader's server hears empty lines until the stream is
// released. It would give up a replica that says nothing for a minute, however long this one loads.
func TestCloneIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var heard strings.Builder
		ended := false
		e, _ := cloned(t, func(stream net.Conn) {
			_, _ = io.Copy(&heard, stream)
			ended = true
		})
		synctest.Wait()
		_, asked, _ := strings.Cut(heard.String(), "PSYNC")
		time.Sleep(12*holdInterval + holdInterval/2)
		synctest.Wait()
		_, after, _ := strings.Cut(heard.String(), "PSYNC")
		if got := strings.TrimPrefix(after, asked); got != strings.Repeat("\n", 12) || ended {
			t.Errorf("while it is held, the leader hears %q, ended: %t", got, ended)
		}
		letGo(e)
		synctest.Wait()
		if !ended {
			t.Error("the stream is open after its release")
		}
		time.Sleep(2 * holdInterval)
		synctest.Wait()
		if _, got, _ := strings.Cut(heard.String(), "PSYNC"); got != after {
			t.Errorf("after the release, the leader hears %q", strings.TrimPrefix(got, after))
		}
	})
}

// TestHeldCloneHangs: a stream on which a sign of life is not taken in time is closed.
func TestHeldCloneHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var leader net.Conn
		cloned(t, func(stream net.Conn) {
			leader = stream
			for from := bufio.NewReader(stream); ; {
				line, err := from.ReadString('\n')
				if err != nil || line == "-1\r\n" { // The end of PSYNC ? -1.
					return
				}
			}
		})
		synctest.Wait()
		if err := leader.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2*keepaliveInterval + keepaliveInterval/2)
		if _, err := leader.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("after a write that hangs: %v", err)
		}
	})
}
