package main

import (
	"strings"
	"testing"
)

// source has markers in every place that a comment can have.
const source = `package p

// Observe reads.
//
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list
// +kubebuilder:rbac:groups="",resources=services;pods,verbs=get
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=mainstay-system,resources=leases,verbs=create
func Observe() {}

// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=delete;get

func inner() {
	// +kubebuilder:rbac:groups=apps,resources=deployments/scale,resourceNames=web,verbs=patch
	// +kubebuilder:rbac:urls=/metrics,verbs=get
}
`

// want has the verbs of each resource together, in an order that does not depend on source's.
const want = header + `---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: manager
rules:
- nonResourceURLs:
  - /metrics
  verbs:
  - get
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
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: manager
rules:
- apiGroups:
  - coordination.k8s.io
  resources:
  - leases
  verbs:
  - create
`

func TestRender(t *testing.T) {
	rules, err := parseFile("p.go", source)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 { // maps have no order
		got, err := render(rules)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Fatalf("got\n%s\nwant\n%s", got, want)
		}
	}
}

func TestMarkerRefused(t *testing.T) {
	for marker, want := range map[string]string{
		`groups=apps,resources=deployments`:                                "verbs are missing",
		`groups=apps,verbs=get`:                                            "groups and resources are missing",
		`resources=pods,verbs=get`:                                         "groups and resources are missing",
		`groups=apps,resources=*,verbs=get`:                                "wildcard",
		`groups=apps,resources=deployments,verbs=*`:                        "wildcard",
		`groups="*",resources=deployments,verbs=get`:                       "wildcard",
		`groups=apps,resources=*/scale,verbs=get`:                          "wildcard",
		`groups=rbac.authorization.k8s.io,resources=roles,verbs=bind`:      "any right",
		`groups=apps,resource=deployments,verbs=get`:                       "not a key",
		`groups=apps,resources,verbs=get`:                                  "no key=value",
		`groups=apps,resources=deployments,verbs=`:                         "needs quotes",
		`groups="",resources=pods,namespace=other,verbs=get`:               "the manager's own",
		`urls=/metrics,groups=apps,verbs=get`:                              "stand alone",
		`groups=apps,resources=deployments,resourceNames=web,verbs=create`: "restricted to names",
		`groups="a,resources=deployments,resourceNames=web,verbs=get`:      "invalid syntax",
	} {
		if _, err := parseMarker(marker); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %q", marker, err, want)
		}
	}
}
