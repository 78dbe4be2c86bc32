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
	}{
		"all namespaces":         {allKinds(), nil, []string{"shop"}, []string{"shop"}, nil, []string{"shop"}, ""},
		"all are granted":        {allKinds(), []string{"shop", "web"}, []string{"web"}, nil, []string{"shop", "web"}, []string{"web"}, ""},
		"one is not":             {allKinds(), []string{"shop", "web"}, []string{"shop", "web"}, []string{"shop"}, []string{"web"}, []string{"web"}, ""},
		"only policies, no Role": {[]string{"platformpolicy"}, []string{"shop"}, nil, []string{"shop"}, []string{"shop"}, nil, ""},
		"none is": {[]string{"webapp"}, []string{"shop", "web"}, nil, []string{"shop", "web"}, []string{}, nil,
			"--watch-namespaces: the manager may watch none of shop,web"},
	} {
		t.Run(name, func(t *testing.T) {
			live := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
				List: func(_ context.Context, _ client.WithWatch, into client.ObjectList, options ...client.ListOption) error {
					if into.GetObjectKind().GroupVersionKind().Kind != "DeploymentList" {
						t.Errorf("asked is for %s", into.GetObjectKind().GroupVersionKind())
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
