package election

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/mainstay-platform/mainstay/test/fuzz"
)

var a, b, c = Member{"db-0", "1"}, Member{"db-1", "1"}, Member{"db-2", "1"}

func TestCoveredBy(t *testing.T) {
	for _, test := range []struct {
		name    string
		rule    Rule
		answers []Member
		want    bool
	}{
		{"the leader has everything", Rule{a, []Member{b, c}, 1, false}, []Member{a}, true},
		{"one of two may be the one that lacks it", Rule{a, []Member{b, c}, 1, false}, []Member{b}, false},
		{"both of two", Rule{a, []Member{b, c}, 1, false}, []Member{b, c}, true},
		{"one of two that both have it", Rule{a, []Member{b, c}, 2, false}, []Member{c}, true},
		{"the only other", Rule{a, []Member{b}, 1, false}, []Member{b}, true},
		{"no other member may have it", Rule{a, nil, 0, false}, []Member{b, c}, false},
		{"another incarnation is another member", Rule{a, []Member{b}, 1, false}, []Member{{"db-1", "2"}}, false},
		{"no member answers", Rule{a, []Member{b, c}, 2, false}, nil, false},
	} {
		if got := test.rule.CoveredBy(test.answers); got != test.want {
			t.Errorf("%s: got %t", test.name, got)
		}
	}
	if cover(nil, []Member{a, b, c}) {
		t.Error("a record without rules is covered, though it does not say where the writes are")
	}
}

func sampleRecord() Record {
	return Record{
		System: "s", Term: 3, Seq: 9, Holder: Holder{a, "uid"}, Open: true, Timeline: 4,
		Rules:    []Rule{{a, []Member{b, c}, 1, true}, {a, nil, 0, false}},
		Handover: &Handover{From: a, To: b, Position: "4/17"},
	}
}

func TestRecordIsReadAsWritten(t *testing.T) {
	text, err := sampleRecord().Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decode(text)
	if err != nil || !reflect.DeepEqual(got, sampleRecord()) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestRecordsThatNoInstanceWrites(t *testing.T) {
	good, err := sampleRecord().Encode()
	if err != nil {
		t.Fatal(err)
	}
	signed := func(body string) string { return checksum([]byte(body)) + " " + body }
	for name, test := range map[string]struct{ text, want string }{
		"empty":                 {"", "checksum"},
		"one digit edited":      {strings.Replace(good, `"term":3`, `"term":4`, 1), "checksum"},
		"too long":              {signed(strings.Repeat(" ", maxRecordBytes)), "16384 are accepted"},
		"no JSON":               {signed("term 3"), "decoding"},
		"a field of the future": {signed(`{"lease":1}`), "unknown field"},
		"two records":           {signed(`{"term":1}{"term":2}`), "data after"},
		"no rule":               {signed(`{"system":"s","term":1}`), "no rule"},
		"more than can answer":  {signed(`{"rules":[{"leader":{"name":"a"},"acks":1}]}`), "waits for 1 of 0"},
		"the leader in its set": {signed(`{"rules":[{"leader":{"name":"a","incarnation":"1"},"set":[{"name":"a","incarnation":"1"}],"acks":1}]}`), "its leader"},
		"many rules":            {signed(`{"rules":[` + strings.TrimSuffix(strings.Repeat(`{"leader":{}},`, 17), ",") + `]}`), "17 rules"},
	} {
		if _, err := Decode(test.text); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// FuzzRecord: any text in the Lease is decoded or refused, and what is decoded is within the
// limits.
func FuzzRecord(f *testing.F) {
	good, err := sampleRecord().Encode()
	if err != nil {
		f.Fatal(err)
	}
	_, body, _ := strings.Cut(good, " ")
	f.Add(body)
	fuzz.AddBombs(f, `{"rules":[{"leader":{},"set":[{"name":"x","incarnation":"y"}],"acks":1}],"handover":{}}`)
	f.Fuzz(func(t *testing.T, body string) {
		defer fuzz.Budget(t, body)()
		record, err := Decode(checksum([]byte(body)) + " " + body)
		if err != nil {
			return
		}
		text, err := record.Encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := Decode(text)
		if err != nil {
			t.Fatal(err)
		}
		if written, err := again.Encode(); err != nil || written != text {
			t.Errorf("read and written again: %s, %v, was %s", written, err, text)
		}
	})
}

// TestQuorum: of several rules, the weakest determines what a commit waits for.
func TestQuorum(t *testing.T) {
	one, two := Rule{a, []Member{b, c}, 1, false}, Rule{a, []Member{b, c}, 2, false}
	for want, rules := range map[string][]Rule{
		"0 of 0": {one, {Leader: a}}, "1 of 2": {two, one}, "2 of 2": {two}, "1 of 1": {{a, []Member{b}, 1, false}},
	} {
		acks, of := Record{Rules: rules}.Quorum()
		if got := fmt.Sprintf("%d of %d", acks, of); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if acks, of := (Record{Rules: []Rule{{a, []Member{b, c}, 1, true}}}).Quorum(); acks != 0 || of != 0 {
		t.Errorf("asynchronous: %d of %d", acks, of)
	}
}
