package webapp

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWarn(t *testing.T) {
	const floats = " may refer to another image at any time: use an immutable tag, or a digest"
	const digest = "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for name, test := range map[string]struct {
		unwise, wise string
		want         []string
	}{
		"a tag that moves": {`image: nginx:latest`, `image: 'nginx:1'`, []string{"spec.image: nginx:latest" + floats}},
		"no tag, unless there is a digest": {`image: localhost:5000/nginx`, `image: nginx:latest` + digest,
			[]string{"spec.image: localhost:5000/nginx" + floats}},
		"helpers": {
			`{initContainers: [{image: 'a:1'}, {image: a}], sidecars: [{image: b}]}`, `{initContainers: [{image: 'a:1'}], sidecars: [{image: 'b:1'}]}`,
			[]string{"spec.initContainers[1].image: a" + floats, "spec.sidecars[0].image: b" + floats},
		},
		"all at once": {`{strategy: {type: Recreate}, replicas: 2}`, `{strategy: {type: Recreate}, replicas: 1}`,
			[]string{"spec.strategy.type: Recreate stops all 2 replicas at once on every change"}},
		"a name that shells can't read": {`env: [{name: A}, {name: LOG LEVEL}]`, `env: [{name: LOG_LEVEL}]`,
			[]string{`spec.env[1].name: "LOG LEVEL" can't be read by shells and many programs: use letters, digits and _`}},
		"memory in thousandths of a byte": {`resources: {limits: {memory: 512m}}`, `resources: {limits: {memory: 512Mi}}`,
			[]string{"spec.resources.limits.memory: 512m is 1 bytes: use for example 64Mi"}},
		"no grace": {`terminationGracePeriodSeconds: 0`, `terminationGracePeriodSeconds: 1`,
			[]string{"spec.terminationGracePeriodSeconds: 0 kills the application without time to complete its requests"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, Warn(admitted(withFields(test.unwise)))); diff != "" {
				t.Error(diff)
			}
			if warnings := Warn(admitted(withFields(test.wise))); warnings != nil {
				t.Errorf("the neighbour is warned of: %q", warnings)
			}
		})
	}
}
