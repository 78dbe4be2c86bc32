package setup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestConnection: through a proxy, no credentials of this process are used.
func TestConnection(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	content := "apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: 'https://a:6443'}}]\nusers: [{name: a, user: {token: secret}}]\n" +
		"contexts: [{name: a, context: {cluster: a, user: a}}]\ncurrent-context: a\n"
	if err := os.WriteFile(kubeconfig, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", kubeconfig)
	to := connection{apiServer: "http://127.0.0.1:8001", qps: 7}
	config, err := to.config()
	if err != nil || config.Host != "http://127.0.0.1:8001" || config.BearerToken != "" || config.QPS != 7 || config.UserAgent == "" {
		t.Errorf("got %+v, %v", config, err)
	}
	if config, err := (&connection{}).config(); err != nil || config.Host != "https://a:6443" || config.BearerToken != "secret" {
		t.Errorf("without a proxy: %+v, %v", config, err)
	}
	for _, test := range []struct {
		to   connection
		want string
	}{
		{connection{apiServer: "http://127.0.0.1:8001", kubeconfig: kubeconfig}, "can't be used with --kubeconfig"},
		{connection{apiServer: "http://127.0.0.1:8001", context: "a"}, "can't be used with --kubeconfig"},
		{connection{apiServer: "127.0.0.1:8001"}, "must be http://host:port"},
		{connection{apiServer: "unix:///socket"}, "must be http://host:port"},
	} {
		if _, err := test.to.config(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: got %v, want %q", test.to, err, test.want)
		}
	}
}
