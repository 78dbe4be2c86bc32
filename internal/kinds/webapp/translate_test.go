package webapp

import (
	"testing"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

func TestARefusedDeploymentIsReportedInTheWordsOfTheSpec(t *testing.T) {
	const refused = `applying Deployment web/shop: Deployment.apps "shop" is invalid: `
	app := admitted(spec(func(s *msappsv1.WebAppSpec) {
		s.InitContainers, s.Sidecars = []msappsv1.Container{{Name: "a"}}, []msappsv1.Container{{Name: "b"}, {Name: "c"}}
	}))
	for name, test := range map[string]struct{ reason, message, want string }{
		"the application's container": {"InvalidSpec", refused + "spec.template.spec.containers[0].env[1].name: Invalid value: \"=\": no",
			"spec.env[1].name: Invalid value: \"=\": no"},
		"a probe": {"InvalidSpec", refused + "spec.template.spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1",
			"spec.probes.liveness.successThreshold: Invalid value: 2: must be 1"},
		"several": {"InvalidSpec", refused + "[spec.template.spec.tolerations[0].effect: x, spec.template.spec.volumes[0].name: y]",
			"[spec.tolerations[0].effect: x, spec.volumes[0].name: y]"},
		"an init container": {"InvalidSpec", refused + "spec.template.spec.initContainers[0].image: x", "spec.initContainers[0].image: x"},
		"a side-car":        {"InvalidSpec", refused + "spec.template.spec.initContainers[2].image: x", "spec.sidecars[1].image: x"},
		"the pod's context": {"InvalidSpec", refused + "spec.template.spec.securityContext.sysctls[0].name: x",
			"spec.podSecurityContext.sysctls[0].name: x"},
		"the container's context": {"InvalidSpec", refused + "spec.template.spec.containers[0].securityContext: x", "spec.securityContext: x"},
		"the strategy":            {"InvalidSpec", refused + "spec.strategy.rollingUpdate.maxSurge: x", "spec.strategy.maxSurge: x"},
		"another object": {"InvalidSpec", `applying Service web/shop: Service "shop" is invalid: spec.ports[0].port: x`,
			`applying Service web/shop: Service "shop" is invalid: spec.ports[0].port: x`},
		"a refusal by a policy": {"Refused", refused + "spec.template.spec.x: y", refused + "spec.template.spec.x: y"},
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := Status(app, running(), plan.Result{Failure: &plan.Failure{Reason: test.reason, Message: test.message, Stalled: true}})
			if got.Conditions[0].Message != test.want {
				t.Errorf("got %s, want %s", got.Conditions[0].Message, test.want)
			}
		})
	}
}
