package injection

import (
	"cmp"
	"slices"
)

// held are those of some Injections that stay in a template, because nobody can say what they should be. Who opts out has these taken out, too. A record
// by itself holds nothing: an owner who replaces the whole template has taken them out.
func (s *NamespaceContext) retained(w *Workload, recorded []Injection) []Injection {
	if s.optsOut(w) {
		return nil
	}
	return only(recorded, func(one Injection) bool {
		return s.retainReason(w, &one) != "" && hasVolume(w.Template, partName(one.ID))
	})
}

// whyHeld says why an Injection stays as it is; empty if it does not. A record stands where users write: one whose id is another's is not believed.
func (s *NamespaceContext) retainReason(w *Workload, one *Injection) string {
	identity := one.Identity(w.Namespace)
	switch at := s.indexOf(one.ID); {
	case at >= 0 && s.Agents[at].retainsInjected():
		return "its spec is invalid"
	case slices.Contains(s.Off, identity.Kind) && identity.ID() == one.ID:
		return "its kind is off"
	}
	return ""
}

// indexOf is an agent's place among those of the setting; -1 if it is none of them.
func (s *NamespaceContext) indexOf(id string) int {
	return slices.IndexFunc(s.Agents, func(agent *Agent) bool { return agent.ID == id })
}

// takenByHeld says of containers who has them, of those that are held.
func (s *NamespaceContext) takenByRetained(w *Workload, held []Injection) map[string]string {
	taken := map[string]string{}
	for i := range held {
		by := held[i].By + ", which stays as it is because " + s.retainReason(w, &held[i]) + ","
		for _, part := range held[i].Parts {
			taken[part.Name] = by
		}
	}
	return taken
}

// refit are those of Injections that are held which a template takes that has none of them. They go in again as they were, beside what the owner has
// written by now: what stood there while he wrote may be half his and half ours. What does not fit any more, or has no room, goes out.
func (s *NamespaceContext) refit(w *Workload, held []Injection) []Injection {
	var kept []Injection
	for _, one := range held {
		if s.canReapply(w, &one) {
			kept = append(kept, one)
		}
	}
	for len(kept) > 0 && !hasRoom(w.Template, kept) {
		kept = kept[:len(kept)-1]
	}
	return kept
}

// join puts Injections that are held in one order with the others: that in which all would be put into the template, so that nothing moves when the
// cause is gone.
func (s *NamespaceContext) join(held, effective []Injection) []Injection {
	if len(held) == 0 {
		return effective
	}
	all := slices.Concat(held, effective)
	slices.SortStableFunc(all, func(a, b Injection) int {
		return cmp.Or(-cmp.Compare(a.Identity("").Kind, b.Identity("").Kind), cmp.Compare(s.indexOf(a.ID), s.indexOf(b.ID)))
	})
	return all
}
