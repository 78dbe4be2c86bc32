package workload

import (
	"cmp"
	"errors"
	"fmt"
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
		names, _ := stakaterNames(target.Annotations[stakaterListed(kind)])
		for _, name := range names {
			if isStakaterName(name) {
				named = append(named, SourceRef{kind, name})
			}
		}
	}
	return named
}

// isStakaterName reports whether an entry means one name: a point is the only letter of names that
// expressions have another meaning for.
func isStakaterName(entry string) bool {
	return regexp.QuoteMeta(entry) == strings.ReplaceAll(entry, ".", `\.`)
}

// stakaterListed and stakaterExcluded return the annotations that list sources of a kind.
func stakaterListed(kind SourceKind) string {
	return stakaterWords[kind] + "." + StakaterDomain + "reload"
}

func stakaterExcluded(kind SourceKind) string {
	return stakaterWords[kind] + "s.exclude." + StakaterDomain + "reload"
}

// OfStakater returns the demands of Stakater Reloader's annotations on a workload. marks has the
// annotations of the sources that it uses or names, as far as they are known. Names may be regular
// expressions, which are matched only against the sources that the workload uses. It returns an
// error if a part of the annotations is beyond a limit, or is no regular expression, together with
// the demands of the other parts.
func OfStakater(target *Target, marks map[SourceRef]map[string]string) ([]Demand, error) {
	given := target.Annotations
	ignored := func(ref SourceRef) bool { return marks[ref][stakaterIgnore] == "true" }
	patterns := newStakaterPatterns()
	listed := func(key, name string) bool { return patterns.listed(key, given[key], name) }
	demands := ofUses(target, func(ref SourceRef) bool {
		if ignored(ref) || listed(stakaterExcluded(ref.Kind), ref.Name) {
			return false
		}
		return given[stakaterAuto] == "true" || given[stakaterWords[ref.Kind]+"."+StakaterDomain+"auto"] == "true" ||
			(given[stakaterSearch] == "true" && marks[ref][stakaterMatch] == "true") ||
			listed(stakaterListed(ref.Kind), ref.Name)
	})
	tooMany := tooManyOfStakater(target, len(demands))
	// Exact names also count if the pods do not refer to them.
	for _, ref := range StakaterNamed(target) {
		known := slices.ContainsFunc(demands, func(d Demand) bool { return d.Source == ref })
		if len(demands) == maxSources || known || ignored(ref) {
			continue
		}
		demands = append(demands, ownDemand(target, ref, nil))
	}
	return demands, cmp.Or(tooMany, patterns.problem)
}

// tooManyOfStakater returns an error for the first list that is longer than what counts of it, or
// if the pods use more sources than count; nil otherwise. demands is how many of these there are
// demands for.
func tooManyOfStakater(target *Target, demands int) error {
	for _, kind := range []SourceKind{ConfigMap, Secret} {
		for _, key := range []string{stakaterListed(kind), stakaterExcluded(kind)} {
			if _, isWhole := stakaterNames(target.Annotations[key]); !isWhole {
				return fmt.Errorf("metadata.annotations[%s]: Too many: must have at most %d entries: only the first %d are used", key,
					maxSources, maxSources)
			}
		}
	}
	if used := len(target.Uses); demands == maxSources && used > maxSources {
		return fmt.Errorf("metadata.annotations: Too many: the pods use %d ConfigMaps and Secrets: of those that the annotations of %s name, "+
			"only the first %d by name are used", used, strings.TrimSuffix(StakaterDomain, "/"), maxSources)
	}
	return nil
}

// maxStakaterWork limits what the regular expressions of one workload may cost in one pass, in
// about the bytes that are processed.
const maxStakaterWork = 1 << 20

var errStakaterWork = errors.New("all regular expressions of this workload cost too much together: make them simpler, or fewer")

// stakaterPatterns matches names with the lists of regular expressions of one workload.
type stakaterPatterns struct {
	left int
	// isSpent reports that something would have cost more than what was left.
	isSpent  bool
	patterns *bounded.Patterns
	// problem is the first one that an entry had; nil if there is none.
	problem error
}

func newStakaterPatterns() *stakaterPatterns {
	s := &stakaterPatterns{left: maxStakaterWork}
	s.patterns = bounded.NewPatterns(func(cost int) error {
		if cost > s.left {
			s.left, s.isSpent = 0, true
			return errStakaterWork
		}
		s.left -= cost
		return nil
	})
	return s
}

// stakaterNames returns the entries of a list, the first maxSources, and whether these are all.
func stakaterNames(list string) (names []string, isWhole bool) {
	for entry := range strings.SplitSeq(list, ",") {
		if entry = strings.TrimSpace(entry); entry == "" {
			continue
		}
		if len(names) == maxSources {
			return names, false
		}
		names = append(names, entry)
	}
	return names, true
}

// listed reports whether an entry of the list in an annotation is equal to a name, or matches it as
// a regular expression. An expression that is invalid, or would cost too much, matches nothing,
// which is a problem unless it means one name.
func (s *stakaterPatterns) listed(key, list, name string) bool {
	names, _ := stakaterNames(list)
	for _, entry := range names {
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
		if err == nil && s.isSpent {
			err = errStakaterWork
		}
		if err != nil && s.problem == nil && !isStakaterName(entry) {
			s.problem = fmt.Errorf("metadata.annotations[%s]: Invalid value: %q: counts only as a name, and not as a regular expression: "+
				"^(?:...)$ with it is not accepted: %w", key, entry[:min(len(entry), maxQuoted)], err)
		}
	}
	return false
}
