package instance

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"

	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/instance/election"
)

// lines are what the programs have logged. They have a lock of their own, because the programs log
// at any moment.
type lines struct {
	mu   sync.Mutex
	text []string
}

// logger returns the logger of the program of a pod.
func (d *database) logger(pod string) logr.Logger {
	begun := time.Now()
	return funcr.New(func(_, text string) {
		if testing.Verbose() {
			d.t.Log(time.Since(begun).Round(time.Millisecond), pod, text)
		}
		d.logged.mu.Lock()
		defer d.logged.mu.Unlock()
		d.logged.text = append(d.logged.text, pod+" "+text)
	}, funcr.Options{})
}

// lines returns how many lines of a pod have all of the words.
func (d *database) lines(pod string, words ...string) int {
	d.logged.mu.Lock()
	defer d.logged.mu.Unlock()
	return len(slices.DeleteFunc(slices.Clone(d.logged.text), func(line string) bool {
		return !strings.HasPrefix(line, pod+" ") || slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(line, word) })
	}))
}

// said returns what a pod has reported last.
func (d *database) said(pod string) contract.Report {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.reports[pod]
}

// fail makes all messages of a pod to the others fail with the error, and those of the others to
// it; nil ends that.
func (d *database) fail(pod string, why error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.unreachable, d.unreachableWhy = pod, why
}

// TestLackingIsReported: an instance that may not lead alone says which answers it needs, and why
// it has none, in its report, from which the metric is made, and once in its log. That stays so
// while it asks again and again.
func TestLackingIsReported(t *testing.T) {
	run(t, func(t *testing.T, d *database) {
		leader := d.leader()
		left := pods[(slices.Index(pods, leader)+1)%3]
		gone := pods[(slices.Index(pods, leader)+2)%3]
		d.crash(gone)
		d.crash(leader)
		d.pass(12 * time.Second)
		needs := fmt.Sprintf("needs the answer of %s, or of 1 of %s to lead", leader, gone)
		silent := leader + " does not answer"
		for range 20 {
			d.pass(700 * time.Millisecond)
			report, status := d.said(left), d.programs[left].instance.Status().Report
			if !strings.Contains(report.Problem, needs) || !strings.Contains(report.Problem, silent) || status.Problem != report.Problem {
				t.Fatalf("it reports %q, and its status is %q: want %q and %q", report.Problem, status.Problem, needs, silent)
			}
		}
		if d.lines(left, needs) != 1 || d.lines(left, "messages to another instance fail", silent) != 1 {
			t.Errorf("it logs %d times what it needs, and %d times who does not answer",
				d.lines(left, needs), d.lines(left, "messages to another instance fail", silent))
		}
		d.start(leader)
		d.start(gone)
		d.settle()
		d.pass(5 * time.Second)
		if report := d.said(left); report.Problem != "" || d.lines(left, "arrive again", gone) > 1 {
			t.Errorf("it still reports %+v, and logs %d times that one answers again", report, d.lines(left, "arrive again", gone))
		}
	})
}

// TestMessagesThatFail: a leader logs once why the messages to a replica fail, and that replica
// reports that it hears nothing.
func TestMessagesThatFail(t *testing.T) {
	run(t, func(t *testing.T, d *database) {
		leader := d.leader()
		replica := pods[(slices.Index(pods, leader)+1)%3]
		const why = "x509: certificate has expired"
		d.fail(replica, errors.New(why))
		d.pass(6 * time.Second)
		d.servers.Crash(replica) // When it starts again, nobody tells it from whom it should receive.
		d.pass(24 * time.Second)
		if count := d.lines(leader, "messages to another instance fail", why); count != 1 {
			t.Errorf("the leader logs %d times why the messages fail", count)
		}
		if problem := d.said(replica).Problem; !strings.Contains(problem, "hears nothing from "+leader) {
			t.Errorf("the replica reports %q", problem)
		}
		if problem := d.said(leader).Problem; problem != "" {
			t.Errorf("the leader reports %q", problem)
		}
		d.fail("", nil)
		d.settle()
		if count := d.lines(leader, "arrive again", replica); count != 1 || d.said(replica).Problem != "" {
			t.Errorf("the leader logs %d times that messages arrive again, and the replica reports %+v", count, d.said(replica))
		}
	})
}

// TestFailuresAreLoggedSeldom: errors that differ each time are logged once a minute, one that
// does not last is not, and one that lasts is reported until there were no further messages for a
// while.
func TestFailuresAreLoggedSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &database{t: t}
		i := &Instance{failing: map[string]failing{}, core: &election.Observed{Peers: []election.Peer{{Name: "db-1"}}}}
		i.Log = d.logger("db-0")
		i.noteAnswer("db-1", errors.New("it restarts"))
		time.Sleep(doubtAfter - time.Second)
		i.noteAnswer("db-1", errors.New("it restarts"))
		if said := i.unanswered(); said != "" {
			t.Errorf("after %s it reports %q", doubtAfter-time.Second, said)
		}
		i.noteAnswer("db-1", nil)
		for attempt := range 600 {
			i.noteAnswer("db-1", fmt.Errorf("port %d is unreachable", attempt))
			time.Sleep(time.Second)
		}
		if count := d.lines("db-0"); count != 10 {
			t.Errorf("logged %d times in ten minutes, want once a minute", count)
		}
		if said := i.unanswered(); said != "port 545 is unreachable" {
			t.Errorf("it reports %q, want what it has logged", said)
		}
		time.Sleep(failingFor)
		if said := i.unanswered(); said != "" {
			t.Errorf("it reports %q, and has sent nothing for a while", said)
		}
		i.core.Others = []string{"db-2"} // Now db-1 was removed.
		for attempt := range 600 {
			time.Sleep(time.Second)
			i.noteAnswer("db-1", fmt.Errorf("port %d is unreachable", attempt))
		}
		if count := d.lines("db-0"); count != 11 {
			t.Errorf("the errors of an instance that was removed are logged %d times", count-10)
		}
	})
}
