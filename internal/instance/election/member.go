package election

import (
	"fmt"
	"slices"
	"strings"
)

// Member is the data of one instance: its pod's name, and the incarnation of its volume, a random
// id that is written when the data are made (initialised, cloned, restored). A volume that was
// wiped or cloned is another member, so it can't vouch for data that it no longer has. The zero
// value is no member; a Member without incarnation has no data.
type Member struct {
	Name        string `json:"name"`
	Incarnation string `json:"incarnation"`
}

// HasData reports whether the member has data, so that it can be counted in a rule.
func (m Member) HasData() bool { return m.Incarnation != "" }

// Position is the end of what a member has flushed to its disk, in the engine's own format: for
// PostgreSQL the timeline and LSN, for MySQL a GTID set. "" is unknown.
type Position string

// History describes which positions a leader's data contain, in the engine's own format.
type History string

// Comparison is the relation of one position to another. Positions are partly ordered: two GTID
// sets may each contain what the other lacks.
type Comparison int

// The results of a comparison. Incomparable counts as ahead, both ways.
const (
	Incomparable Comparison = iota
	Behind
	Equal
	Ahead
)

// Positions is what an engine knows about its positions. Its methods are pure.
type Positions interface {
	// Compare returns the relation of a to b: Ahead if a contains b and more. What can't be read is
	// Incomparable.
	Compare(a, b Position) Comparison
	// Holds reports whether all that is at or before the position is part of the history. What
	// can't be read is not.
	Holds(history History, position Position) bool
}

// Rule says where acknowledged writes are: each write that Leader acknowledges is on Leader, and on
// at least Acks members of Set, which does not contain Leader. If Async is true, commits wait for
// none of them: the set only answers pings, and writes that no member has received are lost when
// the leader fails.
type Rule struct {
	Leader Member   `json:"leader"`
	Set    []Member `json:"set,omitempty"`
	Acks   int      `json:"acks"`
	Async  bool     `json:"async,omitempty"`
}

// WaitsForNobody reports whether commits wait for no other member.
func (r Rule) WaitsForNobody() bool { return r.Acks == 0 || r.Async }

// CoveredBy reports whether the members that answer have every write that was acknowledged under
// the rule: the leader is among them, or so many of the set that every choice of Acks members
// contains one.
func (r Rule) CoveredBy(answers []Member) bool {
	if slices.Contains(answers, r.Leader) {
		return true
	}
	return r.counts(answers) >= len(r.Set)-r.Acks+1
}

// counts returns how many members of the set are among the given.
func (r Rule) counts(members []Member) int {
	count := 0
	for _, member := range r.Set {
		if slices.Contains(members, member) {
			count++
		}
	}
	return count
}

// Equal reports whether two rules say the same. The order of the sets counts; ours are sorted.
func (r Rule) Equal(other Rule) bool {
	return r.Leader == other.Leader && r.Acks == other.Acks && r.Async == other.Async && slices.Equal(r.Set, other.Set)
}

// names reports whether the rule mentions the member.
func (r Rule) names(member Member) bool { return r.Leader == member || slices.Contains(r.Set, member) }

// alone reports whether the rule names no other member, so that only its leader may lead next.
func (r Rule) alone() bool { return len(r.Set) == 0 && r.Acks == 0 }

// others names the members whose answers would cover the rule together with the given ones.
func (r Rule) others(answers []Member) string {
	var names []string
	for _, member := range r.Set {
		if !slices.Contains(answers, member) {
			names = append(names, member.Name)
		}
	}
	if len(names) == 0 || r.Async {
		return r.Leader.Name
	}
	return fmt.Sprintf("%s, or of %d of %s", r.Leader.Name, len(r.Set)-r.Acks+1-r.counts(answers), strings.Join(names, ", "))
}

// cover reports whether the answers cover every rule. A list without rules is never covered: such a
// record does not say where the writes are.
func cover(rules []Rule, answers []Member) bool {
	for _, rule := range rules {
		if !rule.CoveredBy(answers) {
			return false
		}
	}
	return len(rules) > 0
}

// sorted returns the members in order, each once.
func sorted(members []Member) []Member {
	slices.SortFunc(members, func(a, b Member) int {
		switch {
		case a.Name < b.Name || a.Name == b.Name && a.Incarnation < b.Incarnation:
			return -1
		case a == b:
			return 0
		}
		return 1
	})
	return slices.Compact(members)
}
