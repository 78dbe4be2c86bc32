package postgres

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
)

// maxNameBytes is the longest application_name that the server keeps: a longer one is cut, and
// would no longer be that of one member only (NAMEDATALEN).
const maxNameBytes = 63

// memberName is an application_name: a pod's name and the incarnation. PostgreSQL compares such
// names without regard to case, so there is none.
var memberName = regexp.MustCompile(`^([a-z0-9]([a-z0-9.-]*[a-z0-9])?)/([a-z0-9-]+)$`)

// Nobody is an application_name that no member has. A standby waits for it, so that the server
// acknowledges nothing between its promotion and the rule.
const Nobody = "mainstay/nobody/at/all"

// ApplicationName returns the name under which a member receives.
func ApplicationName(member election.Member) (string, error) {
	name := member.Name + "/" + member.Incarnation
	if len(name) > maxNameBytes {
		return "", fmt.Errorf("pod name and incarnation have %d characters together: must have at most %d", len(name)-1, maxNameBytes-1)
	}
	if !memberName.MatchString(name) {
		return "", fmt.Errorf("%q is not the name of a member: must have lower case letters, digits, - and . in the pod's name", name)
	}
	return name, nil
}

// ParseApplicationName returns the member that has this name, if a member has it.
func ParseApplicationName(name string) (election.Member, bool) {
	found := memberName.FindStringSubmatch(name)
	if found == nil || len(name) > maxNameBytes {
		return election.Member{}, false
	}
	return election.Member{Name: found[1], Incarnation: found[3]}, true
}

// SlotPrefix begins the names of the slots of members.
const SlotPrefix = "mainstay_"

// SlotName returns the name of the slot through which a member receives. A slot serves one
// connection at a time, so that a member whose old connection is not gone yet counts once.
func SlotName(member election.Member) (string, error) {
	if _, err := ApplicationName(member); err != nil {
		return "", err
	}
	name := SlotPrefix + strings.ReplaceAll(member.Incarnation, "-", "_")
	if len(name) > maxNameBytes {
		return "", fmt.Errorf("the incarnation has %d characters: must have at most %d", len(member.Incarnation), maxNameBytes-len(SlotPrefix))
	}
	return name, nil
}

// Synchronous returns the value of synchronous_standby_names for a rule: never `*` nor FIRST, so
// that exactly the members of the rule count. It is empty for a rule that waits for no other
// member.
func Synchronous(rule election.Rule) (string, error) {
	if rule.Async || rule.Acks == 0 && len(rule.Set) == 0 {
		return "", nil
	}
	if rule.Acks < 1 || rule.Acks > len(rule.Set) {
		return "", fmt.Errorf("a rule waits for %d of %d members: must be at least 1, and at most all", rule.Acks, len(rule.Set))
	}
	names := make([]string, 0, len(rule.Set))
	for _, member := range rule.Set {
		name, err := ApplicationName(member)
		if err != nil {
			return "", err
		}
		if member == rule.Leader {
			return "", fmt.Errorf("a rule of %s waits for itself", name)
		}
		names = append(names, `"`+name+`"`)
	}
	return fmt.Sprintf("ANY %d (%s)", rule.Acks, strings.Join(names, ", ")), nil
}

// WaitsForNobody returns the value with which no commit ever returns.
func WaitsForNobody() string { return `ANY 1 ("` + Nobody + `")` }
