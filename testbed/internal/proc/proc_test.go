package proc

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	const tail = "1 42 42 0 -1 4194560 1 0 0 0 7 8 0 0 20 0 1 0 987654 100 200"
	for _, test := range []struct {
		stat  string
		state string
		since uint64
		fails bool
	}{
		{stat: "42 (etcd) S " + tail, state: "S", since: 987654},
		{stat: "42 (a b) R) Z " + tail, state: "Z", since: 987654}, // a name with spaces and a parenthesis
		{stat: "42 (etcd) S 1 2 3", fails: true},
		{stat: "nothing", fails: true},
		{stat: "", fails: true},
	} {
		state, since, err := parseStat(test.stat)
		if state != test.state || since != test.since || (err != nil) != test.fails {
			t.Errorf("parseStat(%q) = %q, %d, %v", test.stat, state, since, err)
		}
	}
}

// startSleep starts a process for the test.
func startSleep(t *testing.T) Record {
	t.Helper()
	command := exec.Command("sleep", "60")
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = command.Wait() }()
	t.Cleanup(func() { _ = command.Process.Kill() })
	since, err := startTime(command.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return Record{Name: "sleep", PID: command.Process.Pid, StartTime: since, Arguments: []string{"sleep", "60"}}
}

// TestStale checks a process id that now belongs to another process.
func TestStale(t *testing.T) {
	record := startSleep(t)
	if !record.Alive() {
		t.Fatal("a running process counts as ended")
	}
	stale := record
	stale.StartTime--
	if stale.Alive() {
		t.Error("a process with another start time counts as ours")
	}
	if err := stale.Stop(time.Second); err != nil {
		t.Fatal(err)
	}
	if !record.Alive() {
		t.Error("Stop ended a process that was not ours")
	}
}

func TestStop(t *testing.T) {
	record := startSleep(t)
	for range 2 { // the second has nothing to do
		if err := record.Stop(5 * time.Second); err != nil {
			t.Fatal(err)
		}
	}
	if record.Alive() {
		t.Error("the process still runs")
	}
}

func TestTable(t *testing.T) {
	table := Table(t.TempDir())
	if _, found, err := table.Get("etcd"); found || err != nil {
		t.Errorf("an empty table has etcd (%v)", err)
	}
	running := startSleep(t)
	ended := Record{Name: "etcd", PID: running.PID, StartTime: 1}
	for _, record := range []Record{running, ended} {
		if err := table.put(record); err != nil {
			t.Fatal(err)
		}
	}
	if records, err := table.List(); err != nil || len(records) != 2 {
		t.Errorf("the table has %v (%v), want two records", records, err)
	}
	if err := table.Forget(); err != nil {
		t.Fatal(err)
	}
	records, err := table.List()
	if err != nil || len(records) != 1 || records[0].Name != "sleep" {
		t.Errorf("after Forget the table has %v (%v), want only the running process", records, err)
	}
	// A record that was cut short by a crash is none.
	if err := os.WriteFile(table.file("torn"), []byte(`{"name": "to`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, found, err := table.Get("torn"); found || err != nil {
		t.Errorf("a torn record was read (%v)", err)
	}
}

func TestLogTail(t *testing.T) {
	record := Record{Log: filepath.Join(t.TempDir(), "log")}
	if tail := record.LogTail(); !strings.Contains(tail, "no such file") {
		t.Errorf("the tail of a missing log is %q", tail)
	}
	for written, want := range map[string]string{
		"":           "",
		"one\ntwo\n": "one\ntwo\n",
		strings.Repeat("a", 3000) + "\nthe reason\n": "the reason\n",
	} {
		if err := os.WriteFile(record.Log, []byte(written), 0o600); err != nil {
			t.Fatal(err)
		}
		if tail := record.LogTail(); tail != want {
			t.Errorf("the tail of %d bytes is %q, want %q", len(written), tail, want)
		}
	}
}
