//go:build e2e

package databases

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"
)

// TestFaults lets each fault happen to a database of three instances on three nodes: nothing that
// was acknowledged is lost, never do two take writes, and the database is whole again by itself.
// Where there is time for it, a second client writes through a pooler.
func TestFaults(t *testing.T) {
	// The first fault needs each pod on a node of its own, also while other pods fill a node.
	spec := fmt.Sprintf("  version: %q\n  storage: 1Gi\n  replicas: 3\n  topologySpread: Required\n", *image)
	if !*brief && !*alone {
		spec += "  pooler: {}\n"
	}
	d := newDatabase(t, "databases-faults", spec)
	happenAll(d, newWriter(t, d), faults)
}

// happenAll lets those of the faults that the flags choose happen, one after the other, again and
// again, and says for how long no write was acknowledged.
func happenAll(d *database, w *writer, faults []fault) {
	t := d.t
	t.Helper()
	nodes := map[string]string{}
	for _, pod := range d.pods() {
		if other := nodes[pod.Spec.NodeName]; other != "" {
			t.Fatalf("%s and %s are both on %s, and there are three nodes", pod.Name, other, pod.Spec.NodeName)
		}
		nodes[pod.Spec.NodeName] = pod.Name
	}
	gaps, chosen := map[string][]time.Duration{}, regexp.MustCompile(*only)
	for range *rounds {
		for _, f := range faults {
			if chosen.MatchString(f.name) && (!*alone || !f.managed) && (!*brief || f.brief) {
				gaps[f.name] = append(gaps[f.name], happen(d, w, f))
			}
		}
	}
	for _, f := range faults {
		if times := gaps[f.name]; len(times) > 0 {
			slices.Sort(times)
			t.Attr("faults", f.name+": "+fmt.Sprintf("%d times, no write for p50 %s, p95 %s, max %s (limit %s)", len(times),
				quantile(times, 50), quantile(times, 95), quantile(times, 100), f.limit))
		}
	}
}

// busy is how much longer than its limit a gap may be at least while two processors also run other
// tests, as in `make test`.
const busy = 10 * time.Second

// allowed returns how long a gap may be that has a limit on an idle machine: three times that. With
// -brief other tests run beside it.
func allowed(limit time.Duration) time.Duration {
	if *brief {
		return max(3*limit, limit+busy)
	}
	return 3 * limit
}

// happen lets a fault happen, and returns for how long no write was acknowledged.
func happen(d *database, w *writer, f fault) time.Duration {
	t := d.t
	t.Helper()
	if *alone {
		d.managers(0)
	}
	s := d.begin()
	s.writer = w
	f.hurt(s)
	if f.noticed != nil {
		eventually(t, f.name+": noticed", func() bool { return f.noticed(s) })
	}
	w.awaitMore(f.name + ": acknowledged writes")
	gap := w.Ledger.LongestGapOf(through, s.begun).Round(10 * time.Millisecond)
	if f.mend != nil {
		f.mend(s)
	}
	if *alone {
		d.managers(2)
	}
	mended := time.Now()
	eventually(t, f.name+": whole again", d.isWhole)
	whole := time.Since(mended)
	t.Logf("%s: no write for %s (limit %s); whole %s after it was mended", f.name, gap, f.limit, whole.Round(100*time.Millisecond))
	if slices.Contains(w.clients, throughPooler) {
		t.Logf("%s: no write through the pooler for %s", f.name, w.Ledger.LongestGapOf(throughPooler, s.begun).Round(10*time.Millisecond))
	}
	d.must(addRow(f.name, gap, whole))
	if gap > f.limit {
		for _, failure := range w.Ledger.Failures(through, s.begun) {
			t.Logf("%s: not acknowledged: %s", f.name, failure)
		}
	}
	if allowed := allowed(f.limit); gap > allowed {
		t.Errorf("%s: no write for %s: more than %s", f.name, gap, allowed)
	}
	if record, _ := d.record(); f.stays && record.Term != s.term && s.stalled > mostStalled {
		t.Logf("%s: another was elected, but the server stalled for %s: not judged", f.name, s.stalled)
	} else if f.stays && record.Term != s.term {
		t.Errorf("%s: %s leads in term %d, but %s should have stayed primary in term %d", f.name, record.Holder.Member.Name, record.Term,
			s.primary, s.term)
	}
	for _, wrong := range w.check(f.loses) {
		t.Errorf("%s: %s", f.name, wrong)
	}
	return gap
}

// addRow adds a row to the file of rows, if there is one.
func addRow(name string, gap, whole time.Duration) error {
	if *rows == "" {
		return nil
	}
	file, err := os.OpenFile(*rows, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644) //nolint:gosec // figures, for everybody
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(file, "%s\t%d\t%d\n", name, gap.Milliseconds(), whole.Milliseconds())
	return errors.Join(err, file.Close())
}

// begin looks at a database before something happens to it.
func (d *database) begin() *scene {
	d.t.Helper()
	record, known := d.record()
	if !known || record.Released() {
		d.t.Fatalf("nobody leads: %+v", record)
	}
	s := &scene{database: d, primary: record.Holder.Member.Name, term: record.Term}
	for _, pod := range d.pods() {
		if pod.Name == s.primary {
			s.node = pod.Spec.NodeName
		} else {
			s.replicas = append(s.replicas, pod.Name)
		}
	}
	if len(s.replicas) > 0 {
		s.data = d.dataOf(s.replicas[0])
	}
	s.begun = time.Now()
	return s
}

// isWhole reports whether the object is Ready, and says so of pods that really are: while no
// manager runs, its status may be older, and all that the API server has about a lost node's pods
// is. So the primary itself is asked as well.
func (d *database) isWhole() bool {
	now := d.look(d)
	record, known := d.record()
	if !known || now.primary != record.Holder.Member.Name || !d.isReady() {
		return false
	}
	if len(record.Rules) != 1 || len(record.Rules[0].Set) != now.replicas-1 {
		return false
	}
	for _, pod := range d.pods() {
		if pod.DeletionTimestamp != nil || !isReadyPod(&pod) {
			return false
		}
	}
	return len(d.pods()) == now.replicas && d.replicates(d, now)
}

// quantile returns the time below which so many percent of the sorted ones are.
func quantile(times []time.Duration, percent int) time.Duration {
	return times[min(len(times)-1, len(times)*percent/100)]
}
