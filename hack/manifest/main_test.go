package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	const in = `---
# only a comment
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  labels: {app.kubernetes.io/managed-by: Helm, app.kubernetes.io/name: web, helm.sh/chart: web-1}
spec:
  template:
    metadata:
      labels: {helm.sh/chart: web-1, app: web}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: a.b
  annotations: {helm.sh/resource-policy: keep}
`
	const want = header + `---
apiVersion: v1
kind: Namespace
metadata:
  labels:
    app.kubernetes.io/name: mainstay
    pod-security.kubernetes.io/enforce: restricted
  name: here
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: a.b
---
apiVersion: apps/v1
kind: Deployment
metadata:
  labels:
    app.kubernetes.io/name: web
  name: web
spec:
  template:
    metadata:
      labels:
        app: web
`
	var out bytes.Buffer
	if err := run("here", strings.NewReader(in), &out); err != nil {
		t.Fatal(err)
	}
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

func TestRunRefuses(t *testing.T) {
	long := "{apiVersion: v1, kind: ConfigMap, metadata: {name: big}, data: {x: " + strings.Repeat("x", maxObject) + "}}"
	for _, test := range []struct{ name, namespace, in, want string }{
		{"no namespace", "", "{kind: A}", "--namespace"},
		{"nothing", "here", "---\n", "the input is empty"},
		{"no YAML", "here", "{", "reading document 1"},
		{"too large", "here", long, "ConfigMap big has 250"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			err := run(test.namespace, strings.NewReader(test.in), &out)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
			if out.Len() > 0 {
				t.Error("something was written")
			}
		})
	}
}
