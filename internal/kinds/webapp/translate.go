package webapp

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/mainstay-platform/mainstay/api"
	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// refusedDeployment is how the API server begins when it refuses a Deployment for its fields.
var refusedDeployment = regexp.MustCompile(`^.*Deployment\.apps "[^"]*" is invalid: `)

// helperPath is the path of an init container or a side-car in a Deployment.
var helperPath = regexp.MustCompile(`spec\.template\.spec\.initContainers\[([0-9]+)\]`)

// variablePath is the path of a variable of the app's container in a Deployment.
var variablePath = regexp.MustCompile(`spec\.template\.spec\.containers\[0\]\.env\[([0-9]+)\]`)

// specPaths are the paths in a Deployment, and in the WebApp that it is made from; the first that
// matches counts.
var specPaths = strings.NewReplacer(
	"spec.template.spec.containers[0].readinessProbe", "spec.probes.readiness",
	"spec.template.spec.containers[0].livenessProbe", "spec.probes.liveness",
	"spec.template.spec.containers[0].startupProbe", "spec.probes.startup",
	"spec.template.spec.containers[0].", "spec.",
	"spec.template.spec.securityContext", "spec.podSecurityContext",
	"spec.template.spec.", "spec.",
	"spec.template.metadata.", "spec.podMetadata.",
	"spec.template.labels", "spec.podMetadata.labels",
	"spec.template.annotations", "spec.podMetadata.annotations",
	"spec.strategy.rollingUpdate.", "spec.strategy.",
)

// inSpec returns a failure in the words of the app's spec: the API server names the fields of the
// Deployment that it refuses.
func inSpec(app *msappsv1.WebApp, observed Observed, failure plan.Failure) plan.Failure {
	at := refusedDeployment.FindStringIndex(failure.Message)
	if failure.Reason != api.ReasonInvalidSpec || at == nil {
		return failure
	}
	text := helperPath.ReplaceAllStringFunc(failure.Message[at[1]:], func(found string) string {
		index, _ := strconv.Atoi(helperPath.FindStringSubmatch(found)[1])
		if first := len(app.Spec.InitContainers); index >= first {
			return fmt.Sprintf("spec.sidecars[%d]", index-first)
		}
		return fmt.Sprintf("spec.initContainers[%d]", index)
	})
	bindings, _ := effectiveBindings(app, observed)
	before := len(bindingVariables(&app.Spec, bindings))
	text = variablePath.ReplaceAllStringFunc(text, func(found string) string {
		index, _ := strconv.Atoi(variablePath.FindStringSubmatch(found)[1])
		if index < before {
			return "spec.bindings"
		}
		return fmt.Sprintf("spec.env[%d]", index-before)
	})
	failure.Message = specPaths.Replace(text)
	return failure
}
