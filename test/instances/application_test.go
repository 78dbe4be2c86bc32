package instances

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/mainstay-platform/mainstay/internal/instance/contract"
)

// configure changes the settings of all instances.
func (d *Database) configure(change func(*contract.Settings)) {
	d.t.Helper()
	var object corev1.ConfigMap
	d.must(d.server.Client.Get(d.t.Context(), d.key(contract.SettingsName(name)), &object))
	settings, err := contract.ParseSettings(object.Data[contract.SettingsKey])
	d.must(err)
	change(&settings)
	text, err := json.Marshal(settings)
	d.must(err)
	object.Data[contract.SettingsKey] = string(text)
	d.must(d.server.Client.Update(d.t.Context(), &object))
}

// mount writes the Secret of an application into all pods.
func (d *Database) mount(files map[string]string) {
	d.t.Helper()
	for _, pod := range d.Pods {
		for key, content := range files {
			path := d.outside(pod.Name, "application", key)
			d.must(os.WriteFile(path+".new", []byte(content), 0o644))
			d.must(os.Rename(path+".new", filepath.Join(filepath.Dir(path), key)))
		}
	}
}

// says waits until the server of a pod answers a query so.
func (p *Pod) says(query, want string) {
	p.d.t.Helper()
	p.d.Await(query+" to be "+want, func() bool {
		got, err := p.SQL(query)
		return err == nil && got == want
	})
}

// TestApplicationAndParameters: what the settings and the Secret of an application say is so in the
// servers, while they run and after a failover.
func TestApplicationAndParameters(t *testing.T) {
	t.Parallel()
	const hasRole = "SELECT count(*) FROM pg_database d JOIN pg_roles r ON r.oid = datdba WHERE datname = 'shop' AND rolname = 'app'"
	d := New(t, server, contract.Settings{FailoverAfter: longAfter, Parameters: map[string]string{"work_mem": "5MB"}}, 3)
	d.mount(map[string]string{"username": "app", "password": "secret", "dbname": "shop"})
	d.Await("three instances that serve", func() bool { return d.IsWhole(t.Context()) })
	leader := d.Published(t.Context())
	leader.says("SHOW work_mem", "5MB")
	leader.says(hasRole, "1")
	d.configure(func(s *contract.Settings) {
		s.Parameters = map[string]string{"work_mem": "6MB", "shared_buffers": "64MB"}
	})
	for _, pod := range d.Pods {
		pod.says("SHOW work_mem", "6MB")
		d.Await("report of a restart to come", func() bool { return pod.Report(t.Context()).PendingRestart })
		pod.says("SHOW shared_buffers", "128MB")
	}
	d.mount(map[string]string{"username": "postgres"})
	d.Await("report of a name that can't be", func() bool {
		return leader.Report(t.Context()).Problem == `the Secret of the application: username: Invalid value: "postgres": `+
			"is the server's or Mainstay's own: choose another name"
	})
	leader.Kill()
	d.mount(map[string]string{"username": "app"})
	leader.Start()
	d.Await("three instances that serve again", func() bool { return d.IsWhole(t.Context()) })
	leader.says("SHOW shared_buffers", "64MB")
	next := d.Published(t.Context())
	next.says(hasRole, "1")
	d.Await("report without a problem", func() bool { return next.Report(t.Context()).Problem == "" })
}
