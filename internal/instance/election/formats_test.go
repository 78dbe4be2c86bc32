package election

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/mainstay-platform/mainstay/test/golden"
)

// asJSON returns the format of a message between instances.
func asJSON[T any](value T) golden.Format {
	return golden.Format{
		Value:  value,
		Encode: func() (string, error) { text, err := json.Marshal(value); return string(text), err },
		Decode: func(text string) (any, error) {
			var read T
			err := json.Unmarshal([]byte(text), &read)
			return read, err
		},
	}
}

// wholeRecord has every field.
func wholeRecord() Record {
	return Record{
		System: "7301", Term: 3, Seq: 9, Holder: Holder{Member: a, PodUID: "uid"}, Open: true, Timeline: 4, Initialise: "db-0",
		Rules:    []Rule{{Leader: a, Set: []Member{b, c}, Acks: 1, Async: true}},
		Handover: &Handover{From: c, To: a, Position: "4:0/5000060"},
	}
}

// messages returns all messages between instances, and all that they store, with every field set.
func messages() map[string]golden.Format {
	seen, promised := Seen{Term: 3, Seq: 9, Timeline: 4}, Promised{Term: 3, Candidate: a}
	return map[string]golden.Format{
		"ping": asJSON(Ping{
			System: "7301", Leader: a, Seen: seen, Term: 3, History: "4:0/0", Version: "812", Resigned: true, Free: []Member{c},
			Addresses: map[string]string{"db-0": "10.0.0.7"},
		}),
		"pong": asJSON(Pong{
			Member: b, Promised: promised, Position: "4:0/5000060", Seen: seen, Address: "10.0.0.8", Diverged: true, Unstored: true,
		}),
		"ask": asJSON(Ask{System: "7301", Term: 4, Member: b, Seen: seen, Vacant: true}),
		"ask-reply": asJSON(AskReply{
			Term: 4, Member: c, Would: true, Promised: promised, Position: "4:0/5000060", Seen: seen,
		}),
		"promise":       asJSON(PromiseRequest{System: "7301", Term: 4, Candidate: b, Seen: seen, Vacant: true}),
		"promise-reply": asJSON(PromiseReply{Term: 4, Member: c, Given: true, Promised: promised, Position: "4:0/5000060", Seen: seen}),
		"local":         asJSON(Local{Promised: promised, Seen: seen}),
	}
}

// TestFormats: the formats of messages, of the record and of files on volumes stay compatible with
// those of other releases.
func TestFormats(t *testing.T) {
	formats := messages()
	record := wholeRecord()
	formats["record"] = golden.Format{
		Value: record, Encode: record.Encode, Decode: func(text string) (any, error) { return Decode(text) },
	}
	golden.CheckFormats(t, formats)
}

// TestFieldsOfALaterRelease: a message with a field that this release does not know is accepted. A
// record is not: the unknown field may say which members have the writes, so no member may decide
// without it.
func TestFieldsOfALaterRelease(t *testing.T) {
	for name, format := range messages() {
		text, err := format.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if read, err := format.Decode(strings.Replace(text, "{", `{"later":{"field":[1]},`, 1)); err != nil {
			t.Errorf("%s: %+v, %v", name, read, err)
		}
	}
	text, err := wholeRecord().Encode()
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(text, " ")
	body = strings.Replace(body, "{", `{"later":1,`, 1)
	if record, err := Decode(checksum([]byte(body)) + " " + body); err == nil {
		t.Errorf("a record that says more than this release knows is read as %+v", record)
	}
}
