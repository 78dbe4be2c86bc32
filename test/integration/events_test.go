package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	"github.com/mainstay-platform/mainstay/test/testenv"
)

// TestWarningsCommand runs the command of docs/operating.md that shows recent Warnings: it shows
// each Warning of Mainstay, also of those whose text does not contain the name.
func TestWarningsCommand(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	page, err := os.ReadFile(testenv.Repository("docs", "operating.md"))
	g.Expect(err).NotTo(gomega.HaveOccurred())
	command := regexp.MustCompile(`(?m)^ {4}kubectl get events.*$`).FindString(string(page))
	g.Expect(command).To(gomega.ContainSubstring("type=Warning"))

	ns, c := namespace(t), clientOf(t, cluster.Config)
	app := newApp(ns, func(spec *msappsv1.WebAppSpec) { spec.ServiceAccountName = "nobody" })
	g.Expect(c.Create(t.Context(), app)).To(gomega.Succeed())
	g.Expect(c.Create(t.Context(), invalidlyAnnotated(ns))).To(gomega.Succeed())
	startManager(t, ns)

	shell := exec.CommandContext(t.Context(), "bash", "-c", command)
	shell.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig(t, cluster.Config), "HOME="+t.TempDir(),
		"PATH="+os.Getenv("KUBEBUILDER_ASSETS")+string(filepath.ListSeparator)+os.Getenv("PATH"))
	g.Eventually(func() (int, error) {
		lines, err := warningsOf(t, c, ns)
		return len(lines), err
	}).Should(gomega.BeNumerically(">=", 2))
	lines, err := warningsOf(t, c, ns)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	output, err := shell.CombinedOutput()
	g.Expect(err).NotTo(gomega.HaveOccurred(), string(output))
	for _, line := range lines {
		g.Expect(string(output)).To(gomega.MatchRegexp(line))
	}
}

// warningsOf returns patterns of the lines in which the command shows Mainstay's Warnings of a
// namespace.
func warningsOf(t *testing.T, c client.Client, namespace string) ([]string, error) {
	var all eventsv1.EventList
	err := c.List(t.Context(), &all, client.InNamespace(namespace))
	var lines []string
	for _, event := range all.Items {
		if event.Type == corev1.EventTypeWarning && strings.HasPrefix(event.ReportingController, "mainstay-") {
			lines = append(lines, fmt.Sprintf("(?m)^%s .* %s +%s/%s .* %s,? .*$", namespace, event.Reason, strings.ToLower(event.Regarding.Kind),
				event.Regarding.Name, event.ReportingController))
		}
	}
	return lines, err
}

// invalidlyAnnotated returns a ConfigMap with an annotation that asks for restarts and is invalid.
func invalidlyAnnotated(namespace string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "flags",
		Annotations: map[string]string{"config.mainstay.dev/pod-selector": ""}}}
}
