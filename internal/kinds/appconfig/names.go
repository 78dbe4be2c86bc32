package appconfig

import (
	"fmt"
	"strconv"

	"github.com/mainstay-platform/mainstay/api"
	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/naming"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

const (
	// Kind is the name of the kind, which is part of its demands' origin.
	Kind = "AppConfig"
	// Controller is the name of the kind's controller; its field manager is mainstay/appconfig.
	Controller = "appconfig"
	// Component is the value of app.kubernetes.io/component on all objects of an AppConfig.
	Component = "config"

	// putBack is the value of the annotation that says that a content was put back.
	putBack = "true"
)

// Origin returns the origin of an AppConfig's demands.
func Origin(name string) string { return workload.OriginOf(Kind, name) }

// revisionName returns the name of the immutable ConfigMap that keeps a revision.
func revisionName(config *configv1.AppConfig, revision int64) string {
	return config.ConfigMapName() + "-" + strconv.FormatInt(revision, 10)
}

// part returns the AppConfig as part of its application.
func part(config *configv1.AppConfig) naming.Part {
	return naming.Part{Name: config.Spec.Application, Component: Component, PartOf: config.Labels[api.LabelPartOf]}
}

// ref names a ConfigMap of the AppConfig.
func ref(config *configv1.AppConfig, name string) plan.Ref {
	return plan.Ref{Kind: "ConfigMap", Namespace: config.Namespace, Name: name}
}

// maxRevision is the highest number of a revision that counts. Users can write a higher one into an
// annotation: there might be no next one.
const maxRevision = 1_000_000_000_000

// number parses a revision in an annotation or label; 0 if it is invalid.
func number(text string) int64 {
	parsed, err := strconv.ParseInt(text, 10, 64)
	if err != nil || parsed < 1 || parsed > maxRevision {
		return 0
	}
	return parsed
}

func revisionText(revision int64) string { return fmt.Sprint(revision) }
