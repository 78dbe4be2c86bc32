package injection

import (
	"cmp"
	"slices"
)

// retained returns the recorded Injections that stay in a template because their desired state is
// unknown. Opting out removes them too. A record alone retains nothing: an owner who replaces the
// whole template has removed them.
func (s *NamespaceContext) retained(w *Workload, recorded []Injection) []Injection {
	if s.optsOut(w) {
		return nil
	}
	return only(recorded, func(one Injection) bool {
		return s.retainReason(w, &one) != "" && hasVolume(w.Template, partName(one.ID))
	})
}

// retainReason says why an Injection is retained; empty if it is not. Users can write records, so a
// record whose id belongs to another Instrumentation is ignored.
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

// indexOf returns the index of an agent in s.Agents, or -1.
func (s *NamespaceContext) indexOf(id string) int {
	return slices.IndexFunc(s.Agents, func(agent *Agent) bool { return agent.ID == id })
}

// takenByRetained returns, by container, which retained Injection has it.
func (s *NamespaceContext) takenByRetained(w *Workload, retained []Injection) map[string]string {
	taken := map[string]string{}
	for i := range retained {
		by := retained[i].By + " (retained because " + s.retainReason(w, &retained[i]) + ")"
		for _, part := range retained[i].Parts {
			taken[part.Name] = by
		}
	}
	return taken
}

// readaptAll returns the retained Injections that fit a template from which they have been removed.
// They are injected again as they were, next to what the owner has written meanwhile: an edited
// copy of them may be half the owner's and half ours. What no longer fits, or has no room, is
// removed.
func (s *NamespaceContext) readaptAll(w *Workload, retained []Injection) []Injection {
	var kept []Injection
	for _, one := range retained {
		if s.readapt(w, &one) {
			kept = append(kept, one)
		}
	}
	for len(kept) > 0 && !hasRoom(w.Template, kept) {
		kept = kept[:len(kept)-1]
	}
	return kept
}

// join merges retained Injections with the others, in the order in which all would be injected, so
// that nothing moves when they are no longer retained.
func (s *NamespaceContext) join(retained, effective []Injection) []Injection {
	if len(retained) == 0 {
		return effective
	}
	all := slices.Concat(retained, effective)
	slices.SortStableFunc(all, func(a, b Injection) int {
		return cmp.Or(-cmp.Compare(a.Identity("").Kind, b.Identity("").Kind), cmp.Compare(s.indexOf(a.ID), s.indexOf(b.ID)))
	})
	return all
}
