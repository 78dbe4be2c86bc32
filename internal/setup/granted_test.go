package setup

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/mainstay-platform/mainstay/internal/registration"
)

// TestSecretAccess: the key is read only if Secrets are.
func TestSecretAccess(t *testing.T) {
	nowhere, err := newClient(&rest.Config{Host: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	settings := DefaultSettings()
	settings.Namespace = "mainstay-system"
	if got, err := secretAccess(t.Context(), nowhere, settings, []registration.Kind{restarting("a")}); err != nil || len(got.Namespaces) > 0 {
		t.Errorf("without namespaces: got %v, %v", got, err)
	}
	settings.SecretNamespaces = []string{"shop"}
	if got, err := secretAccess(t.Context(), nowhere, settings, nil); err != nil || len(got.Namespaces) > 0 {
		t.Errorf("without such a kind: got %v, %v", got, err)
	}
	if _, err := secretAccess(t.Context(), nowhere, settings, []registration.Kind{restarting("a")}); err == nil ||
		!strings.Contains(err.Error(), "mainstay-system/mainstay-hash-key") {
		t.Errorf("the key was not asked for: %v", err)
	}
}

// TestGranted: a missing right affects that namespace only.
func TestGranted(t *testing.T) {
	secrets := schema.GroupResource{Resource: "secrets"}
	forbidden := apierrors.NewForbidden(secrets, "", errors.New("no"))
	for name, test := range map[string]struct {
		// answers are for the namespace shop, in order; the last one is repeated.
		answers []error
		want    []string
		fails   string
	}{
		"granted":             {[]error{nil}, []string{"blog", "shop", "web"}, ""},
		"granted in a moment": {[]error{forbidden, nil}, []string{"blog", "shop", "web"}, ""},
		"no Role":             {[]error{forbidden}, []string{"blog", "web"}, ""},
		"no namespace": {[]error{apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "shop")}, []string{"blog", "web"},
			""},
		"no answer": {[]error{errors.New("connection refused")}, nil,
			"checking the right to read Secrets in namespace shop: connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			live := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
				List: func(_ context.Context, _ client.WithWatch, into client.ObjectList, options ...client.ListOption) error {
					asked := (&client.ListOptions{}).ApplyOptions(options)
					if _, withoutValues := into.(*metav1.PartialObjectMetadataList); !withoutValues || asked.Limit != 1 {
						t.Errorf("asked is for %T, %d", into, asked.Limit)
					}
					if asked.Namespace != "shop" {
						return nil
					}
					answer := test.answers[0]
					test.answers = test.answers[min(1, len(test.answers)-1):]
					return answer
				},
			}).Build()
			got, err := readingSecrets.granted(t.Context(), live, []string{"blog", "shop", "web"}, 50*time.Millisecond)
			if diff := cmp.Diff(test.want, got); diff != "" || (err == nil) != (test.fails == "") || err != nil && err.Error() != test.fails {
				t.Errorf("%v: %s", err, diff)
			}
		})
	}
}

// TestServed: the manager does without the namespaces in which it has no rights, and never watches
// all namespaces instead of none.
func TestServed(t *testing.T) {
	for name, test := range map[string]struct {
		kinds, watched, secrets, denied []string
		want, wantSecrets               []string
		fails                           string
		// asks is the kind of the lists that are asked for.
		asks string
	}{
		"all namespaces": {kinds: allKinds(), secrets: []string{"shop"}, denied: []string{"shop"}, wantSecrets: []string{"shop"}},
		"all are granted": {kinds: allKinds(), watched: []string{"shop", "web"}, secrets: []string{"web"}, want: []string{"shop", "web"},
			wantSecrets: []string{"web"}, asks: "DeploymentList"},
		"one is not": {kinds: allKinds(), watched: []string{"shop", "web"}, secrets: []string{"shop", "web"}, denied: []string{"shop"},
			want: []string{"web"}, wantSecrets: []string{"web"}, asks: "DeploymentList"},
		"only policies, no Role": {kinds: []string{"platformpolicy"}, watched: []string{"shop"}, denied: []string{"shop"},
			want: []string{"shop"}},
		"none is": {kinds: []string{"webapp"}, watched: []string{"shop", "web"}, denied: []string{"shop", "web"}, want: []string{},
			fails: "--watch-namespaces: the manager may watch none of shop,web", asks: "DeploymentList"},
		"a kind without Deployments": {kinds: []string{"cache", "platformpolicy"}, watched: []string{"shop", "web"}, denied: []string{"web"},
			want: []string{"shop"}, asks: "CacheList"},
	} {
		t.Run(name, func(t *testing.T) {
			live := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
				List: func(_ context.Context, _ client.WithWatch, into client.ObjectList, options ...client.ListOption) error {
					if asked := into.GetObjectKind().GroupVersionKind(); asked.Kind != test.asks {
						t.Errorf("asked is for %s", asked)
					}
					if slices.Contains(test.denied, (&client.ListOptions{}).ApplyOptions(options).Namespace) {
						return apierrors.NewForbidden(schema.GroupResource{Resource: "deployments"}, "", errors.New("no"))
					}
					return nil
				},
			}).Build()
			on, err := enabledKinds(test.kinds)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Settings{WatchNamespaces: test.watched, SecretNamespaces: test.secrets}.served(t.Context(), live, on, 50*time.Millisecond)
			if diff := cmp.Diff(test.want, got.WatchNamespaces) + cmp.Diff(test.watched, got.admitted); diff != "" {
				t.Error(diff)
			}
			if (err == nil) != (test.fails == "") || err != nil && !strings.Contains(err.Error(), test.fails) {
				t.Errorf("got %v, want %q", err, test.fails)
			}
			if diff := cmp.Diff(test.wantSecrets, got.SecretNamespaces); err == nil && diff != "" {
				t.Errorf("Secrets: %s", diff)
			}
		})
	}
}

// TestWatching: each kind alone has the right that the manager asks for at its start; that the
// chart's Role grants it is tested in tools/helm. Nothing converts objects then, so no kind with
// several versions is asked for.
func TestWatching(t *testing.T) {
	const deployments = "apps/v1, Kind=DeploymentList"
	const databases, platforms = "database.mainstay.dev/v1, Kind=", "platform.mainstay.dev/v1, Kind="
	want := map[string]string{
		"webapp":                 deployments,
		"appconfig":              deployments,
		"configmonitor":          deployments,
		"instrumentation":        deployments,
		"clusterinstrumentation": deployments,
		"postgresql":             databases + "PostgreSQLList",
		"cache":                  databases + "CacheList",
		"appstack":               platforms + "AppStackList",
		"ecommerceplatform":      platforms + "EcommercePlatformList",
	}
	got := map[string]string{}
	for _, kind := range kinds() {
		if isWithinNamespaces(kind) {
			got[kind.Name] = watching([]registration.Kind{kind}).list.String()
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := watching(kinds()).list.String(); got != deployments {
		t.Errorf("for all kinds: asked is for %s", got)
	}
}
