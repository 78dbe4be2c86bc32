package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
)

// sampleName is the WebApp whose writes are recorded. The text occurs in nothing but its name.
const sampleName = "recorded-sample"

// newWebApp returns a small WebApp: what most users would write.
func newWebApp(namespace, name string) *msappsv1.WebApp {
	return &msappsv1.WebApp{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       msappsv1.WebAppSpec{Image: "docker.io/mainstay/demo-web:1.0", Replicas: new(int32(1)), Port: 8080},
	}
}

func appName(i int) string { return fmt.Sprintf("app-%05d", i) }

// each calls do for 0 to n-1, atOnce in parallel, until one call fails.
func each(ctx context.Context, n, atOnce int, do func(context.Context, int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i := range n {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}

// makeNamespace creates a namespace.
func makeNamespace(ctx context.Context, to client.Client, name string) error {
	return to.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

// createWebApps creates n WebApps as users do, as fast as the clients can.
func createWebApps(ctx context.Context, to client.Client, namespace string, n, clients int) error {
	return each(ctx, n, clients, func(ctx context.Context, i int) error { return to.Create(ctx, newWebApp(namespace, appName(i))) })
}

// replay repeats a manager's writes for the sample, for WebApps of other names.
type replay struct {
	client *http.Client
	host   string
	// first are the writes of a creation except events: one for each child, and one of the status.
	first []write
	// from is the sample.
	from *msappsv1.WebApp
}

// resourceVersion is the precondition of a status patch. It cannot be the same for another object.
var resourceVersion = regexp.MustCompile(`"resourceVersion":"[0-9]+",?`)

// newReplay reads the recorded writes.
func newReplay(config *rest.Config, recorded string, from *msappsv1.WebApp) (*replay, error) {
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	file, err := os.Open(recorded)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	r := &replay{client: httpClient, host: strings.TrimSuffix(config.Host, "/"), from: from}
	for decoder := json.NewDecoder(bufio.NewReader(file)); ; {
		var made write
		if err := decoder.Decode(&made); err == io.EOF {
			return r, nil
		} else if err != nil {
			return nil, err
		}
		if strings.Contains(made.URI, "/"+from.Name) {
			made.Body = resourceVersion.ReplaceAllString(made.Body, "")
			r.first = append(r.first, made)
		}
	}
}

// write makes all writes for one WebApp, one after the other.
func (r *replay) write(ctx context.Context, app *msappsv1.WebApp) error {
	rename := strings.NewReplacer(r.from.Name, app.Name, string(r.from.UID), string(app.UID), "/namespaces/"+r.from.Namespace+"/",
		"/namespaces/"+app.Namespace+"/",
		`"namespace":"`+r.from.Namespace+`"`, `"namespace":"`+app.Namespace+`"`)
	for _, recorded := range r.first {
		request, err := http.NewRequestWithContext(ctx, recorded.Method, r.host+rename.Replace(recorded.URI),
			bytes.NewBufferString(rename.Replace(recorded.Body)))
		if err != nil {
			return err
		}
		request.Header = recorded.Header.Clone()
		request.Header.Del("Content-Length")
		response, err := r.client.Do(request)
		if err != nil {
			return err
		}
		answer, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil {
			return err
		}
		if response.StatusCode > 299 {
			return fmt.Errorf("%s %s: %s: %.300s", request.Method, request.URL.Path, response.Status, answer)
		}
	}
	return nil
}
