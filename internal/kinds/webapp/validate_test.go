package webapp

import (
	"testing"
)

const (
	notAnImage   = `must be an image reference`
	mount        = `volumeMounts: [{name: data, mountPath: /data}]`
	mountedByAll = mount + "\ninitContainers: [{name: a, image: a, " + mount + "}]\nsidecars: [{name: b, image: a, " + mount + "}]"
	requestedCPU = `resources: {requests: {cpu: 10m}}`
	byMemory     = `autoscaling: {max: 2, memory: 50}`
)

// validateRules are most rules. Those of the Restricted profile are in security_test.go.
var validateRules = map[string]rule{
	"the least spec": {accepted: `{}`},
	"an image":       {`image: shop/Web:1`, `image: shop/web:1`, "spec.image: " + notAnImage},
	"an init container's image": {`initContainers: [{name: a, image: 'a:1'}, {name: b, image: a b}]`,
		`initContainers: [{name: a, image: 'a:1'}, {name: b, image: b}]`, "spec.initContainers[1].image: " + notAnImage},
	"a side-car's image": {`sidecars: [{name: b, image: 'http://a'}]`, `sidecars: [{name: b, image: 'localhost:5000/b'}]`,
		"spec.sidecars[0].image: " + notAnImage},
	"a rollout that can't move": {`strategy: {maxSurge: 0}`, `strategy: {maxSurge: 0, maxUnavailable: 1}`,
		"spec.strategy.maxSurge: greater than 0 if maxUnavailable is 0"},
	"a rollout that can't move, in percent": {`strategy: {maxSurge: 0%, maxUnavailable: 0%}`, `strategy: {maxSurge: 1, maxUnavailable: 0}`,
		"spec.strategy.maxSurge: greater than 0"},
	"autoscaling without a CPU request": {`autoscaling: {max: 2}`, "autoscaling: {max: 2}\n" + requestedCPU,
		"spec.resources.requests[cpu]: spec.autoscaling.cpu is a percentage"},
	"autoscaling by memory without its request": {byMemory + "\n" + requestedCPU, byMemory + "\nresources: {limits: {memory: 10Mi}}",
		"spec.resources.requests[memory]: spec.autoscaling.memory is a percentage"},
	"a mount of no volume": {mount, mountedByAll + "\nvolumes: [{name: data, emptyDir: {}}]", `spec.volumeMounts[0].name: "data"`},
	"an init container's mount of no volume": {`initContainers: [{name: a, image: a, ` + mount + `}]`, `{}`,
		`spec.initContainers[0].volumeMounts[0].name: "data"`},
	"a side-car's mount of no volume": {`sidecars: [{name: b, image: a, ` + mount + `}]`, `{}`,
		`spec.sidecars[0].volumeMounts[0].name: "data"`},
	"an init container with a probe": {`initContainers: [{name: a, image: a, startupProbe: {}}]`,
		`sidecars: [{name: b, image: a, startupProbe: {exec: {command: ['true']}}}]`, "spec.initContainers[0].startupProbe: runs to completion"},
	"the name tmp under Restricted": {"securityProfile: Restricted\nvolumes: [{name: tmp, emptyDir: {}}]",
		`volumes: [{name: tmp, emptyDir: {}}]`, "spec.volumes: must have another name"},
}

func TestValidate(t *testing.T) {
	for name, rule := range validateRules {
		t.Run(name, rule.check)
	}
}

func TestValidateReportsAllProblems(t *testing.T) {
	problems := Validate(admitted(withFields("image: 'A/b:c:d'\nstrategy: {maxSurge: 0}\nvolumeMounts: [{name: x}]")))
	if len(problems) != 3 {
		t.Errorf("got %v", problems)
	}
}
