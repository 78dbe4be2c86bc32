package main

import (
	"context"
	"fmt"
	"strings"
)

const (
	// imageMark is the annotation of the demo's pod templates, with the digest of their image.
	imageMark = "demo/image"
	// namespaceMark is the annotation of a namespace that the demo has created.
	namespaceMark = "demo/namespace"
	// installed selects the Deployments of every installation of Mainstay.
	installed = "app.kubernetes.io/part-of=mainstay,app.kubernetes.io/component in (manager,apiserver)"
)

// demoNamespace is the namespace of the samples.
const demoNamespace = `apiVersion: v1
kind: Namespace
metadata:
  name: ` + namespace + `
  annotations:
    ` + namespaceMark + `: created
`

// refuseForeign returns an error if the cluster has an installation or a namespace that the demo
// has not made: it would overwrite the one, and advise to delete the other. It changes nothing.
func (s *show) refuseForeign(ctx context.Context) error {
	deployments, err := s.kubectl(ctx, "get", "deployments.apps", "--all-namespaces", "-l", installed, "-o",
		`jsonpath={range .items[*]}{.metadata.namespace}/{.metadata.name} {.spec.template.metadata.annotations.`+imageMark+`}{"\n"}{end}`)
	if err != nil {
		return err
	}
	for line := range strings.Lines(deployments) {
		if fields := strings.Fields(line); len(fields) == 1 {
			return fmt.Errorf("the cluster has an installation of Mainstay that is not the demo's (Deployment %s): "+
				"use another cluster, or uninstall it first (docs/uninstall.md)", fields[0])
		}
	}
	found, err := s.kubectl(ctx, "get", "namespace", namespace, "--ignore-not-found", "-o",
		"jsonpath={.metadata.name} {.metadata.annotations."+namespaceMark+"}")
	if err != nil {
		return err
	}
	if len(strings.Fields(found)) == 1 {
		return fmt.Errorf("the cluster has a namespace %[1]s that is not the demo's: use another cluster, or delete the namespace. "+
			"If it is of an earlier demo: kubectl annotate namespace %[1]s %[2]s=created", namespace, namespaceMark)
	}
	return nil
}
