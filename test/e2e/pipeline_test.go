//go:build e2e

package e2e

import (
	"testing"

	"github.com/onsi/gomega"
)

// testDeployToStaging runs what the pipeline runs: on the release that is installed already it changes nothing, and the
// samples for staging get Ready.
func testDeployToStaging(t *testing.T) {
	g := gomega.NewWithT(t)
	pods := kubectl(t, "-n", system, "get", "pods", "-o", "name")
	output, err := command(t.Context(), "", "make", "-C", repository, "deploy", "TAG="+later)
	g.Expect(err).NotTo(gomega.HaveOccurred(), output)
	g.Expect(kubectl(t, "-n", system, "get", "pods", "-o", "name")).To(gomega.Equal(pods))
	output, err = command(t.Context(), "", "make", "-C", repository, "smoke")
	g.Expect(err).NotTo(gomega.HaveOccurred(), output)
	g.Expect(output).To(gomega.ContainSubstring("staging-smoke"))
	_, err = tryKubectl(t, "get", "namespace", "mainstay-smoke")
	g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("not found")))
}
