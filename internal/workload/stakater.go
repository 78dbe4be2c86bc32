package workload

import (
	"regexp"
	"slices"
	"strings"
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

// OfStakater returns the demands of Stakater Reloader's annotations on a workload. marks has the
// annotations of the sources that it uses, as far as they are known. Names may be regular
// expressions, which are matched only against the sources that the workload uses.
func OfStakater(target *Target, marks map[SourceRef]map[string]string) []Demand {
	given := target.Annotations
	ignored := func(ref SourceRef) bool { return marks[ref][stakaterIgnore] == "true" }
	demands := ofUses(target, func(ref SourceRef) bool {
		word := stakaterWords[ref.Kind]
		if ignored(ref) || stakaterListed(given[word+"s.exclude."+StakaterDomain+"reload"], ref.Name) {
			return false
		}
		return given[stakaterAuto] == "true" || given[word+"."+StakaterDomain+"auto"] == "true" ||
			(given[stakaterSearch] == "true" && marks[ref][stakaterMatch] == "true") ||
			stakaterListed(given[word+"."+StakaterDomain+"reload"], ref.Name)
	})
	// Exact names also count if the pods do not refer to them.
	for _, kind := range []SourceKind{ConfigMap, Secret} {
		for name := range strings.SplitSeq(given[stakaterWords[kind]+"."+StakaterDomain+"reload"], ",") {
			ref := SourceRef{kind, strings.TrimSpace(name)}
			known := slices.ContainsFunc(demands, func(d Demand) bool { return d.Source == ref })
			if ref.Name == "" || known || ignored(ref) || regexp.QuoteMeta(ref.Name) != strings.ReplaceAll(ref.Name, ".", `\.`) {
				continue
			}
			demands = append(demands, ownDemand(target, ref, nil))
		}
	}
	return demands
}

// stakaterListed reports whether a list of regular expressions matches a name. An invalid
// expression is taken literally.
func stakaterListed(list, name string) bool {
	for entry := range strings.SplitSeq(list, ",") {
		entry = strings.TrimSpace(entry)
		if entry == "" {
			continue
		}
		expression, err := regexp.Compile("^(?:" + entry + ")$")
		if entry == name || (err == nil && expression.MatchString(name)) {
			return true
		}
	}
	return false
}
