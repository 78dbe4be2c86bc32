//go:build e2e

package databases

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
)

// bound is an application that asks its database for each page, as a user of its own.
const bound = `apiVersion: apps.mainstay.dev/v1
kind: WebApp
metadata: {name: shop}
spec:
  image: docker.io/mainstay/demo-shop:1.0
  replicas: 2
  securityProfile: Restricted
  bindings: [{kind: PostgreSQL, name: db, user: shop}]
  probes: {readiness: {httpGet: {path: /readyz, port: 8080}, periodSeconds: 1}}
`

// user is what the status says of the user.
func (d *database) user() databasev1.UserStatus {
	d.t.Helper()
	users := d.postgreSQL().Status.Users
	if len(users) != 1 {
		d.t.Fatalf("the status has the users %+v", users)
	}
	return users[0]
}

// uri is how the user connects now.
func (d *database) uri() string {
	d.t.Helper()
	var secret corev1.Secret
	d.get(d.user().SecretName, &secret)
	return string(secret.Data["uri"])
}

// asks gets a page all the time, until the returned function is called, which returns how many were
// got and which failed.
func asks(t *testing.T, url string) func() (int, []error) {
	get := func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := (&http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }()
		body, err := io.ReadAll(response.Body)
		if err == nil && response.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %s", response.Status, body)
		}
		return err
	}
	eventually(t, "the application answers", func() bool { return get(t.Context()) == nil })
	ctx, end := context.WithCancel(t.Context())
	asked := 0
	var failed []error
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ; ctx.Err() == nil; asked++ {
			if err := get(context.WithoutCancel(ctx)); err != nil {
				failed = append(failed, err)
			}
		}
	}()
	return func() (int, []error) {
		end()
		<-done
		return asked, failed
	}
}

// TestRotation rotates the password of a user while an application uses it: no page of it fails, it
// gets the next password by one rolling update, and the former password is then refused.
func TestRotation(t *testing.T) {
	d := newDatabase(t, "databases-rotation", "  version: \"17\"\n  storage: 1Gi\n  users: [{name: shop, overlap: 1m}]\n"+
		"  databases: [{name: shop, owner: shop}]\n")
	apply(t, d.namespace, bound)
	kubectl(t, "-n", d.namespace, "wait", "--for=condition=Ready", "webapp/shop", atMost)
	const revision = `{.metadata.annotations.deployment\.kubernetes\.io/revision}`
	if rollouts := kubectl(t, "-n", d.namespace, "get", "deployment", "shop", "-o", "jsonpath="+revision); rollouts != "1" {
		t.Errorf("the application started with %s rollouts", rollouts)
	}
	connects := func(uri string) (string, error) {
		return command(t.Context(), "", "sh", "-c", `"$KUBECTL" -n "$0" exec db-0 -- psql -At "$1" -c 'SELECT current_user' 2>&1`, d.namespace, uri)
	}
	former := d.uri()
	var service corev1.Service
	d.get("shop", &service)
	stop := asks(t, fmt.Sprintf("http://%s:%d/", service.Spec.ClusterIP, service.Spec.Ports[0].Port))

	d.patch(`{"users": [{"name": "shop", "overlap": "1m", "rotatedAt": "` + time.Now().UTC().Format(time.RFC3339) + `"}]}`)
	eventually(t, "the next password", func() bool { return d.user().Login == "shop.2" && d.user().FormerLogin == "shop" })
	for name, uri := range map[string]string{"former": former, "next": d.uri()} {
		if answer, err := connects(uri); err != nil || answer != "shop" {
			t.Errorf("in the overlap, the %s password connects as %q (%v)", name, answer, err)
		}
	}
	eventually(t, "the end of the former password", func() bool { return d.user().FormerLogin == "" })
	if answer, err := connects(former); err == nil || !strings.Contains(answer, "authentication failed") {
		t.Errorf("after the overlap, the former password is answered by %q (%v)", answer, err)
	}
	asked, failed := stop()
	t.Logf("%d pages, %d failed", asked, len(failed))
	if asked < 20 || len(failed) > 0 {
		t.Errorf("of %d pages, these failed: %v", asked, failed)
	}
	if rollouts := kubectl(t, "-n", d.namespace, "get", "deployment", "shop", "-o", "jsonpath="+revision); rollouts != "2" {
		t.Errorf("the application has had %s rollouts, and should have had its start and one for the next password", rollouts)
	}
}
