package webapp

import "testing"

// TestPodForm has each rule once refused and once, for the nearest spec, accepted.
func TestPodForm(t *testing.T) {
	for name, rule := range map[string]rule{
		"a request above its limit": {`resources: {requests: {cpu: 1}, limits: {cpu: 500m}}`,
			`resources: {requests: {cpu: 500m}, limits: {cpu: 500m}}`,
			`spec.resources.requests.cpu: Invalid value: "1": must be at most the limit, 500m (spec.resources.limits.cpu)`},
		"a helper's request": {`initContainers: [{name: a, image: a, resources: {requests: {cpu: 2}, limits: {cpu: 1}}}]`,
			`initContainers: [{name: a, image: a, resources: {requests: {cpu: 1}, limits: {cpu: 2}}}]`,
			`spec.initContainers[0].resources.requests.cpu: Invalid value: "2": must be at most the limit, 1`},
		"a variable's name": {`env: [{name: A=B}]`, `env: [{name: A B}]`,
			`spec.env[0].name: Invalid value: "A=B"`},
		"a variable of two values": {`env: [{name: A, value: x, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]`,
			`env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]`,
			`spec.env[0].valueFrom: Invalid value: "": must not be set together with value`},
		"a port without that name": {`probes: {readiness: {httpGet: {port: web}}}`,
			`probes: {readiness: {httpGet: {port: http}}}`,
			`spec.probes.readiness.httpGet.port: Invalid value: "web": must be http, which is the name of spec.port, or the number of a port`},
		"no port": {`probes: {readiness: {httpGet: {port: ''}}}`, `probes: {readiness: {httpGet: {port: 9000}}}`,
			`spec.probes.readiness.httpGet.port: Required value`},
		"a port out of range": {`probes: {readiness: {httpGet: {port: 70000}}}`, `probes: {readiness: {httpGet: {port: 65535}}}`,
			`spec.probes.readiness.httpGet.port: Invalid value: 70000: must be from 1 to 65535`},
		"a side-car's port": {`sidecars: [{name: b, image: b, startupProbe: {httpGet: {port: http}}}]`,
			`sidecars: [{name: b, image: b, startupProbe: {httpGet: {port: 9000}}}]`,
			`spec.sidecars[0].startupProbe.httpGet.port: Invalid value: "http": must be a number`},
		"a probe of nothing": {`probes: {readiness: {periodSeconds: 5}}`, `probes: {readiness: {exec: {command: ['true']}}}`,
			`spec.probes.readiness: Required value: must have one of httpGet, tcpSocket, grpc or exec`},
		"a probe of two kinds": {`probes: {readiness: {exec: {command: ['true']}, grpc: {port: 1}}}`,
			`probes: {readiness: {grpc: {port: 1}}}`,
			`spec.probes.readiness: Forbidden: must have only one of httpGet, tcpSocket, grpc or exec`},
		"an effect": {`tolerations: [{key: a, effect: Sometimes}]`,
			`tolerations: [{key: a, effect: NoSchedule}]`,
			`spec.tolerations[0].effect: Unsupported value: "Sometimes": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"`},
		"an operator": {`tolerations: [{key: a, operator: Is}]`, `tolerations: [{key: a, operator: Equal}]`,
			`spec.tolerations[0].operator: Unsupported value: "Is": supported values: "Equal", "Exists"`},
		"a value that is not compared": {`tolerations: [{key: a, operator: Exists, value: b}]`, `tolerations: [{key: a, value: b}]`,
			`spec.tolerations[0].value: Invalid value: "b": must be empty`},
		"no key": {`tolerations: [{value: b}]`, `tolerations: [{operator: Exists}]`,
			`spec.tolerations[0].key: Required value`},
		"seconds without NoExecute": {`tolerations: [{key: a, tolerationSeconds: 1}]`,
			`tolerations: [{key: a, effect: NoExecute, tolerationSeconds: 1}]`,
			`spec.tolerations[0].effect: Invalid value: "": must be NoExecute with tolerationSeconds`},
		"a ConfigMap without a name": {`volumes: [{name: v, configMap: {}}]`, `volumes: [{name: v, configMap: {name: a}}]`,
			`spec.volumes[0].configMap.name: Required value`},
		"a Secret without a name": {`volumes: [{name: v, secret: {}}]`, `volumes: [{name: v, secret: {secretName: a}}]`,
			`spec.volumes[0].secret.secretName: Required value`},
		"a claim without a name": {`volumes: [{name: v, persistentVolumeClaim: {claimName: ''}}]`,
			`volumes: [{name: v, persistentVolumeClaim: {claimName: a}}]`,
			`spec.volumes[0].persistentVolumeClaim.claimName: Required value`},
		"a label of a node": {`nodeSelector: {disk: ssd fast}`, `nodeSelector: {disk: ssd-fast}`,
			`spec.nodeSelector[disk]: Invalid value: "ssd fast": must be a label value`},
	} {
		t.Run(name, rule.check)
	}
}
