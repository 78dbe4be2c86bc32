package conditions

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var (
	then = metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	now  = metav1.NewTime(time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC))
)

// TestFirstProblems: no more than a hundred problems are named, and what joins them takes no longer
// for more.
func TestFirstProblems(t *testing.T) {
	var all field.ErrorList
	for i := range 250 {
		all = append(all, field.Invalid(field.NewPath("spec").Index(i), i, "is wrong"))
	}
	if few := FirstProblems(all[:100]); len(few) != 100 || few[99].Detail != "is wrong" {
		t.Errorf("of 100 problems %d are named: %v", len(few), few[99])
	}
	first := FirstProblems(all)
	if len(first) != 100 || first[0] != all[0] || first[99].Error() != "spec[99]: Invalid value: 99: is wrong (and 150 more problems)" {
		t.Errorf("of 250 problems %d are named: %v", len(first), first[99])
	}
	if all[99].Detail != "is wrong" {
		t.Error("a problem was changed")
	}
}

func condition(kind, status, reason string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionStatus(status), Reason: reason, Message: "about " + reason}
}

func at(time metav1.Time, generation int64, c metav1.Condition) metav1.Condition {
	c.LastTransitionTime, c.ObservedGeneration = time, generation
	return c
}

func TestTrueAndFalse(t *testing.T) {
	for _, test := range []struct{ want, got metav1.Condition }{
		{condition("Stalled", "True", "A"), True(Stalled, "A", "about A")},
		{condition("Degraded", "False", "A"), False(Degraded, "A", "about A")},
	} {
		if diff := cmp.Diff(test.want, test.got); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
}

func TestFirst(t *testing.T) {
	for _, test := range []struct{ want, got string }{
		{"", FirstFew(nil, ", ")},
		{"a", FirstFew([]string{"a"}, ", ")},
		{"a, b, c", FirstFew([]string{"a", "b", "c"}, ", ")},
		{"a; b; c and 1 more", FirstFew([]string{"a", "b", "c", "d"}, "; ")},
		{strings.Repeat("a", 60), Short(strings.Repeat("a", 60))},
		{strings.Repeat("a", 60) + "...", Short(strings.Repeat("a", 61))},
		{strings.Repeat("a", 58) + "...", Short(strings.Repeat("a", 58) + "€€")},
		{strings.Repeat("€", 20) + "...", Short(strings.Repeat("€", 21))},
		{"...", Short(strings.Repeat("\x80", 61))},
		{"a, b", First(2, []string{"a", "b"}, ", ")},
		{"a, b and 2 more", First(2, []string{"a", "b", "c", "d"}, ", ")},
	} {
		if test.got != test.want {
			t.Errorf("got %q, want %q", test.got, test.want)
		}
	}
}

func TestMerge(t *testing.T) {
	for name, test := range map[string]struct{ old, wanted, merged []metav1.Condition }{
		"a new condition begins now": {
			nil, []metav1.Condition{condition("Ready", "True", "A")}, []metav1.Condition{at(now, 7, condition("Ready", "True", "A"))},
		},
		"the same status keeps its time, whatever the reason": {
			[]metav1.Condition{at(then, 3, condition("Ready", "False", "A"))}, []metav1.Condition{condition("Ready", "False", "B")},
			[]metav1.Condition{at(then, 7, condition("Ready", "False", "B"))},
		},
		"one that is kept of an earlier generation says so": {
			[]metav1.Condition{at(then, 3, condition("Ready", "True", "A"))}, []metav1.Condition{at(then, 3, condition("Ready", "True", "A"))},
			[]metav1.Condition{at(then, 3, condition("Ready", "True", "A"))},
		},
		"another status begins now": {
			[]metav1.Condition{at(then, 3, condition("Ready", "False", "A"))}, []metav1.Condition{condition("Ready", "True", "A")},
			[]metav1.Condition{at(now, 7, condition("Ready", "True", "A"))},
		},
		"conditions that are not wanted are dropped": {
			[]metav1.Condition{at(then, 3, condition("Stalled", "True", "A"))}, nil, nil,
		},
		"they are sorted by type": {
			nil, []metav1.Condition{condition("Ready", "True", "A"), condition("Degraded", "False", "A")},
			[]metav1.Condition{at(now, 7, condition("Degraded", "False", "A")), at(now, 7, condition("Ready", "True", "A"))},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.merged, Merge(test.old, test.wanted, 7, now)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestMergeIsStable(t *testing.T) {
	wanted := []metav1.Condition{condition("Ready", "True", "A"), condition("Degraded", "False", "B")}
	wanted[0].Message = strings.Repeat("x", 5000)
	before := strings.Clone(wanted[0].Message)
	once := Merge(nil, wanted, 7, then)
	if diff := cmp.Diff(once, Merge(once, wanted, 7, now)); diff != "" {
		t.Errorf("merging the same conditions is a change:\n%s", diff)
	}
	if wanted[0].Message != before || !wanted[0].LastTransitionTime.IsZero() {
		t.Error("the arguments were changed")
	}
}

func TestMessagesAreCutBetweenCharacters(t *testing.T) {
	for name, test := range map[string]struct {
		message string
		length  int
	}{
		"what fits stays":                     {strings.Repeat("x", 1000), 1000},
		"one byte too many is cut":            {strings.Repeat("x", 1001), 1000},
		"no character of two bytes is split":  {strings.Repeat("ö", 501), 999},
		"no character of four bytes is split": {"x" + strings.Repeat("\U0001F40C", 250), 1000 - 0},
	} {
		t.Run(name, func(t *testing.T) {
			wanted := []metav1.Condition{{Type: "Ready", Message: test.message}}
			got := Merge(nil, wanted, 1, now)[0].Message
			if !utf8.ValidString(got) || len(got) > 1000 || len(got) != test.length {
				t.Errorf("%d bytes, valid: %t", len(got), utf8.ValidString(got))
			}
			if len(test.message) > 1000 && !strings.HasSuffix(got, "...") {
				t.Errorf("a truncated message does not end in ...: %q", got[990:])
			}
		})
	}
}

func TestEvents(t *testing.T) {
	normal := func(reason string) Event { return Event{"Normal", reason, "about " + reason} }
	warning := func(reason string) Event { return Event{"Warning", reason, "about " + reason} }
	list := func(conditions ...metav1.Condition) []metav1.Condition { return conditions }
	for name, test := range map[string]struct {
		old, merged []metav1.Condition
		want        []Event
	}{
		"no change, no event": {list(condition("Ready", "True", "A")), list(condition("Ready", "True", "A")), nil},
		"Ready became True": {list(condition("Ready", "False", "A")), list(condition("Ready", "True", "B")),
			[]Event{normal("B")}},
		"Ready became False": {list(condition("Ready", "True", "A")), list(condition("Ready", "False", "B")),
			[]Event{normal("B")}},
		"another reason has an event": {list(condition("Ready", "False", "A")), list(condition("Ready", "False", "B")),
			[]Event{normal("B")}},
		"the first Ready has an event":   {nil, list(condition("Ready", "False", "A")), []Event{normal("A")}},
		"others have an event when True": {nil, list(condition("Progressing", "True", "A")), []Event{normal("A")}},
		"others that become False have none": {list(condition("Progressing", "True", "A")), list(condition("Progressing", "False", "B")),
			nil},
		"a problem is a warning": {nil, list(condition("Degraded", "True", "A")), []Event{warning("A")}},
		"a solved problem has an event": {list(condition("Degraded", "True", "A")), list(condition("Degraded", "False", "B")),
			[]Event{normal("B")}},
		"no problem from the start has none": {nil, list(condition("Degraded", "False", "B")), nil},
		"one reason has one event": {nil, list(condition("Progressing", "True", "A"), condition("Ready", "False", "A")),
			[]Event{normal("A")}},
		"one reason has one event, a warning": {nil, list(condition("Progressing", "True", "A"), condition("Degraded", "True", "A"),
			condition("Ready", "False", "A")), []Event{warning("A")}},
		"another message alone is not worth an event": {list(metav1.Condition{Type: "Ready", Status: "False", Reason: "A", Message: "1 of 2"}),
			list(condition("Ready", "False", "A")), nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, Events(test.old, test.merged, "Degraded", "Stalled")); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
