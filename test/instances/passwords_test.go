package instances

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
)

// The words of the scan: passwords and the text of a Secret, and one that is written openly, by
// which the scan shows that it finds what is there.
const (
	firstPassword, editedPassword = "9f2c-first-app", "9f2c-edited-app"
	seedText, openText            = "9f2c-seed-row", "9f2c-open-text"
)

// found is where each word was found.
type found map[string][]string

func (f found) look(where string, content []byte, words []string) {
	for _, word := range words {
		if bytes.Contains(content, []byte(word)) {
			f[word] = append(f[word], where)
		}
	}
}

// scan looks for words wherever they could be, but in the Secrets: in all files of the instances
// and the pooler, with logs, data and WAL; in arguments and environments of their processes; in the
// objects that they write; in what the server keeps of statements.
func (d *Database) scan(p *pooler, words []string) found {
	d.t.Helper()
	all := found{}
	folders := []string{filepath.Dir(p.log)}
	for _, pod := range d.Pods {
		folders = append(folders, d.outside(pod.Name))
	}
	for _, folder := range folders {
		d.must(filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			switch {
			case os.IsNotExist(err):
				return nil // A server removes files while they are looked at.
			case err != nil:
				return err
			case entry.IsDir() && entry.Name() == "application":
				return fs.SkipDir // It is the mounted Secret.
			case !entry.Type().IsRegular() || entry.Name() == "mainstay-instance":
				return nil
			}
			content, err := os.ReadFile(path)
			if err != nil && !os.IsNotExist(err) {
				return err
			}
			all.look(path, content, words)
			return nil
		}))
	}
	processes, err := filepath.Glob("/proc/[0-9]*")
	d.must(err)
	scanned := 0
	for _, process := range processes {
		root, err := os.Readlink(filepath.Join(process, "root"))
		if err != nil || root != d.root && root != os.Getenv(poolerRoot) {
			continue
		}
		for _, name := range []string{"cmdline", "environ"} {
			if content, err := os.ReadFile(filepath.Join(process, name)); err == nil {
				all.look(filepath.Join(process, name), content, words)
				scanned++
			}
		}
	}
	if scanned == 0 {
		d.t.Error("no process was looked at")
	}
	for _, list := range []client.ObjectList{&corev1.PodList{}, &corev1.ConfigMapList{}, &corev1.EventList{}, &eventsv1.EventList{}} {
		d.must(d.server.Client.List(d.t.Context(), list, client.InNamespace(d.namespace)))
		content, err := json.Marshal(list)
		d.must(err)
		all.look(fmt.Sprintf("%T", list), content, words)
	}
	for _, query := range []string{
		"SELECT coalesce(string_agg(query, ' '), '') FROM pg_stat_statements", "SELECT string_agg(query, ' ') FROM pg_stat_activity",
		"SELECT string_agg(setting, ' ') FROM pg_settings",
	} {
		text, err := d.Published(d.t.Context()).SQL(query)
		d.must(err)
		all.look(query, []byte(text), words)
	}
	return all
}

// TestPasswordsAreInSecretsOnly: with everything logged that a server can log, neither passwords
// nor the text of a Secret are anywhere else.
func TestPasswordsAreInSecretsOnly(t *testing.T) {
	t.Parallel()
	d := New(t, server, contract.Settings{FailoverAfter: after, Initialise: true, Parameters: map[string]string{
		"shared_preload_libraries": "pg_stat_statements", "pg_stat_statements.track": "all", "log_statement": "all",
		"log_min_duration_statement": "0", "log_connections": "on", "log_error_verbosity": "verbose",
	}}, 1)
	d.mount(map[string]string{"username": "app", "password": firstPassword, "dbname": "shop"})
	d.Await("an instance that serves", func() bool { return d.IsWhole(t.Context()) })
	primary := d.Published(t.Context())
	_, err := primary.SQL("CREATE EXTENSION pg_stat_statements")
	d.must(err)
	r := &rotator{d: d, user: databasev1.User{Name: "orders"}, now: time.Now()}
	r.further = contract.Provisions{InitSQL: []contract.Statement{
		{SQL: "CREATE TABLE seeds (name text); SELECT '" + seedText + "'", IsSecret: true},
	}}
	r.reconcile()
	d.serve()
	p := newPooler(d)
	logsIn := func(user, password string) {
		t.Helper()
		d.Await(user+" to log in", func() bool {
			_, direct := logIn(t.Context(), primary.Address, user, password)
			_, pooled := logIn(t.Context(), p.address, user, password)
			return direct == nil && pooled == nil
		})
	}
	words := []string{firstPassword, editedPassword, seedText, openText, r.secret.Load().Password}
	logsIn("app", firstPassword)
	logsIn("orders", r.secret.Load().Password)
	session, err := p.connect(t.Context(), firstPassword)
	d.must(err)
	_, err = session.Exec(t.Context(), "SELECT count(*) FROM seeds")
	d.must(errors.Join(err, session.Close(t.Context())))
	d.mount(map[string]string{"password": editedPassword})
	logsIn("app", editedPassword)
	r.now = r.now.Add(time.Minute)
	r.rotateNow()
	words = append(words, r.secret.Load().Password)
	logsIn("orders.2", r.secret.Load().Password)
	if _, err := logIn(t.Context(), primary.Address, "app", "9f2c-wrong"); err == nil {
		t.Error("a wrong password is accepted")
	}
	_, err = primary.SQL("CREATE TABLE open (name text); INSERT INTO open VALUES ('" + openText + "'); CHECKPOINT")
	d.must(err)
	all := d.scan(p, append(words, "9f2c-wrong"))
	open := strings.Join(all[openText], " ")
	for _, part := range []string{"/log", "pg_wal"} {
		if !strings.Contains(open, part) {
			t.Errorf("the scan does not find in %s what is there; it finds it in %s", part, open)
		}
	}
	delete(all, openText)
	for word, where := range all {
		t.Errorf("%s is in %s", word, where)
	}
}
