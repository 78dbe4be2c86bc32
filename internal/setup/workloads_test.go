package setup

import (
	"context"
	"errors"
	"fmt"
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

	"github.com/mainstay-platform/mainstay/internal/kinds/appconfig/appconfigcontroller"
	"github.com/mainstay-platform/mainstay/internal/kit/watch"
)

// restarting returns a kind that restarts workloads.
func restarting(name string) kind {
	return kind{name: name, usesWorkloads: true, demands: appconfigcontroller.Demands, needs: func() []watch.Need { return nil }}
}

// TestWorkloadsAreShared: what the kinds share is cached once, in addition to the needs of each,
// and not at all while they are off.
func TestWorkloadsAreShared(t *testing.T) {
	others := slices.DeleteFunc(kinds(), func(k kind) bool { return k.usesWorkloads })
	held := func(on []kind) []string {
		t.Helper()
		options, err := cacheOptions(on)
		if err != nil {
			t.Fatal(err)
		}
		var types []string
		for object := range options {
			types = append(types, fmt.Sprintf("%T", object))
		}
		slices.Sort(types)
		return types
	}
	want := append(held(others), "*v1.DaemonSet", "*v1.Deployment", "*v1.StatefulSet")
	slices.Sort(want)
	if diff := cmp.Diff(want, held(append(slices.Clone(others), restarting("a"), restarting("b")))); diff != "" {
		t.Error(diff)
	}
}

// TestDemandReaders: the order of the kinds' demands, which messages show, is that of their names.
func TestDemandReaders(t *testing.T) {
	var names []string
	for _, reader := range demandReaders(kinds()) {
		names = append(names, reader.Name)
	}
	if diff := cmp.Diff([]string{"appconfig", "configmonitor"}, names); diff != "" {
		t.Error(diff)
	}
}

// TestSecretAccess: the key is read only if Secrets are.
func TestSecretAccess(t *testing.T) {
	nowhere := &rest.Config{Host: "http://127.0.0.1:1"}
	settings := DefaultSettings()
	settings.Namespace = "mainstay-system"
	if got, err := secretAccess(t.Context(), nowhere, settings, []kind{restarting("a")}); err != nil || len(got.Namespaces) > 0 {
		t.Errorf("without namespaces: got %v, %v", got, err)
	}
	settings.SecretNamespaces = []string{"shop"}
	if got, err := secretAccess(t.Context(), nowhere, settings, nil); err != nil || len(got.Namespaces) > 0 {
		t.Errorf("without such a kind: got %v, %v", got, err)
	}
	if _, err := secretAccess(t.Context(), nowhere, settings, []kind{restarting("a")}); err == nil ||
		!strings.Contains(err.Error(), "mainstay-system/mainstay-hash-key") {
		t.Errorf("the key was not asked for: %v", err)
	}
}

// TestGrantedSecrets: a missing right affects the Secrets of that namespace only.
func TestGrantedSecrets(t *testing.T) {
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
			got, err := grantedSecrets(t.Context(), live, []string{"blog", "shop", "web"}, 50*time.Millisecond)
			if diff := cmp.Diff(test.want, got); diff != "" || (err == nil) != (test.fails == "") || err != nil && err.Error() != test.fails {
				t.Errorf("%v: %s", err, diff)
			}
		})
	}
}

func TestSecretNamespaces(t *testing.T) {
	for name, test := range map[string]struct {
		own              string
		watched, secrets []string
		want             string
	}{
		"none":                   {"", nil, nil, ""},
		"without a key's place":  {"", nil, []string{"shop"}, "--secret-namespaces needs --namespace"},
		"all are watched":        {"mainstay-system", nil, []string{"shop"}, ""},
		"some are watched":       {"mainstay-system", []string{"web", "shop"}, []string{"shop"}, ""},
		"not this one":           {"mainstay-system", []string{"web", "blog"}, []string{"web", "shop"}, `--secret-namespaces: invalid value "shop": must be one of --watch-namespaces (web,blog)`},
		"no name of a namespace": {"mainstay-system", nil, []string{"Shop"}, `--secret-namespaces: invalid value "Shop": must be the name of a namespace`},
	} {
		t.Run(name, func(t *testing.T) {
			settings := DefaultSettings()
			settings.LeaderElection = false
			settings.Namespace, settings.WatchNamespaces, settings.SecretNamespaces = test.own, test.watched, test.secrets
			_, err := settings.validate()
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
