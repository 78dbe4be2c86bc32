package election

import (
	"slices"
	"testing"
)

// full returns as many distinct rules as a record may have.
func full() []Rule {
	var rules []Rule
	for _, async := range []bool{false, true} {
		for _, leader := range []Member{a, b, c} {
			others := slices.DeleteFunc([]Member{a, b, c}, func(m Member) bool { return m == leader })
			rules = append(rules, Rule{leader, others, 1, async}, Rule{leader, others, 2, async}, Rule{leader, others[:1], 1, async})
		}
	}
	return rules[:maxRules]
}

// TestClaimOfAFullRecord: a claim that finds no room for another rule merges those that there are.
// The record can be written, and nobody covers it who does not cover all of them.
func TestClaimOfAFullRecord(t *testing.T) {
	for name, test := range map[string]struct {
		willing []Member
		forced  bool
	}{
		"all would promise":  {willing: []Member{a, c}},
		"one would not":      {willing: []Member{c}},
		"a loss is accepted": {forced: true},
	} {
		o := following()
		o.Asked, o.Record.Record.Rules = 3, full()
		for _, member := range test.willing {
			o.peer(member.Name).AskReply = AskReply{Term: 3, Member: member, Would: true, Position: "20"}
		}
		if willing, _, _ := o.poll(); cover(full(), willing) == test.forced {
			t.Fatalf("%s: %v cover the rules: %t", name, willing, !test.forced)
		}
		record := o.claim(o.Record.Record, test.forced).(WriteRecord).Record
		if _, err := record.Encode(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if len(record.Rules) != 2 || record.newest().Leader != b {
			t.Fatalf("%s: %+v", name, record.Rules)
		}
		for bits := range 8 {
			var answers []Member
			for i, member := range []Member{a, b, c} {
				if bits&(1<<i) != 0 {
					answers = append(answers, member)
				}
			}
			if cover(record.Rules[:1], answers) && !cover(full(), answers) {
				t.Errorf("%s: %v cover %+v, but not all rules before", name, answers, record.Rules[0])
			}
		}
		if willing, _, _ := o.poll(); !test.forced && !cover(record.Rules, willing) {
			t.Errorf("%s: %v would promise, and do not cover %+v", name, willing, record.Rules)
		}
	}
	o := following()
	o.Record.Record.Rules = full()[1:]
	rules := o.claim(o.Record.Record, false).(WriteRecord).Record.Rules
	if len(rules) != maxRules || !slices.EqualFunc(rules[:maxRules-1], full()[1:], Rule.Equal) {
		t.Errorf("rules for which there is room are changed: %+v", rules)
	}
}
