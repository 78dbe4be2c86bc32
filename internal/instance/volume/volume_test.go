package volume

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
)

func open(t *testing.T, path string) *Volume {
	t.Helper()
	v, err := Open(path, "")
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func reopened(t *testing.T, v *Volume) *Volume {
	t.Helper()
	if err := errors.Join(v.Close(), os.RemoveAll(filepath.Join(v.path, discarded))); err != nil {
		t.Fatal(err)
	}
	return open(t, v.path)
}

func load(t *testing.T, v *Volume) Contents {
	t.Helper()
	contents, err := v.Load()
	if err != nil {
		t.Fatal(err)
	}
	return contents
}

// made makes data with that content the current data.
func made(t *testing.T, v *Volume, content string) string {
	t.Helper()
	directory, err := v.Prepare()
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(directory, "file"), content)
	incarnation, err := v.Adopt()
	if err != nil {
		t.Fatal(err)
	}
	return incarnation
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func content(t *testing.T, v *Volume) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(v.Server(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestAFailureAfterTheSwitch: the new incarnation is returned with the error, once the former data
// are no longer the current ones.
func TestAFailureAfterTheSwitch(t *testing.T) {
	path := t.TempDir()
	v := open(t, path)
	made(t, v, "one")
	_, err := v.Prepare()
	if err != nil {
		t.Fatal(err)
	}
	// What was discarded can't be removed, because its log is where no file can be.
	v.log = filepath.Join(path, lockFile)
	discards := filepath.Join(path, discarded, serverDirectory)
	err = errors.Join(os.MkdirAll(discards, 0o700), os.Symlink(filepath.Join(v.log, "log-aaaaaaaaaa"), filepath.Join(discards, logLink)))
	if err != nil {
		t.Fatal(err)
	}
	incarnation, err := v.Adopt()
	v.log = ""
	if err == nil || incarnation == "" {
		t.Errorf("got %q, %v", incarnation, err)
	}
	if got := load(t, v).Incarnation; got != incarnation {
		t.Errorf("it holds %q, and Adopt has returned %q", got, incarnation)
	}
	if got := load(t, reopened(t, v)).Incarnation; got != incarnation {
		t.Errorf("opened again, it holds %q, and Adopt has returned %q", got, incarnation)
	}
}

func TestVolume(t *testing.T) {
	path := t.TempDir()
	v := open(t, path)
	if contents := load(t, v); contents != (Contents{}) {
		t.Errorf("a new volume holds %+v", contents)
	}
	first := made(t, v, "one")
	local := election.Local{
		Promised: election.Promised{Term: 3, Candidate: election.Member{Name: "db-1", Incarnation: "x"}},
		Seen:     election.Seen{Term: 3, Seq: 7, Timeline: 2},
	}
	if err := v.Save(local); err != nil {
		t.Fatal(err)
	}
	second := made(t, v, "two")
	if got, want := load(t, v), (Contents{Incarnation: second, Local: local, HasOld: true}); got != want || first == second {
		t.Errorf("got %+v, want %+v; the first data were %s", got, want, first)
	}
	if got := content(t, v); got != "two" {
		t.Errorf("the data are %q", got)
	}
	third := made(t, v, "three")
	if old, err := os.ReadFile(filepath.Join(path, "old", "server", "file")); err != nil || string(old) != "one" {
		t.Errorf("set aside is %q, %v: want the data before any that never became healthy", old, err)
	}
	if err := v.DropOld(); err != nil {
		t.Fatal(err)
	}
	if got, want := load(t, v), (Contents{Incarnation: third, Local: local}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if err := v.Close(); err != nil {
		t.Fatal(err)
	}
	if got := load(t, open(t, path)).Incarnation; got != third {
		t.Errorf("opened again, it holds %s, want %s", got, third)
	}
}

// TestACrashBetweenTheSteps leaves the volume as each step of Adopt does.
func TestACrashBetweenTheSteps(t *testing.T) {
	for name, c := range map[string]struct {
		crash func(t *testing.T, path string)
		want  string
	}{
		"before the new data are complete": {func(t *testing.T, path string) {
			t.Helper()
			if err := os.Remove(filepath.Join(path, "new", "incarnation")); err != nil {
				t.Fatal(err)
			}
		}, "one"},
		"before the old are set aside": {func(*testing.T, string) {}, "one"},
		"before the new count": {func(t *testing.T, path string) {
			t.Helper()
			if err := os.Rename(filepath.Join(path, "data"), filepath.Join(path, "old")); err != nil {
				t.Fatal(err)
			}
		}, "two"},
	} {
		t.Run(name, func(t *testing.T) {
			path := t.TempDir()
			v := open(t, path)
			made(t, v, "one")
			directory, err := v.Prepare()
			if err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(directory, "file"), "two")
			write(t, filepath.Join(path, "new", "incarnation"), "00112233445566ff\n")
			c.crash(t, path)
			_ = v.Close()
			v = open(t, path)
			if got := content(t, v); got != c.want {
				t.Errorf("the data are %q, want %q", got, c.want)
			}
			if load(t, v).Incarnation == "" {
				t.Error("the data have no incarnation")
			}
			if made(t, v, "three"); content(t, v) != "three" {
				t.Error("no data can be made any more")
			}
		})
	}
}

func TestWhatAVolumeRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(t *testing.T, path string)
		want  string
	}{
		"data of somebody else": {func(t *testing.T, path string) { t.Helper(); write(t, filepath.Join(path, "PG_VERSION"), "17") },
			`holds "PG_VERSION", which is not Mainstay's`},
		"two programs": {func(t *testing.T, path string) {
			t.Helper()
			other := open(t, path)
			t.Cleanup(func() { _ = other.Close() })
		}, "is used by another process"},
		"a promise that is gone": {func(t *testing.T, path string) {
			t.Helper()
			v := open(t, path)
			made(t, v, "one")
			_ = v.Close()
			if err := os.Remove(filepath.Join(path, "election.json")); err != nil {
				t.Fatal(err)
			}
		}, "without which its data can't be used"},
		"a promise that can't be read": {func(t *testing.T, path string) {
			t.Helper()
			write(t, filepath.Join(path, "election.json"), `{"promised":1}`)
		},
			"without which its data can't be used"},
		"a promise of a megabyte": {func(t *testing.T, path string) {
			t.Helper()
			write(t, filepath.Join(path, "election.json"), strings.Repeat(" ", 1<<20))
		}, "has more than 65536 bytes"},
		"data without incarnation": {func(t *testing.T, path string) {
			t.Helper()
			if err := os.Mkdir(filepath.Join(path, "data"), 0o700); err != nil {
				t.Fatal(err)
			}
		}, "has data, but no file data/incarnation"},
	} {
		t.Run(name, func(t *testing.T) {
			path := t.TempDir()
			c.spoil(t, path)
			v, err := Open(path, "")
			if err == nil {
				_, err = v.Load()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// TestLeftovers: the remains of an interrupted clone or removal are removed, and the current data
// stay.
func TestLeftovers(t *testing.T) {
	path := t.TempDir()
	v := open(t, path)
	made(t, v, "first")
	for _, left := range []string{filepath.Join(newDirectory, serverDirectory), filepath.Join(discarded, "half")} {
		if err := os.MkdirAll(filepath.Join(path, left), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := v.Close(); err != nil {
		t.Fatal(err)
	}
	v = open(t, path)
	for _, gone := range []string{newDirectory, discarded} {
		if v.exists(gone) {
			t.Errorf("%s is still there", gone)
		}
	}
	if got := content(t, v); got != "first" {
		t.Errorf("the data are %q", got)
	}
}

// TestIncarnation: an incarnation is short enough for the longest name of a pod, and one of an
// earlier release is still accepted.
func TestIncarnation(t *testing.T) {
	made := newIncarnation()
	if len(made) != 10 || !isIncarnation(made) || made == newIncarnation() || !isIncarnation("00112233445566ff") {
		t.Errorf("got %q", made)
	}
	for _, wrong := range []string{"", "a2b3c4d5e", "a2b3c4d5e6f", "A2B3C4D5E6", "a2b3c4d5e/", "00112233445566fg"} {
		if isIncarnation(wrong) {
			t.Errorf("%q is taken for one", wrong)
		}
	}
}

// logsOf are the two volumes of an instance whose log has a volume of its own.
type logsOf struct {
	*testing.T
	data, logs string
}

func (l logsOf) open() *Volume {
	l.Helper()
	v, err := Open(l.data, l.logs)
	if err != nil {
		l.Fatal(err)
	}
	return v
}

// prepare begins to make data, and returns their log.
func (l logsOf) prepare(v *Volume) string {
	l.Helper()
	directory, err := v.Prepare()
	if err != nil {
		l.Fatal(err)
	}
	log := v.NewLog()
	if err := os.Mkdir(log, 0o700); err != nil {
		l.Fatal(err)
	}
	if err := os.Symlink(log, filepath.Join(directory, "pg_wal")); err != nil {
		l.Fatal(err)
	}
	return log
}

func (l logsOf) adopt(v *Volume) {
	l.Helper()
	if _, err := v.Adopt(); err != nil {
		l.Fatal(err)
	}
}

// has checks which logs there are after what happened.
func (l logsOf) has(what string, want ...string) {
	l.Helper()
	entries, err := filepath.Glob(filepath.Join(l.logs, "*"))
	if slices.Sort(want); err != nil || !slices.Equal(entries, want) {
		l.Errorf("%s: the volume has %v, want %v", what, entries, want)
	}
}

// TestLogOfItsOwn: the log on a volume of its own is kept and removed together with its data,
// whatever was interrupted.
func TestLogOfItsOwn(t *testing.T) {
	both := logsOf{t, t.TempDir(), t.TempDir()}
	v := both.open()
	first := both.prepare(v)
	both.adopt(v)
	write(t, filepath.Join(v.Server(), "pg_wal", "file"), "log")
	half := both.prepare(v)
	both.has("data are rebuilt", first, half)
	_ = v.Close()
	v = both.open()
	both.has("that was interrupted", first)
	if err := os.Mkdir(v.NewLog(), 0o700); err != nil { // and again, before it was linked
		t.Fatal(err)
	}
	second := both.prepare(v)
	both.has("and tried again", first, second)
	both.adopt(v)
	both.has("the data before stay", first, second)
	if err := v.DropOld(); err != nil {
		t.Fatal(err)
	}
	both.has("the new ones are healthy", second)
	if used, size, err := v.LogUsage(); err != nil || size == 0 || used > size || v.FullLog().Percent > 100 {
		t.Errorf("%d of %d, %v", used, size, err)
	}
	_ = v.Close()
}

// TestForeignLogIsRefused: data are used only with their own log, and refused volumes are not
// changed.
func TestForeignLogIsRefused(t *testing.T) {
	both := logsOf{t, t.TempDir(), t.TempDir()}
	v := both.open()
	log := both.prepare(v)
	both.adopt(v)
	_ = v.Close()
	write(t, filepath.Join(log, "file"), "log")
	for name, test := range map[string]struct{ log, want string }{
		"without it":          {"", "set spec.walStorage as before"},
		"with another one":    {t.TempDir(), "it is new, or another instance's"},
		"with a foreign one":  {foreignLog(t), "is not Mainstay's"},
		"with one that lacks": {filepath.Join(t.TempDir(), "lacks"), "reading the volume of the log"},
	} {
		if v, err := Open(both.data, test.log); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, %v", name, v, err)
		}
	}
	if text, err := os.ReadFile(filepath.Join(log, "file")); err != nil || string(text) != "log" {
		t.Errorf("what was refused was changed: %v", err)
	}
}

func foreignLog(t *testing.T) string {
	t.Helper()
	path := t.TempDir()
	write(t, filepath.Join(path, "mine"), "")
	return path
}

// TestLogWithTheData: data that include their log are refused if there is a volume for the log.
func TestLogWithTheData(t *testing.T) {
	path := t.TempDir()
	v := open(t, path)
	made(t, v, "data")
	if v.NewLog() != "" || v.FullLog() != (Fill{}) {
		t.Error("a volume without a log has one")
	}
	_ = v.Close()
	if _, err := Open(path, t.TempDir()); err == nil || !strings.Contains(err.Error(), "remove spec.walStorage") {
		t.Errorf("got %v", err)
	}
}
