package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mainstay-platform/mainstay/hack/internal/step"
)

// answering is a kubectl that finds what two variables say.
const answering = `#!/bin/sh
case "$2" in
deployments.apps) printf '%s' "$DEPLOYMENTS" ;;
namespace) printf '%s' "$NAMESPACE" ;;
*) exit 1 ;;
esac
`

// TestRefuseForeign: the demo continues what it has made, and takes nothing else over.
func TestRefuseForeign(t *testing.T) {
	kubectl := filepath.Join(t.TempDir(), "kubectl")
	if err := os.WriteFile(kubectl, []byte(answering), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	const ours = "mainstay-system/mainstay-apiserver sha256:1\n"
	for name, test := range map[string]struct{ deployments, namespace, want string }{
		"an empty cluster":          {},
		"an earlier run":            {ours + "mainstay-system/mainstay-manager sha256:1\n", "demo created", ""},
		"an interrupted run":        {ours, "", ""},
		"an installation":           {"ops/mainstay-manager \n", "", "Deployment ops/mainstay-manager"},
		"a second installation":     {ours + "ops/mainstay-manager \n", "demo created", "Deployment ops/mainstay-manager"},
		"a namespace of that name":  {"", "demo ", "a namespace demo that is not the demo's"},
		"a namespace, and our pods": {ours, "demo ", "a namespace demo that is not the demo's"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("DEPLOYMENTS", test.deployments)
			t.Setenv("NAMESPACE", test.namespace)
			err := (&show{cluster: step.Cluster{Kubectl: kubectl}}).refuseForeign(t.Context())
			if (err != nil) != (test.want != "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got the error %v, want one with %q", err, test.want)
			}
		})
	}
}

// TestRemaining: a run that was refused advises to delete nothing.
func TestRemaining(t *testing.T) {
	for name, test := range map[string]struct {
		run  show
		want string
	}{
		"the testbed":                {show{}, "make demo-down"},
		"a cluster that was refused": {show{registry: "registry.example.com"}, ""},
		"a cluster that it may use":  {show{registry: "registry.example.com", mayUse: true}, "kubectl delete namespace demo"},
	} {
		got := test.run.remaining()
		if strings.Contains(got, "What has started stays") != (test.want != "") || !strings.Contains(got, test.want) {
			t.Errorf("%s: the demo says %q, want %q", name, got, test.want)
		}
	}
}
