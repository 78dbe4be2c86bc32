//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
)

// bomb is a quantity of a few bytes that takes hours to read, as YAML and JSON have it.
const bomb = `"1e-999999999"`

// hostile are annotations that make a reader without limits use all that it has.
func hostile() map[string]string {
	empty := strings.Repeat("{},", 60_000)
	return map[string]string{
		"instrumentation.mainstay.dev/injected": `[{"id":"a","image":"x","mode":"InitContainer","mountPath":"/x",` +
			`"containers":[{"name":"app"}],"sizeLimit":` + bomb + `}]`,
		"config.mainstay.dev/reload":             strings.Repeat("a,", 120_000),
		"config.mainstay.dev/observed":           `{"sources":{"ConfigMap/a":{"all":"x"}},"x":[` + empty + `{}]}`,
		"config.mainstay.dev/pod-selector":       "app in (" + strings.Repeat("a,", 60_000) + "b)",
		"configmap.reloader.stakater.com/reload": strings.Repeat(`((\pL{9}){9}){9},(?i)((\pL{8}){9}){9},`, 6_000),
	}
}

// testHostileInput writes what cost most before it was bounded, as a developer may. Nothing of ours
// is busy with it, or restarts, and other objects are put right as always.
func testHostileInput(t *testing.T) {
	g := gomega.NewWithT(t)
	ns := namespace(t, "hostile")
	before := restartCounts(t)
	apply(t, ns, webapp("shop", demo, "replicas: 1"))
	waitReady(t, ns, "shop")

	annotations := hostile()
	for i, key := range slices.Sorted(maps.Keys(annotations)) {
		name := fmt.Sprintf("bomb-%d", i)
		createAnnotated(t, ns, "Deployment", "apps/v1", name, map[string]string{key: annotations[key]},
			fmt.Sprintf(`{replicas: 0, selector: {matchLabels: {app: %[1]s}}, template: {metadata: {labels: {app: %[1]s}}, `+
				`spec: {containers: [{name: web, image: %[2]s, envFrom: [{configMapRef: {name: flags}}]}]}}}`, name, demo))
		createAnnotated(t, ns, "ConfigMap", "v1", name, map[string]string{key: annotations[key]}, "")
	}
	for field, refused := range map[string]string{
		"spec.resources.limits": webapp("refused", demo, "resources: {limits: {memory: "+bomb+"}}"),
		"spec.annotations":      webapp("refused", demo, "annotations: {config.mainstay.dev/observed: x}"),
		"spec.agent.resources.limits": strings.Replace(instrumentation(demo, "[{container: web}]"), "options: team=shop",
			"resources: {limits: {memory: "+bomb+"}}", 1),
	} {
		_, err := tryApply(t, ns, refused)
		g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring(field)))
	}

	all := pods(t, system)
	g.Expect(all).NotTo(gomega.BeEmpty())
	for _, pod := range all {
		g.Eventually(func() (float64, error) {
			if !slices.Contains(names(t, system, "pods"), pod.Name) {
				return 0, nil // another test replaces the pods of our API server
			}
			return processorsOf(string(pod.UID), 5*time.Second)
		}).Should(gomega.BeNumerically("<", 0.5), "processors that %s uses", pod.Name)
	}
	// docs/quickstart.md promises two seconds on an idle machine.
	const promised = 2 * time.Second
	deleted := time.Now()
	remove(t, ns, "service/shop")
	g.Eventually(exists(t, ns, "service/shop"), 10*promised).Should(gomega.Succeed(), "a deleted child is created again")
	t.Logf("a deleted child was healed in %s", time.Since(deleted).Round(time.Millisecond))
	for pod, count := range restartCounts(t) {
		g.Expect(count).To(gomega.Equal(before[pod]), "restarts of "+pod)
	}
}

// createAnnotated creates an object with annotations.
func createAnnotated(t *testing.T, ns, kind, apiVersion, name string, annotations map[string]string, spec string) {
	t.Helper()
	var manifest strings.Builder
	fmt.Fprintf(&manifest, "apiVersion: %s\nkind: %s\nmetadata:\n  name: %s\n  annotations:\n", apiVersion, kind, name)
	for key, value := range annotations {
		fmt.Fprintf(&manifest, "    %s: %q\n", key, value)
	}
	if spec != "" {
		manifest.WriteString("spec: " + spec + "\n")
	}
	if output, err := command(t.Context(), manifest.String(), "sh", "-c", `"$KUBECTL" create -n "$0" -f - 2>&1`, ns); err != nil {
		t.Errorf("creating %s %s with %v: %s", kind, name, slices.Sorted(maps.Keys(annotations)), output)
	}
}

// processorsOf returns how many processors the processes of a pod used for some time, on average.
// Containers of the testbed are processes of this machine, in a cgroup named after the pod.
func processorsOf(uid string, during time.Duration) (float64, error) {
	before, err := ticksOf(uid)
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	<-time.After(during)
	after, err := ticksOf(uid)
	// A hundred ticks are a second, on every architecture that Linux has (sysconf(3), _SC_CLK_TCK).
	return float64(after-before) / 100 / time.Since(begun).Seconds(), err
}

// ticksOf returns the processor time of a pod's processes: proc_pid_stat(5), utime and stime.
func ticksOf(uid string) (int, error) {
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, err
	}
	ticks := 0
	for _, process := range processes {
		cgroup, _ := os.ReadFile(filepath.Join(process, "cgroup"))
		if !bytes.Contains(cgroup, []byte(uid)) {
			continue
		}
		stat, _ := os.ReadFile(filepath.Join(process, "stat"))
		_, after, _ := bytes.Cut(stat, []byte(") "))
		fields := strings.Fields(string(after))
		if len(fields) < 13 {
			continue // it has ended
		}
		for _, field := range fields[11:13] {
			used, err := strconv.Atoi(field)
			if err != nil {
				return 0, err
			}
			ticks += used
		}
	}
	if ticks == 0 {
		return 0, fmt.Errorf("no process of the pod %s has worked", uid)
	}
	return ticks, nil
}
