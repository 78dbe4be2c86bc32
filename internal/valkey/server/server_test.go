package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/instance/engine"
	"github.com/mainstay-platform/mainstay/internal/instance/supervise"
	"github.com/mainstay-platform/mainstay/internal/valkey"
)

func TestMajorOf(t *testing.T) {
	for said, want := range map[string]string{
		"Valkey server v=8.1.1 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=384b3c0d511f998a\n": "8",
		"Valkey server v=9.1.2 sha=0": "9", "Valkey server v=7.2.0 sha=0": "", "Redis server v=7.0.0": "", "": "", "Valkey server v=10.0": "",
	} {
		if got, err := majorOf(said); got != want || (err == nil) != (want != "") {
			t.Errorf("%.30q: got %q, %v", said, got, err)
		}
	}
}

// made returns an engine with data, and the directory of the data.
func made(t *testing.T) (*Engine, string) {
	t.Helper()
	directory := filepath.Join(t.TempDir(), "data")
	e := New(Options{Data: directory, Clock: clock.RealClock{}})
	e.programs = "8"
	if err := e.Initialise(t.Context(), directory); err != nil {
		t.Fatal(err)
	}
	return e, directory
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// TestInspect: data exist if a server could load them. Data that were only in memory are lost, and
// files that are not Mainstay's are refused.
func TestInspect(t *testing.T) {
	stale := func(t *testing.T, directory string, version string) {
		write(t, filepath.Join(directory, stateFile), `{"system":"abcdefghijklm","version":"`+version+`"}`)
	}
	for name, test := range map[string]struct {
		change func(t *testing.T, directory string)
		want   string
	}{
		"nothing":            {func(t *testing.T, d string) { write(t, d+"x", ""); _ = os.RemoveAll(d) }, "exists false lost false"},
		"a new database":     {func(*testing.T, string) {}, "exists true lost false"},
		"nothing was stored": {func(t *testing.T, d string) { stale(t, d, "8") }, "exists false lost true"},
		"a snapshot":         {func(t *testing.T, d string) { stale(t, d, "8"); write(t, filepath.Join(d, valkey.Dump), "x") }, "exists true lost false"},
		"an append-only file": {func(t *testing.T, d string) {
			stale(t, d, "8")
			write(t, filepath.Join(d, valkey.Appended, valkey.Manifest), "x")
		}, "exists true lost false"},
		"data of a newer one": {func(t *testing.T, d string) { stale(t, d, "9") }, "has the data of Valkey 9, and needs those of Valkey 8 or an older one"},
		"another's files": {func(t *testing.T, d string) {
			_ = os.Remove(filepath.Join(d, stateFile))
			write(t, filepath.Join(d, "x"), "")
		}, "they are not Mainstay's"},
		"a broken state": {func(t *testing.T, d string) { write(t, filepath.Join(d, stateFile), "{") }, "damaged"},
	} {
		e, directory := made(t)
		test.change(t, directory)
		data, err := e.Inspect()
		got := fmt.Sprintf("exists %t lost %t", data.Exists, data.Lost)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, test.want) {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
		if name == "a broken state" && !errors.Is(err, engine.ErrDamaged) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// promotions returns the history of a leader of timeline 6, and that of the next one, which was
// promoted at 6:500.
func promotions(t *testing.T) (former, lines valkey.Lines) {
	t.Helper()
	former, err := valkey.Lines{}.Promoted("", 6, strings.Repeat("a", 40), 100)
	if err != nil {
		t.Fatal(err)
	}
	lines, err = former.Promoted("6:500", 7, strings.Repeat("b", 40), 600)
	if err != nil {
		t.Fatal(err)
	}
	return former, lines
}

// TestEnd: the noted end of the data is used, unless it is older than what the data are known to
// contain. A replica that has only got the history of its leader claims nothing of what that leader
// has written: another member may have more of the former leader's writes.
func TestEnd(t *testing.T) {
	former, lines := promotions(t)
	for name, test := range map[string]struct {
		state       valkey.State
		noted, want election.Position
	}{
		"a replica in mid-join":            {valkey.State{Lines: lines, Reached: former.Last().ID}, "6:300", "6:300"},
		"one that noted nothing":           {valkey.State{Lines: lines, Reached: former.Last().ID}, "", "6:0"},
		"a replica that got further":       {valkey.State{Lines: lines, Reached: former.Last().ID}, "7:530", "7:530"},
		"a leader":                         {valkey.State{Lines: lines, Reached: lines.Last().ID}, "7:570", "7:570"},
		"a leader that noted nothing":      {valkey.State{Lines: lines, Reached: lines.Last().ID}, "", "7:500"},
		"a leader with a damaged note":     {valkey.State{Lines: lines, Reached: lines.Last().ID}, "x", "7:500"},
		"a leader with an older note":      {valkey.State{Lines: lines, Reached: lines.Last().ID}, "6:400", "7:500"},
		"an older state of a leader":       {valkey.State{Lines: lines}, "7:570", "7:570"},
		"an older state, which may be any": {valkey.State{Lines: lines}, "6:300", "6:300"},
		"an older state without a note":    {valkey.State{Lines: lines}, "", "6:0"},
		"a line that was dropped since":    {valkey.State{Lines: lines, Reached: strings.Repeat("c", 40)}, "7:570", "7:570"},
		"data that had no leader":          {valkey.State{}, "", ""},
	} {
		_, directory := made(t)
		if err := writeEnd(directory, test.noted); err != nil {
			t.Fatal(err)
		}
		if got := readEnd(directory, test.state); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

// TestReached: the history of a leader becomes that of our data when its stream begins. Only when
// our server has stored something of the leader's timeline, the data are known to have reached it.
func TestReached(t *testing.T) {
	former, lines := promotions(t)
	synctest.Test(t, func(t *testing.T) {
		e, directory := made(t)
		l := &life{persists: true, stored: true}
		e.life = l
		err := e.changeState(l, func(state *valkey.State) error {
			state.Lines, state.Reached = former, former.Last().ID
			return writeEnd(directory, "6:300")
		})
		if err == nil {
			err = e.adopt(l, &leaderStream{welcome: welcome{Lines: lines}}, make(chan struct{}))
		}
		if err != nil {
			t.Fatal(err)
		}
		go e.awaitReached(t.Context(), l, lines.Last())
		for _, step := range []struct {
			at    election.Position
			after time.Duration
			want  election.Position
		}{
			// Half a second beside the times at which awaitReached looks.
			{"6:300", 2*noteEvery + noteEvery/2, "6:300"}, {"6:500", flushedLate + 2*noteEvery, "6:300"},
			{"7:501", flushedLate, "6:300"}, {"7:502", 2 * noteEvery, "7:500"},
		} {
			e.note(l, func(o *engine.Observation) { o.Server.Position = step.at })
			time.Sleep(step.after)
			state, err := readState(directory)
			if got := readEnd(directory, state); err != nil || got != step.want {
				t.Errorf("at %s, the data end at %q, want %q: %v", step.at, got, step.want, err)
			}
		}
	})
}

// pieces is a reader that returns one piece at a time, as they would arrive.
type pieces []string

func (p *pieces) Read(into []byte) (int, error) {
	if len(*p) == 0 {
		return 0, io.EOF
	}
	count := copy(into, (*p)[0])
	if (*p)[0] = (*p)[0][count:]; (*p)[0] == "" {
		*p = (*p)[1:]
	}
	return count, nil
}

// TestCopySnapshot: a snapshot ends after its length, or with the mark, wherever the pieces divide
// that.
func TestCopySnapshot(t *testing.T) {
	mark := strings.Repeat("0123456789", 4)
	for name, test := range map[string]struct {
		arrives pieces
		length  int64
		mark    string
		want    string
		fails   bool
	}{
		"a length":              {pieces{"abc", "def", "rest"}, 6, "", "abcdef", false},
		"nothing":               {pieces{}, 0, "", "", false},
		"a length that is cut":  {pieces{"abc"}, 6, "", "", true},
		"a mark":                {pieces{"abc" + mark}, 0, mark, "abc", false},
		"a mark in pieces":      {pieces{"abc", mark[:7], mark[7:39], mark[39:]}, 0, mark, "abc", false},
		"a mark after others":   {pieces{strings.Repeat("x", 100), "01234", mark}, 0, mark, strings.Repeat("x", 100) + "01234", false},
		"only a mark":           {pieces{mark}, 0, mark, "", false},
		"a mark that is cut":    {pieces{"abc", mark[:39]}, 0, mark, "", true},
		"a mark that is inside": {pieces{"a" + mark + "b", mark}, 0, mark, "a" + mark + "b", false},
	} {
		var into strings.Builder
		err := copySnapshot(&into, bufio.NewReader(&test.arrives), test.length, test.mark, nil)
		if (err != nil) != test.fails || err == nil && into.String() != test.want {
			t.Errorf("%s: got %q, %v", name, into.String(), err)
		}
	}
}

// TestRelayKnowsItsServer: only a client with the password can ask for the stream.
func TestRelayKnowsItsServer(t *testing.T) {
	for name, test := range map[string]struct {
		commands [][]string
		want     string
	}{
		"our server":        {[][]string{{"PING"}, {"AUTH", "mainstay-replication", "right"}, {"REPLCONF", "capa", "eof"}, {"PSYNC", "abc", "14"}}, "abc 14"},
		"nothing to follow": {[][]string{{"AUTH", "mainstay-replication", "right"}, {"PSYNC", "?", "-1"}}, "? -1"},
		"a wrong password":  {[][]string{{"AUTH", "mainstay-replication", "wrong"}, {"PSYNC", "?", "-1"}}, "a wrong password"},
		"no password":       {[][]string{{"PING"}, {"PSYNC", "?", "-1"}}, "without the password"},
		"too many commands": {make([][]string, 20), "too many commands"},
	} {
		for i, command := range test.commands {
			if command == nil {
				test.commands[i] = []string{"PING"}
			}
		}
		here, there := net.Pipe()
		go func() {
			go func() { _, _ = io.Copy(io.Discard, there) }()
			for _, command := range test.commands {
				_, _ = there.Write(valkey.Command(command...))
			}
		}()
		w := &wanted{Conn: here, from: bufio.NewReader(here)}
		err := (&relay{token: "right"}).greet(w)
		got := fmt.Sprintf("%s %d", w.id, w.offset)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, test.want) {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
		_ = errors.Join(here.Close(), there.Close())
	}
}

// TestStreamIsRefused: a member gets a stream only from a leader, and only from the one that it
// asks for.
func TestStreamIsRefused(t *testing.T) {
	e, _ := made(t)
	me := election.Member{Name: "db-0", Incarnation: "a"}
	e.Me = func() election.Member { return me }
	member := election.Member{Name: "db-1", Incarnation: "b"}
	hello := func(member, leader election.Member) string {
		return fmt.Sprintf(`{"member":{"name":%q,"incarnation":%q},"leader":{"name":%q,"incarnation":%q}}`+"\n",
			member.Name, member.Incarnation, leader.Name, leader.Incarnation)
	}
	for name, test := range map[string]struct {
		text, pod string
		leads     bool
		want      string
	}{
		"no leader":            {hello(member, me), "db-1", false, "does not lead"},
		"another leader":       {hello(member, election.Member{Name: "db-0", Incarnation: "old"}), "db-1", true, "does not lead"},
		"another's name":       {hello(member, me), "db-2", true, "another instance than the certificate"},
		"no hello":             {"x\n", "db-1", true, "can't be read"},
		"too long a hello":     {strings.Repeat("x", maxHello+2), "db-1", true, "can't be read"},
		"a hello without end":  {"{", "db-1", true, "can't be read"},
		"a member of a leader": {hello(member, me), "db-1", true, ""},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		e.life, e.observed.Server.State = &life{ctx: ctx, cancel: cancel}, election.Standby
		if test.leads {
			e.observed.Server.State = election.Leading
		}
		answer, _, _ := e.receive(test.pod, strings.NewReader(test.text))
		if !strings.Contains(answer.Refused, test.want) || (answer.Refused == "") != (test.want == "") {
			t.Errorf("%s: got %q, want %q", name, answer.Refused, test.want)
		}
		cancel()
	}
}

// TestLines: a parameter that the server does not accept is found by the number of its line, and
// the content of the line is not logged.
func TestLines(t *testing.T) {
	var log strings.Builder
	l := &lines{to: &log, parameters: map[int]string{46: "hz"}}
	for _, line := range []string{
		"*** FATAL CONFIG FILE ERROR (Version 8.1.1) ***", "Reading the configuration file, at line 46", `>>> 'hz "x"'`,
		"argument couldn't be parsed into an integer",
	} {
		l.pass(line)
	}
	if name, said := l.wrongParameter(); name != "hz" || said != "argument couldn't be parsed into an integer" {
		t.Errorf("got %q, %q", name, said)
	}
	if strings.Contains(log.String(), ">>>") || !strings.Contains(log.String(), "FATAL CONFIG") {
		t.Errorf("got %s", log.String())
	}
	l.pass("12:S 25 Nov 2026 13:20:53.679 * Connecting to PRIMARY 127.0.0.1:40000")
	if strings.Contains(log.String(), "Connecting") || l.isDamaged() {
		t.Errorf("got %s", log.String())
	}
	for _, line := range []string{
		"Bad file format reading the append only file: make a backup", "# Fatal error: the truncated file is not the last file",
		"*** FATAL AOF MANIFEST FILE ERROR ***",
	} {
		l := &lines{to: io.Discard}
		if l.pass(line); !l.isDamaged() {
			t.Errorf("damaged data were not noticed: %s", line)
		}
	}
}

// TestHelloInTime: a stream on which no hello arrives in time is closed.
func TestHelloInTime(t *testing.T) {
	e, _ := made(t)
	clock := clocktesting.NewFakeClock(time.Now())
	e.Clock = clock
	here, there := net.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		e.HandleStream(t.Context(), "db-1", here)
	}()
	for !clock.HasWaiters() {
		runtime.Gosched()
	}
	clock.Step(helloTimeout)
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("the stream still waits for its first line")
	}
	_ = there.Close()
}

// TestLateHistory: the history of a former source does not replace that of a promotion.
func TestLateHistory(t *testing.T) {
	for isSource, want := range map[bool]uint32{true: 3, false: 4} {
		e, directory := made(t)
		theirs, err := valkey.Lines{}.Promoted("", 3, strings.Repeat("a", 40), 100)
		if err != nil {
			t.Fatal(err)
		}
		l, changed := &life{}, make(chan struct{})
		e.life = l
		if !isSource {
			close(changed)
			err := e.changeState(l, func(state *valkey.State) error {
				state.Lines, err = valkey.Lines{}.Promoted("", 4, strings.Repeat("b", 40), 100)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		err = e.adopt(l, &leaderStream{welcome: welcome{Lines: theirs}}, changed)
		if state, _ := readState(directory); state.Lines.Last().Timeline != want || (err == nil) != isSource {
			t.Errorf("%t: got %+v, %v", isSource, state.Lines, err)
		}
	}
}

// TestObserveReadsNothing: Observe does not wait for a disk. When a server with its data in memory
// ends, the instance has none, whatever files there are.
func TestObserveReadsNothing(t *testing.T) {
	for inMemory, want := range map[bool]election.ServerState{true: election.NoData, false: election.Stopped} {
		e, directory := made(t)
		if err := os.RemoveAll(directory); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		l := &life{ctx: ctx, cancel: cancel, inMemory: inMemory}
		e.life = l
		e.forget(l, "")
		if got := e.Observe().Server.State; got != want {
			t.Errorf("%t: got %d", inMemory, got)
		}
		if e.forget(nil, ""); e.Observe().Server.State != want {
			t.Errorf("%t: it is forgotten", inMemory)
		}
	}
}

// TestChangeTakesTooLong: a server whose change of role takes too long is killed, even while the
// change itself still waits.
func TestChangeTakesTooLong(t *testing.T) {
	if changeTime >= pauseTime {
		t.Errorf("writes wait for %s, and a change may take %s", pauseTime, changeTime)
	}
	e, _ := made(t)
	clock := clocktesting.NewFakeClock(time.Now())
	supervisor, err := supervise.New(nil, clock)
	if err != nil {
		t.Fatal(err)
	}
	defer supervisor.Close()
	e.Clock, e.Supervisor = clock, supervisor
	ctx, cancel := context.WithCancel(t.Context())
	l := &life{ctx: ctx, cancel: cancel}
	e.life = l
	err = e.inTime(t.Context(), l, func(context.Context) error {
		clock.Step(changeTime)
		<-l.ctx.Done() // It ends with the server only, as a write to a disk does that hangs.
		return nil
	})
	if _, running := e.current(); running == nil || !errors.Is(err, errTooLong) || supervisor.Kills() != 1 {
		t.Errorf("got %v, %d kills", err, supervisor.Kills())
	}
	e.life = &life{ctx: ctx, cancel: cancel}
	if e.end(l); supervisor.Kills() != 1 {
		t.Error("the next server was killed")
	}
}

// TestUnreplicated: a higher class is reported at once, and a lower one after calmAfter.
func TestUnreplicated(t *testing.T) {
	e, _ := made(t)
	l, now := &life{}, time.Now()
	for i, step := range []struct {
		after  time.Duration
		behind int64
		want   int64
	}{
		{0, 0, 64 << 10}, {0, 1 << 20, 1 << 20}, {time.Second, 0, 1 << 20}, {calmAfter, 0, 64 << 10}, {0, -1, 0}, {0, 0, 64 << 10},
	} {
		now = now.Add(step.after)
		m := measured{replication: valkey.Replication{Offset: 2 << 20}, at: now}
		if step.behind >= 0 {
			m.replication.Replicas = []valkey.Replica{{Offset: 2<<20 - step.behind, Online: true}}
		}
		if got := e.unreplicated(l, m); got != step.want {
			t.Errorf("step %d: got %d, want %d", i, got, step.want)
		}
	}
}

// TestNear: a member that receives reports once a second. However much is written in that second,
// the member is near, unless it falls behind.
func TestNear(t *testing.T) {
	const perSecond = 100 << 20
	for name, test := range map[string]struct {
		// says is how long before a measurement the member has reported, and behind is what it lacked
		// then. every is how often the server is measured.
		says, every time.Duration
		behind      int64
		want        bool
	}{
		"it has all, and says so at once":      {0, watchEvery, 0, true},
		"it has all, and said so before":       {900 * time.Millisecond, watchEvery, 0, true},
		"it lacks the writes of half a second": {900 * time.Millisecond, watchEvery, perSecond / 2, true},
		"it lacks the writes of two seconds":   {900 * time.Millisecond, watchEvery, 2 * perSecond, false},
		"it says so late":                      {2500 * time.Millisecond, watchEvery, 0, false},
		"the server was measured long ago":     {900 * time.Millisecond, 4 * time.Second, 0, false},
	} {
		l, began := &life{}, time.Now()
		member := election.Member{Name: "db-1", Incarnation: "a"}
		end := func(at time.Time) int64 { return int64(at.Sub(began).Seconds() * perSecond) }
		for passed := time.Duration(0); passed <= 8*time.Second; passed += test.every {
			at := began.Add(passed)
			replication := valkey.Replication{Offset: end(at), Replicas: []valkey.Replica{
				{Member: member, Online: true, Offset: end(at.Add(-test.says)) - test.behind},
			}}
			until := l.writtenUntil(at.Add(-nearDelay), measured{replication: replication, at: at})
			found := receivers(replication, until, at)
			if passed >= 4*time.Second && (len(found) != 1 || found[0].Near != test.want) {
				t.Errorf("%s: after %s got %+v", name, passed, found)
			}
		}
	}
}

// TestAHungDisk: a hanging write of our own files counts like a server that does not answer.
func TestAHungDisk(t *testing.T) {
	e := &Engine{}
	if since := e.Observe().UnflushedSince; !since.IsZero() {
		t.Errorf("at rest: since %s", since)
	}
	began := time.Now()
	e.storing.Store(&began)
	e.asked = began.Add(time.Minute)
	// String shows the monotonic reading, which Equal ignores. Without it, a step of the wall clock
	// would look like a disk that hangs.
	if since := e.Observe().UnflushedSince.String(); since != began.String() {
		t.Errorf("while the disk hangs: since %s, want %s", since, began)
	}
}

// TestSilentReplica: a replica whose server has answered nothing for a while does not count as one
// that receives, until it answers again.
func TestSilentReplica(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	e := &Engine{Options: Options{Clock: clock}}
	e.observed = engine.Observation{Server: election.Server{State: election.Standby}, Connected: true}
	for _, step := range []struct {
		asks  bool
		after time.Duration
		want  bool
	}{{false, time.Hour, true}, {true, silentAfter - time.Second, true}, {true, time.Second, false}, {false, 0, true}} {
		switch {
		case !step.asks:
			e.asked = time.Time{}
		case e.asked.IsZero():
			e.asked = clock.Now()
		}
		clock.Step(step.after)
		if got := e.Observe(); got.Connected != step.want || strings.Contains(got.Problem, "answered nothing") == step.want {
			t.Errorf("%+v: got %t, %q", step, got.Connected, got.Problem)
		}
	}
}

// TestNeverEvicted: the administrator's session is not closed when clients use too much memory. The
// session for metrics, which may do nothing else, may be closed.
func TestNeverEvicted(t *testing.T) {
	for user, want := range map[string]bool{valkey.Administrator: true, valkey.Monitor: false} {
		e := New(Options{Run: t.TempDir()})
		listener, err := net.Listen("unix", e.socket())
		if err != nil {
			t.Fatal(err)
		}
		said := make(chan string, 10)
		go func() {
			defer close(said)
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			defer func() { _ = connection.Close() }()
			for reader := bufio.NewReader(connection); ; {
				command, err := valkey.ReadCommand(reader)
				if err != nil {
					return
				}
				said <- strings.Join(command, " ")
				_, _ = io.WriteString(connection, "+OK\r\n")
			}
		}()
		client, err := e.connect(user, "secret")
		if err != nil {
			t.Fatal(err)
		}
		client.Close()
		_ = listener.Close()
		var all []string
		for command := range said {
			all = append(all, command)
		}
		if got := slices.Contains(all, "CLIENT NO-EVICT ON"); got != want {
			t.Errorf("%s says %q", user, all)
		}
	}
}
