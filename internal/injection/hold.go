package injection

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// held are those of some Injections that stay in a template as they are, because nobody can say what they should be. Who opts out has these taken out,
// too. A record by itself holds nothing: an owner who replaces the whole template has taken them out.
func (s *Setting) held(w *Workload, recorded []Injection) []Injection {
	if s.declines(w) {
		return nil
	}
	return only(recorded, func(one Injection) bool {
		return s.whyHeld(w, &one) != "" && hasVolume(w.Template, partName(one.ID))
	})
}

// whyHeld says why an Injection stays as it is; empty if it does not. A record stands where users write: one whose id is another's is not believed.
func (s *Setting) whyHeld(w *Workload, one *Injection) string {
	identity := one.Identity(w.Namespace)
	switch at := s.indexOf(one.ID); {
	case at >= 0 && s.Agents[at].isHeld():
		return "its spec is invalid"
	case slices.Contains(s.Off, identity.Kind) && identity.ID() == one.ID:
		return "its kind is off"
	}
	return ""
}

// indexOf is an agent's place among those of the setting; -1 if it is none of them.
func (s *Setting) indexOf(id string) int {
	return slices.IndexFunc(s.Agents, func(agent *Agent) bool { return agent.ID == id })
}

// takenByHeld says of containers who has them, of those that are held.
func (s *Setting) takenByHeld(w *Workload, held []Injection) map[string]string {
	taken := map[string]string{}
	for i := range held {
		for _, part := range held[i].Parts {
			taken[part.Name] = held[i].By + ", which stays as it is because " + s.whyHeld(w, &held[i]) + ","
		}
	}
	return taken
}

// beside are Injections without those that are held, and without what is said of their containers: what these have is what the held ones say.
func beside(injections, held []Injection) []Injection {
	if len(held) == 0 {
		return injections
	}
	var others []Injection
	for _, one := range injections {
		if of(held, one.ID) != nil {
			continue
		}
		one.Parts = only(one.Parts, func(part Part) bool {
			return !slices.ContainsFunc(held, func(kept Injection) bool {
				return slices.ContainsFunc(kept.Parts, func(its Part) bool { return its.Name == part.Name })
			})
		})
		others = append(others, one)
	}
	return others
}

// join puts Injections that are held, and stand in the template, in one order with those that have been put into it: the order in which all would
// have been put into it, so that nothing moves when the cause is gone.
func (s *Setting) join(template *corev1.PodTemplateSpec, held, effective []Injection) []Injection {
	if len(held) == 0 {
		return effective
	}
	all := slices.Concat(held, effective)
	slices.SortStableFunc(all, func(a, b Injection) int {
		return cmp.Or(-cmp.Compare(a.Identity("").Kind, b.Identity("").Kind), cmp.Compare(s.indexOf(a.ID), s.indexOf(b.ID)))
	})
	for i := range all {
		name := partName(all[i].ID)
		template.Spec.Volumes = moveToEnd(template.Spec.Volumes, func(one *corev1.Volume) bool { return one.Name == name })
		template.Spec.InitContainers = moveToEnd(template.Spec.InitContainers, func(one *corev1.Container) bool { return one.Name == name })
	}
	return all
}

// moveToEnd is a list with what is so behind all else.
func moveToEnd[T any](list []T, isSo func(*T) bool) []T {
	return append(without(list, isSo), without(list, func(one *T) bool { return !isSo(one) })...)
}
