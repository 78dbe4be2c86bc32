package workload

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/mainstay-platform/mainstay/internal/kit/bounded"
)

// Annotations of Stakater Reloader, for teams that migrate from it.
//
// Source: https://github.com/stakater/Reloader, README.
const (
	StakaterDomain = "reloader.stakater.com/"

	stakaterAuto   = StakaterDomain + "auto"
	stakaterSearch = StakaterDomain + "search"
	stakaterMatch  = StakaterDomain + "match"
	stakaterIgnore = StakaterDomain + "ignore"
)

// stakaterWords are the words for the two kinds of sources in its annotations.
var stakaterWords = map[SourceKind]string{ConfigMap: "configmap", Secret: "secret"}

// StakaterNamed returns the sources that Stakater Reloader's annotations on a workload name, but
// not by regular expressions: at most maxSources of each kind. The pods need not refer to them.
func StakaterNamed(target *Target) []SourceRef {
	var named []SourceRef
	for _, kind := range []SourceKind{ConfigMap, Secret} {
		for _, name := range stakaterNames(target.Annotations[stakaterWords[kind]+"."+StakaterDomain+"reload"]) {
			if regexp.QuoteMeta(name) == strings.ReplaceAll(name, ".", `\.`) {
				named = append(named, SourceRef{kind, name})
			}
		}
	}
	return named
}

// OfStakater returns the demands of Stakater Reloader's annotations on a workload. marks has the
// annotations of the sources that it uses or names, as far as they are known. Names may be regular
// expressions, which are matched only against the sources that the workload uses.
func OfStakater(target *Target, marks map[SourceRef]map[string]string) []Demand {
	given := target.Annotations
	ignored := func(ref SourceRef) bool { return marks[ref][stakaterIgnore] == "true" }
	patterns := newStakaterPatterns()
	demands := ofUses(target, func(ref SourceRef) bool {
		word := stakaterWords[ref.Kind]
		if ignored(ref) || patterns.listed(given[word+"s.exclude."+StakaterDomain+"reload"], ref.Name) {
			return false
		}
		return given[stakaterAuto] == "true" || given[word+"."+StakaterDomain+"auto"] == "true" ||
			(given[stakaterSearch] == "true" && marks[ref][stakaterMatch] == "true") ||
			patterns.listed(given[word+"."+StakaterDomain+"reload"], ref.Name)
	})
	// Exact names also count if the pods do not refer to them.
	for _, ref := range StakaterNamed(target) {
		known := slices.ContainsFunc(demands, func(d Demand) bool { return d.Source == ref })
		if len(demands) == maxSources || known || ignored(ref) {
			continue
		}
		demands = append(demands, ownDemand(target, ref, nil))
	}
	return demands
}

// maxStakaterWork limits what the regular expressions of one workload may cost in one pass, in
// about the bytes that are processed.
const maxStakaterWork = 1 << 20

// stakaterPatterns matches names with the lists of regular expressions of one workload.
type stakaterPatterns struct {
	left     int
	patterns *bounded.Patterns
}

func newStakaterPatterns() *stakaterPatterns {
	s := &stakaterPatterns{left: maxStakaterWork}
	s.patterns = bounded.NewPatterns(func(cost int) error {
		if cost > s.left {
			s.left = 0
			return errors.New("the regular expressions cost too much")
		}
		s.left -= cost
		return nil
	})
	return s
}

// stakaterNames returns the entries of a list, the first maxSources.
func stakaterNames(list string) []string {
	var names []string
	for entry := range strings.SplitSeq(list, ",") {
		if entry = strings.TrimSpace(entry); entry != "" {
			names = append(names, entry)
		}
		if len(names) == maxSources {
			break
		}
	}
	return names
}

// listed reports whether an entry of a list is equal to a name, or matches it as a regular
// expression. An expression that is invalid, or would cost too much, matches nothing.
func (s *stakaterPatterns) listed(list, name string) bool {
	for _, entry := range stakaterNames(list) {
		if entry == name {
			return true
		}
		if regexp.QuoteMeta(entry) == entry {
			continue
		}
		expression, err := s.patterns.Compile("^(?:" + entry + ")$")
		if err == nil && expression.MatchString(name) {
			return true
		}
	}
	return false
}
