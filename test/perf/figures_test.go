package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
)

func TestCompare(t *testing.T) {
	baseline := &Report{Figures: []Figure{
		{Name: "writes", Kind: Count, Value: 5},
		{Name: "slower", Kind: Ratio, Value: 1},
		{Name: "rate", Kind: Ratio, Value: 1, AtLeast: true},
		{Name: "seconds", Kind: Info, Value: 1},
		{Name: "slow", Kind: Ratio, Value: 2, Limit: new(1.3)},
	}}
	for name, test := range map[string]struct {
		now      []Figure
		complete bool
		worse    []string
	}{
		"the same": {now: baseline.Figures, complete: true},
		"counts are exact, also downwards": {
			now:   []Figure{{Name: "writes", Kind: Count, Value: 4}},
			worse: []string{"writes: 4, was 5"},
		},
		"ratios within the margin": {now: []Figure{
			{Name: "slower", Kind: Ratio, Value: 1.24}, {Name: "rate", Kind: Ratio, Value: 0.76, AtLeast: true},
		}},
		"ratios beyond the margin": {
			now: []Figure{
				{Name: "slower", Kind: Ratio, Value: 1.26}, {Name: "rate", Kind: Ratio, Value: 0.74, AtLeast: true},
			},
			worse: []string{"slower: 1.26, was 1, more than 25 % worse", "rate: 0.74, was 1, more than 25 % worse"},
		},
		"better ratios": {now: []Figure{{Name: "slower", Kind: Ratio, Value: 0.1},
			{Name: "rate", Kind: Ratio, Value: 9, AtLeast: true}}},
		"infos are not compared":        {now: []Figure{{Name: "seconds", Kind: Info, Value: 100}}},
		"a part leaves out what it may": {now: baseline.Figures[:1]},
		"a whole run leaves out nothing": {
			now: baseline.Figures[1:], complete: true,
			worse: []string{"writes: no longer measured"},
		},
		"a promise that the baseline misses too": {now: []Figure{{Name: "slow", Kind: Ratio, Value: 2.4, Limit: new(1.3)}}},
		"the same, and worse by more than the margin": {
			now:   []Figure{{Name: "slow", Kind: Ratio, Value: 2.6, Limit: new(1.3)}},
			worse: []string{"slow: 2.6, was 2, more than 25 % worse"},
		},
		"promises hold whatever the baseline says": {
			now: []Figure{
				{Name: "new", Kind: Ratio, Value: 1.31, Limit: new(1.3)}, {Name: "fast", Kind: Ratio, Value: 0.69, Limit: new(0.7), AtLeast: true},
				{Name: "kept", Kind: Info, Value: 10, Limit: new(10.0)},
			},
			worse: []string{"new: 1.31, promised at most 1.3", "fast: 0.69, promised at least 0.7"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			worse := (&Report{Figures: test.now}).compare(baseline, test.complete)
			g.Expect(worse).To(gomega.HaveLen(len(test.worse)), strings.Join(worse, "\n"))
			for i, text := range test.worse {
				g.Expect(worse[i]).To(gomega.HavePrefix(text))
			}
		})
	}
}

// TestTheBaselineKeepsItsPromises checks that the committed baseline is of a complete run, and
// breaks no promise except those that docs/performance.md admits.
func TestTheBaselineKeepsItsPromises(t *testing.T) {
	g := gomega.NewWithT(t)
	baseline, err := loadReport("baseline.json")
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect((&Report{Figures: baseline.Figures}).compare(&Report{}, true)).To(gomega.ConsistOf(
		gomega.HavePrefix("restart with 2000 stacks: reconciles within 50 ms: "),
		// No ratios: the machine of this baseline was half as fast as the one before.
		gomega.HavePrefix("config: one Deployment: p99 beyond that of a bare program: "),
		gomega.HavePrefix("stacks: the same, beyond that of a bare program: "),
	))
	g.Expect(len(baseline.Figures)).To(gomega.BeNumerically(">=", len(parts)))
}

// TestThePageHasTheBaseline checks that the page has the figures of the baseline.
func TestThePageHasTheBaseline(t *testing.T) {
	g := gomega.NewWithT(t)
	baseline, err := loadReport("baseline.json")
	g.Expect(err).NotTo(gomega.HaveOccurred())
	page, err := os.ReadFile("../../docs/performance.md")
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(string(page)).To(gomega.ContainSubstring(tableBegins + baseline.table() + tableEnds))
}

func TestCallsOfTheAuditLog(t *testing.T) {
	g := gomega.NewWithT(t)
	lines := []string{
		`{"stage":"ResponseComplete","requestURI":"/apis/apps/v1/namespaces/a/deployments/x?dryRun=All","verb":"patch","user":{"username":"mainstay"},"objectRef":{"resource":"deployments","namespace":"a","name":"x"},"requestReceivedTimestamp":"2026-11-21T10:00:00.5Z","stageTimestamp":"2026-11-21T10:00:00.6Z"}`,
		`{"stage":"ResponseStarted","requestURI":"/api/v1/pods?watch=true","verb":"watch","user":{"username":"mainstay"},"objectRef":{"resource":"pods"},"requestReceivedTimestamp":"2026-11-21T10:00:00Z","stageTimestamp":"2026-11-21T10:00:00.1Z"}`,
		`{"stage":"ResponseComplete","requestURI":"/api/v1/pods?watch=true","verb":"watch","user":{"username":"mainstay"},"objectRef":{"resource":"pods"},"requestReceivedTimestamp":"2026-11-21T10:00:00Z","stageTimestamp":"2026-11-21T10:09:00Z"}`,
		`{"stage":"ResponseComplete","verb":"patch","user":{"username":"mainstay"},"objectRef":{"resource":"webapps","subresource":"status"},"requestReceivedTimestamp":"2026-11-21T10:00:01Z","stageTimestamp":"2026-11-21T10:00:02Z"}`,
		`{"stage":"ResponseComplete","verb":"update","user":{"username":"mainstay"},"objectRef":{"resource":"leases"},"requestReceivedTimestamp":"2026-11-21T10:00:01Z","stageTimestamp":"2026-11-21T10:00:01Z"}`,
		`{"stage":"ResponseComplete","verb":"create","user":{"username":"floor"},"objectRef":{"resource":"services"}}`,
		`{"stage":"Respo`,
	}
	p := &plane{directory: t.TempDir()}
	g.Expect(os.WriteFile(filepath.Join(p.directory, "audit.log"), []byte(strings.Join(lines, "\n")), 0o600)).To(gomega.Succeed())
	made, err := p.calls(managerUser, 0)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(made.String()).To(gomega.Equal("1 patch deployments (dry run), 1 patch webapps/status, 1 update leases, 1 watch pods"))
	g.Expect(made.that(not(call.isRead), not(call.isLease)).String()).To(gomega.Equal("1 patch webapps/status"))
	g.Expect(made.took()).To(gomega.Equal(2*time.Second), "from the watch's arrival to the status's answer")
	later, err := p.calls(managerUser, int64(len(lines[0])+1))
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(later).To(gomega.HaveLen(len(made) - 1))
}

func TestPercentile(t *testing.T) {
	g := gomega.NewWithT(t)
	var of []time.Duration
	for i := range 200 {
		of = append(of, time.Duration(200-i))
	}
	g.Expect(percentile(of, 0.5)).To(gomega.BeEquivalentTo(101))
	g.Expect(percentile(of, 0.99)).To(gomega.BeEquivalentTo(199))
	g.Expect(median(of[:3])).To(gomega.BeEquivalentTo(199))
}
