package election

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Limits of a record, so that an edited record can't stop the instances. A rule names at most the
// instances and their former members, and a leader drops rules as soon as a newer one is settled.
const (
	maxRecordBytes = 16 << 10
	maxRules       = 16
	maxSet         = 32
	maxCount       = 1 << 62
	maxTimeline    = 1 << 31
)

// Record is what the Lease stores, in an annotation: the leader, and which members have the
// acknowledged writes. It is written only by an update with the resourceVersion of the Lease that
// the decision was based on.
type Record struct {
	// System is the ID of the database system; "" until its data were initialised and have a leader.
	System string `json:"system,omitempty"`
	// Term counts claims. Seq counts records: each one that is written has a higher Seq than all
	// before, whatever its term.
	Term uint64 `json:"term"`
	Seq  uint64 `json:"seq"`
	// Holder is the pod that claimed the term; the zero value once it was released.
	Holder Holder `json:"holder"`
	// Open is true once the first write of the term was committed.
	Open bool `json:"open"`
	// Rules are all rules under which writes may have been acknowledged, or will be next; the newest
	// is last. A candidate must cover every one of them.
	Rules []Rule `json:"rules,omitempty"`
	// Timeline is the highest timeline that was ever claimed for a promotion.
	Timeline uint32 `json:"timeline"`
	// Handover is set by a leader that stopped cleanly for a successor.
	Handover *Handover `json:"handover,omitempty"`
	// Initialise is the name of the instance that may make new data. The manager writes it, to a new
	// Lease and only if all volumes are new; instances write it when none of them has data
	// (beginAnew). It has no effect unless System is "".
	Initialise string `json:"initialise,omitempty"`
}

// Holder is the pod that claimed a term, and its member. The zero value means none.
type Holder struct {
	Member Member `json:"member"`
	PodUID string `json:"podUID,omitempty"`
}

// Handover names the successor, To, of a leader that stopped cleanly, From, and the leader's final
// position. To has confirmed that it has everything up to there. From need not be asked any more:
// it has answered with Position.
type Handover struct {
	From     Member   `json:"from"`
	To       Member   `json:"to"`
	Position Position `json:"position"`
}

// Released reports whether the record has no holder, so that any member may stand at once.
func (r Record) Released() bool { return r.Holder == Holder{} }

// Pods returns the names of the instances that may have acknowledged writes which others lack:
// those in all rules. Names may occur more than once.
func (r Record) Pods() []string {
	var names []string
	for _, rule := range r.Rules {
		for _, member := range append(slices.Clone(rule.Set), rule.Leader) {
			names = append(names, member.Name)
		}
	}
	return names
}

// newest returns the rule under which the leader acknowledges writes, or will next.
func (r Record) newest() Rule {
	if len(r.Rules) == 0 {
		return Rule{}
	}
	return r.Rules[len(r.Rules)-1]
}

// Quorum returns what a commit waits for: at least acks members of a set of the size of. Of several
// rules it is the weakest, because writes may be acknowledged under any. It is 0 of 0 if commits
// wait for no other member.
func (r Record) Quorum() (acks, of int) {
	for i, rule := range r.Rules {
		if rule.WaitsForNobody() {
			return 0, 0
		}
		if i == 0 || rule.Acks < acks || rule.Acks == acks && len(rule.Set) > of {
			acks, of = rule.Acks, len(rule.Set)
		}
	}
	return acks, of
}

// olderThan reports whether the record has a lower term, or in the same term a lower Seq, than was
// seen before. Before the first term, nothing depends on the Seq: a new database of the name begins
// with 0, on volumes that may have seen a higher one and never had data.
func (r Record) olderThan(seen Seen) bool {
	return r.Term < seen.Term || r.Term == seen.Term && r.Term > 0 && r.Seq < seen.Seq
}

// Encode returns the text of the annotation: a checksum, a space, and JSON. It fails for a record
// that Decode refuses.
func (r Record) Encode() (string, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return "", fmt.Errorf("encoding the record: %w", err)
	}
	encoded := checksum(text) + " " + string(text)
	if len(encoded) > maxRecordBytes {
		return "", fmt.Errorf("the record has %d bytes, at most %d are accepted", len(encoded), maxRecordBytes)
	}
	return encoded, r.check()
}

func checksum(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// Decode decodes and checks the text of the annotation. Its errors say what was found.
func Decode(text string) (Record, error) {
	if len(text) > maxRecordBytes {
		return Record{}, fmt.Errorf("the record has %d bytes, at most %d are accepted", len(text), maxRecordBytes)
	}
	sum, body, found := strings.Cut(text, " ")
	if !found || sum != checksum([]byte(body)) {
		return Record{}, errors.New("the record's checksum does not match its content: it was not written by an instance, or was changed")
	}
	decoder := json.NewDecoder(bytes.NewReader([]byte(body)))
	decoder.DisallowUnknownFields()
	var record Record
	if err := decoder.Decode(&record); err != nil {
		return Record{}, fmt.Errorf("decoding the record: %w", err)
	}
	if decoder.More() {
		return Record{}, errors.New("the record has data after its JSON object")
	}
	return record, record.check()
}

// check refuses a record that no instance writes.
func (r Record) check() error {
	if !seenIn(r).isPossible() {
		return fmt.Errorf("the record's term %d, seq %d or timeline %d is higher than can be counted", r.Term, r.Seq, r.Timeline)
	}
	if len(r.Rules) > maxRules {
		return fmt.Errorf("the record has %d rules, at most %d are accepted", len(r.Rules), maxRules)
	}
	for i, rule := range r.Rules {
		switch {
		case len(rule.Set) > maxSet:
			return fmt.Errorf("rule %d of the record names %d members, at most %d are accepted", i, len(rule.Set), maxSet)
		case rule.Acks < 0 || rule.Acks > len(rule.Set):
			return fmt.Errorf("rule %d of the record waits for %d of %d members", i, rule.Acks, len(rule.Set))
		}
		for _, member := range rule.Set {
			if member == rule.Leader || !member.HasData() {
				return fmt.Errorf("rule %d of the record names its leader, or a member without data, in its set", i)
			}
		}
	}
	if r.System != "" && len(r.Rules) == 0 {
		return errors.New("the record has no rule, so it does not say where the writes are")
	}
	return nil
}
