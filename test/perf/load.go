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
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
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

// replay repeats a manager's requests for the sample, for WebApps of other names.
type replay struct {
	client *http.Client
	host   string
	// requests are those of a creation, in their order.
	requests []request
	// from is the sample.
	from *msappsv1.WebApp
}

// resourceVersion is the precondition of a status patch. It cannot be the same for another object.
var resourceVersion = regexp.MustCompile(`"resourceVersion":"[0-9]+",|,?"resourceVersion":"[0-9]+"`)

// newReplay reads the recorded requests.
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
		var made request
		if err := decoder.Decode(&made); err == io.EOF {
			return r, nil
		} else if err != nil {
			return nil, err
		}
		if strings.Contains(made.URI, "/"+from.Name) || made.isEvent() && bytes.Contains(made.Body, []byte(from.Name)) {
			if err := made.toText(); err != nil {
				return nil, err
			}
			r.requests = append(r.requests, made)
		}
	}
}

// toText makes a request one in which names can be replaced: JSON instead of Protocol Buffers, and
// without a precondition.
func (r *request) toText() error {
	if strings.Contains(r.Header.Get("Content-Type"), "protobuf") {
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode(r.Body, nil, nil)
		if err != nil {
			return fmt.Errorf("%s %s: %w", r.Method, r.URI, err)
		}
		if r.Body, err = json.Marshal(object); err != nil {
			return err
		}
		r.Header.Set("Content-Type", "application/json")
	}
	r.Body = resourceVersion.ReplaceAll(r.Body, nil)
	return nil
}

// only returns a replay of the requests that are kept.
func (r *replay) only(keep func(request) bool) *replay {
	some := *r
	some.requests = slices.DeleteFunc(slices.Clone(r.requests), func(made request) bool { return !keep(made) })
	return &some
}

// send sends the requests for one WebApp, one after the other.
func (r *replay) send(ctx context.Context, app *msappsv1.WebApp) error {
	rename := strings.NewReplacer(r.from.Name, app.Name, string(r.from.UID), string(app.UID), "/namespaces/"+r.from.Namespace+"/",
		"/namespaces/"+app.Namespace+"/",
		`"namespace":"`+r.from.Namespace+`"`, `"namespace":"`+app.Namespace+`"`)
	for _, recorded := range r.requests {
		again, err := http.NewRequestWithContext(ctx, recorded.Method, r.host+rename.Replace(recorded.URI),
			bytes.NewBufferString(rename.Replace(string(recorded.Body))))
		if err != nil {
			return err
		}
		again.Header = recorded.Header.Clone()
		again.Header.Del("Content-Length")
		response, err := r.client.Do(again)
		if err != nil {
			return err
		}
		answer, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil {
			return err
		}
		if response.StatusCode > 299 && !recorded.isRead() {
			return fmt.Errorf("%s %s: %s: %.300s", again.Method, again.URL.Path, response.Status, answer)
		}
	}
	return nil
}
