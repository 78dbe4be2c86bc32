package instance

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// doubtAfter is how long a record must be distrusted, or too few members must have answered, before
// that is reported and logged. A record that is about to be read again is not a problem.
const doubtAfter = 5 * time.Second

// lastingDoubt returns why this instance neither leads nor follows: why the election record in the
// Lease is not trusted, which members' answers are missing, or from which leader it hears nothing.
// It returns "" until the same reason has lasted for doubtAfter, and logs it once then.
func (i *Instance) lastingDoubt() string {
	doubt := ""
	if !i.core.Leads() { // A leader repairs the Lease itself.
		doubt = i.core.Doubt()
	}
	if _, follows := i.core.Follows(); doubt == "" && !follows {
		doubt = cmp.Or(i.core.Lacking(), i.unheard())
	}
	if doubt != i.doubt {
		i.doubt, i.doubtSince, i.doubtLogged = doubt, time.Now(), false
	}
	if doubt == "" || time.Since(i.doubtSince) < doubtAfter {
		return ""
	}
	if !i.doubtLogged {
		i.doubtLogged = true
		i.Log.Info("this instance neither leads nor follows", "why", doubt)
	}
	return doubt
}

// unheard says from which leader no ping arrives; "" if none is missing.
func (i *Instance) unheard() string {
	leader := i.core.Unheard()
	if leader == "" {
		return ""
	}
	return "hears nothing from " + leader + ", which leads by the Lease: if it runs, its log says why it does not reach this instance"
}

// failing is what is known of a peer to which messages fail.
type failing struct {
	// since is when the first of them failed, and at is when the last one did.
	since, at time.Time
	// logged is the error that was logged last; "" if none was. loggedAt is when.
	logged   string
	loggedAt time.Time
}

const (
	// failureLogEvery is how often at most a changed error of the messages to one peer is logged. Some
	// errors name a port, which is another one each time.
	failureLogEvery = time.Minute
	// failingFor is how long after a failed message its error is reported, and how long after it the
	// next one still counts as failed in a row. It is longer than the time between two Asks.
	failingFor = 10 * time.Second
)

// noteAnswer notes that a peer has answered a message, or why it has not. An error that lasts for
// doubtAfter is logged, and so is its end. Those of a peer that was removed last for ever, and are
// logged once.
func (i *Instance) noteAnswer(to string, err error) {
	found := i.failing[to]
	if err == nil {
		if found.logged != "" {
			i.Log.Info("the messages to another instance arrive again", "to", to)
		}
		delete(i.failing, to)
		return
	}
	now := time.Now()
	if now.Sub(found.at) > failingFor {
		found = failing{since: now}
	}
	found.at = now
	isNew := found.logged == "" || err.Error() != found.logged && now.Sub(found.loggedAt) >= failureLogEvery && i.isWanted(to)
	if isNew && now.Sub(found.since) >= doubtAfter {
		found.logged, found.loggedAt = err.Error(), now
		i.Log.Info("messages to another instance fail; retrying", "to", to, "error", found.logged)
	}
	i.failing[to] = found
}

// isWanted reports whether the settings name the peer, or no instance although there are several.
func (i *Instance) isWanted(peer string) bool {
	return len(i.core.Others) == 0 && i.core.Config.Instances != 1 || slices.Contains(i.core.Others, peer)
}

// unanswered returns the errors of the messages to peers that have failed for doubtAfter; "" if
// there are none. It returns the errors that were logged, so that a report seldom changes.
func (i *Instance) unanswered() string {
	text := ""
	for _, name := range i.others() {
		if found := i.failing[name]; time.Since(found.at) <= failingFor {
			text = joined(text, found.logged)
		}
	}
	return text
}

// joined joins two texts that may be empty.
func joined(first, second string) string {
	return strings.Trim(first+"; "+second, "; ")
}
