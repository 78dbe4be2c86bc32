package election

import (
	"fmt"
	"slices"
	"strings"
)

// Member identifies the data of one instance: by its pod's name, and by the incarnation, a random
// ID that is drawn each time that data are made (initialised or cloned). After a volume was wiped
// or its data replaced, the instance is another member, so it can't vouch for data that it no
// longer has. The zero value is no member; a Member without an incarnation has no data.
type Member struct {
	Name        string `json:"name"`
	Incarnation string `json:"incarnation"`
}

// HasData reports whether the member has data, so that it can be counted in a rule.
func (m Member) HasData() bool { return m.Incarnation != "" }

// Position is the end of what a member has flushed to its disk, in the engine's own format: for
// PostgreSQL the timeline and the LSN, such as 3:0/5000000. "" is unknown.
type Position string

// History describes which positions a leader's data contain, in the engine's own format.
type History string

// Comparison is the relation of one position to another. Positions are only partially ordered: of
// two, each may contain something that the other lacks, as with MySQL's GTID sets.
type Comparison int

// The results of a comparison. Incomparable counts as ahead, in both directions.
const (
	Incomparable Comparison = iota
	Behind
	Equal
	Ahead
)

// Positions compares the positions of an engine. Its methods are pure functions.
type Positions interface {
	// Compare returns the relation of a to b: Ahead if a contains all of b, and more. A position that
	// can't be read is Incomparable.
	Compare(a, b Position) Comparison
	// Holds reports whether everything up to the position is part of the history. It returns false if
	// either can't be read.
	Holds(history History, position Position) bool
}

// Rule says which members have acknowledged writes: each write that Leader acknowledges is on
// Leader, and on at least Acks members of Set, which does not contain Leader. If Async is true,
// commits wait for no member of Set: its members are only counted when they answer pings, and
// writes that no member has received are lost when the leader fails.
type Rule struct {
	Leader Member   `json:"leader"`
	Set    []Member `json:"set,omitempty"`
	Acks   int      `json:"acks"`
	Async  bool     `json:"async,omitempty"`
}

// WaitsForNobody reports whether commits wait for no other member.
func (r Rule) WaitsForNobody() bool { return r.Acks == 0 || r.Async }

// CoveredBy reports whether the members in answers together have every write that was acknowledged
// under the rule: the leader is among them, or so many members of the set that any Acks members of
// it include one of them.
func (r Rule) CoveredBy(answers []Member) bool {
	if slices.Contains(answers, r.Leader) {
		return true
	}
	return r.counts(answers) >= len(r.Set)-r.Acks+1
}

// counts returns how many of the members are in the set.
func (r Rule) counts(members []Member) int {
	count := 0
	for _, member := range r.Set {
		if slices.Contains(members, member) {
			count++
		}
	}
	return count
}

// Equal reports whether two rules are the same. Sets in another order are not equal; instances sort
// them.
func (r Rule) Equal(other Rule) bool {
	return r.Leader == other.Leader && r.Acks == other.Acks && r.Async == other.Async && slices.Equal(r.Set, other.Set)
}

// names reports whether the member is the leader or in the set.
func (r Rule) names(member Member) bool { return r.Leader == member || slices.Contains(r.Set, member) }

// alone reports whether the rule names no member but its leader, so that only that may lead next.
func (r Rule) alone() bool { return len(r.Set) == 0 && r.Acks == 0 }

// others returns, for people, which further answers would cover the rule: "db-0, or of 1 of db-1,
// db-2", to be preceded by "of"; "1 of db-1, db-2" for a rule without a leader, which stands for
// several.
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
	of := fmt.Sprintf("%d of %s", len(r.Set)-r.Acks+1-r.counts(answers), strings.Join(names, ", "))
	if r.Leader.Name == "" {
		return of
	}
	return r.Leader.Name + ", or of " + of
}

// cover reports whether the answers cover every rule. An empty list is never covered: a record
// without rules does not say which members have the writes.
func cover(rules []Rule, answers []Member) bool {
	for _, rule := range rules {
		if !rule.CoveredBy(answers) {
			return false
		}
	}
	return len(rules) > 0
}

// sorted sorts the members, and removes duplicates.
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
