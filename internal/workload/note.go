package workload

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// stamp returns the stamp that the target is to have.
func (d *planner) stamp(target *Target, relations, pending []relation, restart bool) Stamp {
	wanted := target.stampOfRollout(restart, d.now.UTC().Truncate(time.Millisecond))
	if target.isReplaced(relations) {
		wanted.For = HashText(target.RestartedFor) // its pods were started with it since the sources changed
	}
	for _, r := range relations {
		name := r.demand.Source.String()
		before, stamped := target.Stamp.Sources[name]
		if r.state == Left {
			if entry, begun := wanted.Sources[name]; begun {
				before = entry // another demand on the source has set it already
			}
			if restart {
				before, stamped = d.recordWithoutRestart(target, before, r)
			}
			if stamped {
				wanted.set(name, before)
			}
			continue
		}
		entry, begun := wanted.Sources[name]
		if !begun {
			entry = SeenSource{Was: before.Was, Restarts: before.Restarts, At: before.At, Streak: before.Streak}
			if restart && isPending(pending, r.demand.Source) {
				entry = before.restarted(*wanted.RestartedAt, r.demand)
			}
		}
		entry = d.recordSeen(entry, before, r, restart)
		if entry.All != "" || len(entry.Keys) > 0 {
			wanted.set(name, entry)
		}
	}
	if len(relations) == 0 {
		return Stamp{}
	}
	return wanted
}

// stampOfRollout returns the part of the stamp that is about the last restart as a whole.
func (t *Target) stampOfRollout(restart bool, now time.Time) Stamp {
	wanted := t.Stamp
	wanted.Sources = nil
	switch {
	case restart:
		return Stamp{RestartedAt: &now}
	case t.isJustDone():
		return Stamp{RestartedAt: wanted.RestartedAt, Done: true, DoneAt: &now, For: wanted.For}
	case t.isJustHeld():
		wanted.Held = true
	case t.isJustResumed():
		wanted.Held, wanted.ResumedAt = false, &now
	}
	return wanted
}

// recordWithoutRestart returns the entry for a source that causes no restart, while the pods
// restart for another one: it records what the new pods see. That is nothing, if the source does
// not exist and they can run without it, or the edited content. It is unknown for a source that may
// not be read.
func (d *planner) recordWithoutRestart(target *Target, before SeenSource, r relation) (SeenSource, bool) {
	source := Source{Ref: r.demand.Source}
	all := absent
	switch {
	case r.reason == ReasonEditedByHand:
		source, all = *r.source, d.all[r.demand.Source]
	case r.reason != ReasonSourceMissing || target.Uses[r.demand.Source].Required:
		return before, before.All != "" || len(before.Keys) > 0
	}
	if r.demand.Keys == nil || before.All != "" {
		before.All = all
	}
	before.Keys = maps.Clone(before.Keys)
	for _, key := range r.demand.Keys {
		if before.Keys == nil {
			before.Keys = map[string]string{}
		}
		before.Keys[key] = source.Key(key)
	}
	return before, true
}

// set sets the entry of a source.
func (s *Stamp) set(name string, seen SeenSource) {
	if s.Sources == nil {
		s.Sources = map[string]SeenSource{}
	}
	s.Sources[name] = seen
}

func isPending(pending []relation, source SourceRef) bool {
	return slices.ContainsFunc(pending, func(r relation) bool { return r.demand.Source == source })
}

// restarted returns the entry after one more restart for a source.
func (s SeenSource) restarted(now time.Time, demand *Demand) SeenSource {
	entry := SeenSource{Was: s.All, Restarts: s.Restarts + 1, At: &now, Streak: 1}
	if s.At != nil && now.Sub(*s.At) < InCloseSuccession(demand.Cooldown) {
		entry.Streak = s.Streak + 1
	}
	return entry
}

// recordSeen adds to an entry what one demand needs of a source: the present hashes if the target
// restarts or its pods run them already; otherwise the previous hashes, so that the difference
// remains.
func (d *planner) recordSeen(entry, before SeenSource, r relation, restart bool) SeenSource {
	present := restart || r.state == UpToDate
	all := d.all[r.demand.Source]
	if r.demand.Keys == nil {
		entry.All = before.All
		if present {
			entry.All = all
		}
		return entry
	}
	for _, key := range r.demand.Keys {
		hash := before.Keys[key]
		if present {
			hash = r.source.Key(key)
		}
		if hash == "" {
			continue
		}
		if entry.Keys == nil {
			entry.Keys = map[string]string{}
		}
		entry.Keys[key] = hash
	}
	return entry
}

// token returns the value of the pod template's annotation: the content that the pods are started
// for, and the ordinal number of the restart, as in "flags=1f6a0c2b,secret/db=a:77#3". The number
// makes the template differ even if an earlier content returns: pods of the earlier template may
// have been started while the content was a third one. The token always differs from the present
// one, or nothing would restart: if another client has put back the annotation of what we have
// observed, but not that of the pod template, the same restart is due again and gets a mark.
func token(stamp Stamp, present string) string {
	var parts []string
	restarts := int64(0)
	for name, seen := range stamp.Sources {
		restarts += seen.Restarts
		hash := seen.All
		if hash == "" {
			hash = HashAll(seen.Keys)
		}
		kind, short, _ := strings.Cut(name, "/")
		if kind != string(ConfigMap) {
			short = strings.ToLower(kind) + "/" + short
		}
		parts = append(parts, short+"="+hash)
	}
	slices.Sort(parts)
	made := strings.Join(parts, ",") + "#" + strconv.FormatInt(restarts, 10)
	if made == present {
		made += again
	}
	return made
}

// again is the mark of a token that would be the present one otherwise.
const again = "+"

// Purpose returns the token of the restart without that mark: each second token has it while
// another client puts back what we have observed, and the restart is the same one. It returns ""
// for a patch that does not restart the workload.
func (p TargetPatch) Purpose() string { return strings.TrimSuffix(p.RestartedFor, again) }
