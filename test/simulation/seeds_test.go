package simulation

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var seeds = flag.Bool("bugs", false, "try the seeded bugs: each must be found within -schedules schedules")

// election and simulated are the folders that a seeded bug changes.
const (
	electionDir  = "../../internal/instance/election/"
	simulatedDir = "./"
)

// bug is a mistake that a protocol like this has been made with: some lines are changed, and the
// invariant must find it.
type bug struct {
	number    int
	what      string
	invariant string
	changes   []change
}

// change replaces what stands exactly once in a file.
type change struct{ file, from, to string }

var bugs = []bug{
	{1, "a new rule is recorded without the one that is still used", "I2", []change{
		{electionDir + "rule.go", "record.Rules = appended(record.Rules, wanted)", "record.Rules = []Rule{wanted}"},
	}},
	{2, "the old rule is dropped before the new one is settled", "I2", []change{
		{electionDir + "rule.go", "len(record.Rules) > 1 && o.Server.Settled", "len(record.Rules) > 1"},
	}},
	{3, "degrading: the set is emptied before that is recorded", "I2", []change{
		{electionDir + "rule.go", "if !o.Server.Rule.Equal(newest) {", "if alone := (Rule{Leader: o.Me}); o.wantedRule(newest).Equal(alone) && !o.Server.Busy && !o.Server.Rule.Equal(alone) {\n\t\treturn SetRule{Rule: alone}\n\t}\n\tif !o.Server.Rule.Equal(newest) && !o.wantedRule(newest).alone() {"},
	}},
	{4, "a rule is covered by as many as acknowledge", "I1", []change{
		{electionDir + "member.go", ">= len(r.Set)-r.Acks+1", ">= r.Acks"},
	}},
	{5, "the position is read before the receiver is gone", "I1", []change{
		{electionDir + "decide.go", "case o.Server.Busy:", "case o.Server.Busy && o.Server.State != Standby:"},
		{electionDir + "decide.go", "case o.Server.Source != Source{}:", "case o.Server.Source != Source{} && !o.Server.Busy:"},
		{electionDir + "decide.go", "case !o.Server.Final:", "case !o.Server.Final && !o.Server.Busy:"},
	}},
	{6, "a promise is kept in memory only", "I3", []change{
		{simulatedDir + "node.go", "n.disk.local = local", "_ = local"},
	}},
	{7, "the loser of an election follows the old leader again", "I3", []change{
		{electionDir + "observed.go", "return ping.Term > promised.Term || ping.Term == promised.Term && ping.Leader == promised.Candidate", "return ping.Term >= o.Saved.Promised.Term || promised.Term > 0"},
		{electionDir + "inputs.go", "o.see(Seen{Term: pong.Promised.Term})", ""},
		{electionDir + "inputs.go", "o.see(pong.Seen)", ""},
	}},
	{8, "the claim drops the rules of others", "I1", []change{
		{electionDir + "stand.go", "append(distinct(base.Rules), o.firstRule(base))", "[]Rule{o.firstRule(base)}"},
	}},
	{9, "positions are compared without their timeline", "I1", []change{
		{simulatedDir + "wal.go", "case aTimeline < bTimeline || aTimeline == bTimeline && aOffset < bOffset:", "case (aTimeline < bTimeline || true) && aOffset < bOffset:"},
		{simulatedDir + "wal.go", "case aTimeline == bTimeline && aOffset == bOffset:", "case (aTimeline == bTimeline || true) && aOffset == bOffset:"},
	}},
	{10, "the timeline of a promotion is not claimed", "I4", []change{
		{simulatedDir + "server.go", "s.n.disk.log.branch(timeline)", "timeline = s.n.disk.log.timeline + 1\n\t\ts.n.disk.log.branch(timeline)"},
	}},
	{11, "a wiped volume answers in its predecessor's name", "I1", []change{
		{simulatedDir + "schedule.go", "n.disk = disk{}", "n.disk = disk{member: n.disk.member, log: wal{timeline: 1, end: 1}}"},
	}},
	{12, "the successor is named before it has everything", "I1", []change{
		{electionDir + "lead.go", "return related == Equal || related == Ahead", "return related != Incomparable || true"},
		{electionDir + "stand.go", "handover.To != o.Me || o.isAhead(handover.Position)", "handover.To != o.Me"},
	}},
	{13, "the record is written without the version that was read", "I4", []change{
		{simulatedDir + "lease.go", "if version != write.Version {", "if version == \"never\" {"},
	}},
	{14, "a record that was set back is believed", "I4", []change{
		{electionDir + "observed.go", " && !view.Record.olderThan(o.Local.Seen)", ""},
		{electionDir + "observed.go", " && o.Local.Seen.Term <= held.Term", ""},
		{electionDir + "stand.go", "record.Term = 1 + max(base.Term, seen.Term, o.Local.Promised.Term)", "record.Term = 1 + base.Term"},
		{electionDir + "stand.go", "record.Timeline = 1 + max(base.Timeline, seen.Timeline)", "record.Timeline = 1 + base.Timeline"},
		{electionDir + "lead.go", "record.Timeline = max(record.Timeline, o.Local.Seen.Timeline)", ""},
	}},
	{15, "a member counts from its last look at the record, not from the last ping", "I6", []change{
		{electionDir + "observed.go", "return o.livingLeader() != nil", "return o.livingLeader() != nil && o.Record.Since > o.Now"},
	}},
	{16, "a conflict after a lost answer is taken for a lost Lease", "I10", []change{
		{electionDir + "inputs.go", "	if outcome != Done {", "	if outcome == Conflict {\n\t\to.Held = Held{}\n\t}\n\tif outcome != Done {"},
	}},
	{17, "pings go on while nothing is committed", "I9", []change{
		{electionDir + "lead.go", "if !o.Server.writable() || since == 0 ||", "if !o.Server.writable() || since >= 0 ||"},
	}},
	{18, "a term is opened before its first commit", "I5", []change{
		{electionDir + "lead.go", "|| !server.Committed || !server.Settled ||", "||"},
	}},
	{19, "the address is published without its term", "I7", []change{
		{simulatedDir + "lease.go", "if term >= w.slice.term {", "if term > 0 {"},
	}},
	{20, "a candidate must be the highest of all", "I9", []change{
		{electionDir + "stand.go", "covered := complete && cover(record.Rules, willing)", "covered := complete && cover(record.Rules, willing) && !someAhead"},
		{electionDir + "stand.go", "covered = complete && cover(record.Rules, willing)", "covered = complete && cover(record.Rules, willing) && !someAhead"},
	}},
	{21, "a leader that has resigned leads on in its term", "I9", []change{
		{electionDir + "lead.go", "&& !o.Intent.SwitchTo && !held.Resigned:", "&& !o.Intent.SwitchTo:"},
	}},
	{22, "what a server that hangs does not say counts against the members", "I9", []change{
		{electionDir + "lead.go", "unseen := o.Server.ReceiversAt - max(", "unseen := o.Now - max("},
		{electionDir + "rule.go", "o.serverAnswers() && o.missing(", "o.missing("},
	}},
	{23, "new data are made although an instance has not answered", "I1", []change{
		{electionDir + "anew.go", "(all || isForced) &&", "(all || isForced || true) &&"},
	}},
	{24, "a candidate claims although its server is busy", "I9", []change{
		{electionDir + "stand.go", "o.SaveFailedAt != 0 || o.Server.Busy {", "o.SaveFailedAt != 0 {"},
	}},
	{25, "a server that is being promoted reports its former history", "I8", []change{
		{simulatedDir + "server.go", "s.state, s.history = election.Promoting, \"\"", "s.state = election.Promoting"},
	}},
}

// bugsInMemory are those of databases whose data end with their servers, which TestDeletedByForce
// must find.
var bugsInMemory = []bug{
	{26, "a leader hears nobody, and leads on", "I6", []change{
		{electionDir + "ephemeral.go", "return o.Config.Ephemeral && o.Config.Instances > 1 }", "return o.Config.Ephemeral && o.Config.Instances > 10 }"},
	}},
	{27, "new data are begun while the holder may still accept writes", "I6", []change{
		{electionDir + "ephemeral.go", "o.Now < o.Record.Since+o.Config.After", "o.Now < o.Record.Since"},
	}},
	{28, "a leader that reads the record of newer data leads on", "I6", []change{
		{electionDir + "ephemeral.go", "view.Record.System != o.System && view.Record.Term > 0", "view.Record.System != o.System && view.Record.Term == 0"},
	}},
	{29, "a pod that was deleted by force begins anew as well", "I6", []change{
		{electionDir + "ephemeral.go", "o.Succeeded = o.Succeeded || len(named) > 0 || isLed || isBegun", "_, _ = isLed, isBegun"},
	}},
}

// TestSeededBugs: every bug is found, by its invariant. A bug that is not found means that the
// schedules have become too tame. Each is compiled and tried for itself, which takes minutes, so
// that without -bugs only its place in the code is looked for. The schedules are the same each
// time: they prove that schedules of this kind find the bug.
func TestSeededBugs(t *testing.T) {
	for test, bugs := range map[string][]bug{"TestSchedules": bugs, "TestDeletedByForce": bugsInMemory} {
		for _, bug := range bugs {
			if *seeds {
				t.Run(fmt.Sprintf("%d %s", bug.number, bug.what), func(t *testing.T) { mustFind(t, test, bug) })
			} else {
				changed(t, bug)
			}
		}
	}
}

// mustFind runs a test of this package with a bug in it. It fails unless the bug's invariant is
// broken.
func mustFind(t *testing.T, test string, bug bug) {
	t.Helper()
	program := buildWith(t, bug)
	output, err := exec.CommandContext(t.Context(), program, "-test.run=^"+test+"$", "-failures=1",
		fmt.Sprint("-schedules=", *schedules), fmt.Sprint("-seed=", cmp.Or(*firstSeed, 1)), "-only="+bug.invariant).CombinedOutput()
	if err == nil {
		t.Fatalf("%s finds nothing in %d schedules", bug.invariant, *schedules)
	}
	_, found, _ := strings.Cut(string(output), "seed ")
	if found, _, _ = strings.Cut(found, "\n"); !strings.Contains(found, bug.invariant+" is broken") {
		t.Fatalf("it fails for another reason than %s:\n%s", bug.invariant, output)
	}
	t.Log("found by seed", found)
}

// changed returns the files of a bug, with its changes. It fails if the code has changed so that
// the bug can't be seeded any more.
func changed(t *testing.T, bug bug) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, change := range bug.changes {
		text, known := files[change.file]
		if !known {
			content, err := os.ReadFile(change.file)
			if err != nil {
				t.Fatal(err)
			}
			text = string(content)
		}
		if count := strings.Count(text, change.from); count != 1 {
			t.Errorf("bug %d: %q stands %d times in %s, not once", bug.number, change.from, count, change.file)
		}
		files[change.file] = strings.Replace(text, change.from, change.to, 1)
	}
	return files
}

// buildWith compiles this package with a bug in it.
func buildWith(t *testing.T, bug bug) string {
	t.Helper()
	dir := t.TempDir()
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for file, text := range changed(t, bug) {
		original, err := filepath.Abs(file)
		if err != nil {
			t.Fatal(err)
		}
		copied := filepath.Join(dir, fmt.Sprint(len(overlay.Replace), ".go"))
		if err := os.WriteFile(copied, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay.Replace[original] = copied
	}
	content, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	list, program := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "simulation.test")
	if err := os.WriteFile(list, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if output, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay", list, "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("compiling: %v\n%s", err, output)
	}
	return program
}
