package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// source has markers in every place that a comment can have.
const source = `package p

// Observe reads.
//
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list
// +kubebuilder:rbac:groups="",resources=services;pods;namespaces,verbs=get
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=mainstay-system,resources=leases,verbs=create
// +kubebuilder:rbac:groups=events.k8s.io,namespace=default,resources=events,verbs=create
// +kubebuilder:rbac:part=webhooks;shop,groups=policy.mainstay.dev,resources=platformpolicies/status,verbs=patch
func Observe() {}

// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=delete;get

func inner() {
	// +kubebuilder:rbac:groups=apiregistration.k8s.io,resources=apiservices,resourceNames=v1.example.com,verbs=create;patch
	// +kubebuilder:rbac:groups=apps,resources=deployments/scale,resourceNames=web,verbs=patch
	// +kubebuilder:rbac:urls=/metrics,verbs=get
}
`

// want has the united verbs of each resource, in an order that does not depend on source's.
var want = map[string]string{
	"shop.yaml": header + `cluster:
- nonResourceURLs:
  - /metrics
  verbs:
  - get
- apiGroups:
  - ""
  resources:
  - namespaces
  verbs:
  - get
- apiGroups:
  - apiregistration.k8s.io
  resourceNames:
  - v1.example.com
  resources:
  - apiservices
  verbs:
  - create
  - patch
- apiGroups:
  - policy.mainstay.dev
  resources:
  - platformpolicies/status
  verbs:
  - patch
default:
- apiGroups:
  - events.k8s.io
  resources:
  - events
  verbs:
  - create
own:
- apiGroups:
  - coordination.k8s.io
  resources:
  - leases
  verbs:
  - create
watched:
- apiGroups:
  - ""
  resources:
  - pods
  - services
  verbs:
  - get
- apiGroups:
  - apps
  resources:
  - deployments
  verbs:
  - delete
  - get
  - list
- apiGroups:
  - apps
  resourceNames:
  - web
  resources:
  - deployments/scale
  verbs:
  - patch
`,
	"webhooks.yaml": header + `cluster:
- apiGroups:
  - policy.mainstay.dev
  resources:
  - platformpolicies/status
  verbs:
  - patch
`,
}

func TestRender(t *testing.T) {
	rules, err := parseFile("internal/kinds/shop/shopcontroller/p.go", source)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 { // maps have no order
		rendered, err := render(rules)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for name, content := range rendered {
			got[name] = string(content)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	}
}

// TestPartOf: the rights of a kind are those in its folder, and only those.
func TestPartOf(t *testing.T) {
	for path, want := range map[string]string{
		"internal/kinds/webapp/webappcontroller/setup.go":  "webapp",
		"/src/internal/kinds/webapp/webappcontroller/a.go": "webapp",
		"internal/kinds/names.go":                          shared,
		"internal/setup/manager.go":                        shared,
	} {
		if got := partOf(path); got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
}

// TestRun: the file of a removed part is deleted.
func TestRun(t *testing.T) {
	source, output := t.TempDir(), t.TempDir()
	for name, content := range map[string]string{
		filepath.Join(source, "a.go"):      "package a\n\n// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get\n",
		filepath.Join(source, "a_test.go"): "package a\n\n// +kubebuilder:rbac:part=tests,groups=apps,resources=deployments,verbs=get\n",
		filepath.Join(output, "gone.yaml"): "",
	} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := run(output, []string{source}); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(output)
	if err != nil || len(left) != 1 || left[0].Name() != "shared.yaml" {
		t.Errorf("got %v, %v", left, err)
	}
}

func TestMarkerRefused(t *testing.T) {
	for marker, want := range map[string]string{
		`groups=apps,resources=deployments`:                                "verbs: required",
		`groups=apps,verbs=get`:                                            "groups and resources, or urls: required",
		`resources=pods,verbs=get`:                                         "groups and resources, or urls: required",
		`groups=apps,resources=*,verbs=get`:                                "wildcard",
		`groups=apps,resources=deployments,verbs=*`:                        "wildcard",
		`groups="*",resources=deployments,verbs=get`:                       "wildcard",
		`groups=apps,resources=*/scale,verbs=get`:                          "wildcard",
		`groups=rbac.authorization.k8s.io,resources=roles,verbs=bind`:      "any right",
		`groups=apps,resource=deployments,verbs=get`:                       "unknown key",
		`groups=apps,resources,verbs=get`:                                  "must be key=value",
		`groups=apps,resources=deployments,verbs=`:                         "needs quotes",
		`groups="",resources=pods,namespace=other,verbs=get`:               "the manager's own",
		`groups=apps,resources=deployments,part=../x,verbs=get`:            "must consist of lower-case letters",
		`urls=/metrics,groups=apps,verbs=get`:                              "can't be used with groups or resources",
		`groups=apps,resources=deployments,resourceNames=web,verbs=create`: "restricted to names",
		`groups="a,resources=deployments,resourceNames=web,verbs=get`:      "invalid syntax",
	} {
		if _, err := parseMarker(marker); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %q", marker, err, want)
		}
	}
}
