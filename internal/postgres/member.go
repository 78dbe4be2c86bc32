package postgres

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
)

// maxNameBytes is the length of the longest application_name (NAMEDATALEN). The server truncates a
// longer one, which then might not be unique.
const maxNameBytes = 63

// memberName matches the application_name of a member: the pod's name, a slash and the incarnation.
// PostgreSQL ignores case when it compares such names, so they have no upper case.
var memberName = regexp.MustCompile(`^([a-z0-9]([a-z0-9.-]*[a-z0-9])?)/([a-z0-9-]+)$`)

// Nobody is an application_name that no member has. It is in a standby's synchronous_standby_names,
// so that after its promotion the server acknowledges nothing until the rule is set.
const Nobody = "mainstay/nobody/at/all"

// ApplicationName returns the application_name with which a member receives. It fails if the
// member's name is too long or has other characters.
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

// ParseApplicationName returns the member with this application_name; false if it is not that of a
// member.
func ParseApplicationName(name string) (election.Member, bool) {
	found := memberName.FindStringSubmatch(name)
	if found == nil || len(name) > maxNameBytes {
		return election.Member{}, false
	}
	return election.Member{Name: found[1], Incarnation: found[3]}, true
}

// SlotPrefix is the prefix of the names of members' replication slots.
const SlotPrefix = "mainstay_"

// SlotName returns the name of the replication slot through which a member receives. A slot serves
// one connection at a time, so that a member with an old connection that is not closed yet counts
// only once.
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

// Synchronous returns the value of synchronous_standby_names for a rule. It never has `*` or FIRST,
// so that exactly the members of the rule count. It is empty for a rule under which commits wait
// for no other member.
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

// WaitsForNobody returns the value of synchronous_standby_names with which no commit returns,
// because it waits for [Nobody].
func WaitsForNobody() string { return `ANY 1 ("` + Nobody + `")` }
