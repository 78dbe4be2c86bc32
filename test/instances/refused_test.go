package instances

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mainstay-platform/mainstay/internal/instance/contract"
)

// damage is what somebody did to the volume of a replica that is down.
type damage struct {
	name string
	hurt func(volume string) error
	mend func(volume string) error
	// says is part of what the Pod says.
	says string
}

var damages = []damage{
	{"a file of somebody else",
		func(volume string) error { return os.WriteFile(filepath.Join(volume, "photo.jpg"), nil, 0o600) },
		func(volume string) error { return os.Remove(filepath.Join(volume, "photo.jpg")) },
		`holds "photo.jpg", which is not Mainstay's: nothing was changed`},
	exchanged("another major version", "data/server/PG_VERSION", "9.6\n", `PG_VERSION says "9.6"`),
	exchanged("no promises", "election.json", "", "reading election.json (this member's promises in elections)"),
	exchanged("promises that were edited", "election.json", `{"promised": 7}`, "reading election.json (this member's promises in elections)"),
	exchanged("no incarnation", "data/incarnation", "", "no file data/incarnation: it was deleted"),
	exchanged("an incarnation that was edited", "data/incarnation", "../../etc", "which is not a valid incarnation"),
	{"another owner",
		func(volume string) error { return os.Chown(filepath.Join(volume, "data/server"), 1, 1) },
		func(volume string) error { return os.Chown(filepath.Join(volume, "data/server"), user, user) },
		"belongs to user 1"},
}

// exchanged is a file that was put aside, and another content in its place, or none if that is
// empty.
func exchanged(name, file, content, says string) damage {
	aside := func(volume string) string { return filepath.Join(volume, "..", "aside") }
	return damage{name,
		func(volume string) error {
			path := filepath.Join(volume, file)
			if err := os.Rename(path, aside(volume)); err != nil || content == "" {
				return err
			}
			return errors.Join(os.WriteFile(path, []byte(content), 0o600), os.Chown(path, user, user))
		},
		func(volume string) error { return os.Rename(aside(volume), filepath.Join(volume, file)) },
		says}
}

// TestForeignVolumes: an instance whose volume is not what it left there changes nothing on it,
// ends, and says on its Pod what it found. It goes on when that was mended.
func TestForeignVolumes(t *testing.T) {
	t.Parallel()
	d := New(t, server, contract.Settings{FailoverAfter: after}, 3)
	d.Await("three instances that serve", func() bool { return d.IsWhole(t.Context()) })
	leader := d.Published(t.Context())
	replica := d.Pods[0]
	if replica == leader {
		replica = d.Pods[1]
	}
	replica.Kill()
	for _, damage := range damages {
		d.must(damage.hurt(replica.Volume()))
		before := fingerprint(t, replica.Volume())
		replica.Start()
		d.Await("end of the program, with "+damage.name, func() bool { return !replica.Running() })
		if report := replica.Report(t.Context()); report.State != "Ended" || !strings.Contains(report.Problem, damage.says) {
			t.Errorf("%s: the pod says %+v, want a problem with %q", damage.name, report, damage.says)
		}
		if now := fingerprint(t, replica.Volume()); now != before {
			t.Errorf("%s: the volume was changed", damage.name)
		}
		d.must(damage.mend(replica.Volume()))
	}
	replica.Start()
	d.Await("whole database once the volume is as it was", func() bool { return d.IsWhole(t.Context()) })

	log := len(replica.log())
	second, err := replica.again()
	d.must(err)
	<-second.ended
	if said := replica.log()[log:]; !strings.Contains(said, "is used by another process") {
		t.Errorf("a second program on the same volume said %q", said)
	}
	d.Await("whole database beside a second program", func() bool { return d.IsWhole(t.Context()) })
}

// TestDamagedData: data of a replica that no server can have written are made anew from those of
// the leader, and what was committed is in them.
func TestDamagedData(t *testing.T) {
	t.Parallel()
	d := New(t, server, contract.Settings{FailoverAfter: after}, 3)
	d.Await("three instances that serve", func() bool { return d.IsWhole(t.Context()) })
	leader := d.Published(t.Context())
	_, err := leader.SQL("CREATE TABLE precious AS SELECT 7 AS answer")
	d.must(err)
	replica := d.Pods[0]
	if replica == leader {
		replica = d.Pods[1]
	}
	incarnation := filepath.Join(replica.Volume(), "data/incarnation")
	for name, hurt := range map[string]func(control string) error{
		"no control file":        os.Remove,
		"a damaged control file": func(path string) error { return os.WriteFile(path, []byte(strings.Repeat("x", 8192)), 0o600) },
	} {
		replica.Kill()
		before, err := os.ReadFile(incarnation)
		d.must(errors.Join(err, hurt(filepath.Join(replica.Volume(), "data/server/global/pg_control"))))
		replica.Start()
		d.Await("replica made anew, after "+name, func() bool {
			now, err := os.ReadFile(incarnation)
			return err == nil && string(now) != string(before) && d.IsWhole(t.Context())
		})
		if answer, err := replica.SQL("SELECT answer FROM precious"); err != nil || answer != "7" {
			t.Errorf("%s: the replica has %q, %v", name, answer, err)
		}
	}
}

// TestCacheDamagedState: a replica of a stored Cache whose state file no program can have written
// is made anew from the data of the leader.
func TestCacheDamagedState(t *testing.T) {
	t.Parallel()
	d := cacheOf(t, stored, 3)
	leader := d.Published(t.Context())
	_, err := leader.ask("SET", "kept", "yes")
	d.must(err)
	replica := d.others(leader)[0]
	incarnation := filepath.Join(replica.Volume(), "data/incarnation")
	replica.Kill()
	before, err := os.ReadFile(incarnation)
	d.must(errors.Join(err, os.WriteFile(filepath.Join(replica.Volume(), "data/server/mainstay.json"), []byte("{"), 0o600)))
	replica.Start()
	d.Await("replica made anew", func() bool {
		now, err := os.ReadFile(incarnation)
		return err == nil && string(now) != string(before) && d.IsWhole(t.Context())
	})
	if value, err := replica.ask("GET", "kept"); value != "yes" {
		t.Errorf("the replica has %q, %v", value, err)
	}
}

// TestForeignSystem: the data of another database are neither used nor lost.
func TestForeignSystem(t *testing.T) {
	t.Parallel()
	d := New(t, server, contract.Settings{FailoverAfter: after}, 2)
	other := New(t, server, contract.Settings{FailoverAfter: after}, 1)
	d.Await("two instances that serve", func() bool { return d.IsWhole(t.Context()) })
	other.Await("one instance that serves", func() bool { return other.IsWhole(t.Context()) })
	_, err := other.Pods[0].SQL("CREATE TABLE precious AS SELECT 7 AS answer")
	d.must(err)
	replica := d.Pods[0]
	if d.Published(t.Context()) == replica {
		replica = d.Pods[1]
	}
	replica.Kill()
	other.Pods[0].Kill()
	exchange := func() {
		aside := replica.Volume() + ".aside"
		d.must(errors.Join(os.Rename(replica.Volume(), aside), os.Rename(other.Pods[0].Volume(), replica.Volume()),
			os.Rename(aside, other.Pods[0].Volume())))
	}
	exchange()
	replica.Start()
	d.Await("word about the data of another database", func() bool {
		return strings.Contains(replica.Report(t.Context()).Problem, "the data of another database")
	})
	if d.IsWhole(t.Context()) {
		t.Error("the data of another database were used")
	}
	replica.Kill()
	exchange()
	replica.Start()
	other.Pods[0].Start()
	d.Await("whole database with its own data", func() bool { return d.IsWhole(t.Context()) })
	other.Await("the other one with its own data", func() bool {
		answer, err := other.Pods[0].SQL("SELECT answer FROM precious")
		return err == nil && answer == "7"
	})
}

// fingerprint is another when anything in a directory is, but for the lock.
func fingerprint(t *testing.T, directory string) string {
	t.Helper()
	sum := sha256.New()
	err := filepath.WalkDir(directory, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() == "lock" {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintln(sum, path, info.Mode(), info.ModTime().UnixNano(), info.Size())
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sum.Sum(nil))
}
