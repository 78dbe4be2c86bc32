package appstack

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mainstay-platform/mainstay/api"
	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/component"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/test/cases"
)

// TestEdits: whatever a user does, in whatever order, with a cache that lags, a manager that is
// killed between any two writes and writes that fail: nothing is deleted that the latest spec has,
// on which an object depends that stays longer, or which pods use; nothing is created before what
// it depends on is ready; and in the end what exists is what the spec has.
func TestEdits(t *testing.T) {
	for seed := range cases.Seeds(t, 1000, 100000) {
		s := newSimulation(t, seed)
		for range 5 + s.random.IntN(25) {
			s.step()
		}
		s.settle()
		if t.Failed() {
			t.Logf("seed %d:\n%s", seed, s.log)
		}
	}
}

// stored is one object of the simulated API server.
type stored struct {
	object component.Object
	// content identifies what was applied.
	content string
	// uses are the components that its pods use: those that it depended on when it was ready last, and
	// those of each change since.
	uses []string
}

// simulation is an API server with one stack, and a manager.
type simulation struct {
	t      *testing.T
	random *rand.Rand
	stack  *platformv1.AppStack
	// objects are those of the API server; cached is what the manager's cache had at some time, as
	// is cachedStack.
	objects, cached map[plan.Ref]stored
	cachedStack     *platformv1.AppStack
	version         int
	log             string
	// isCalm reports that nothing fails any more.
	isCalm bool
}

func newSimulation(t *testing.T, seed uint64) *simulation {
	s := &simulation{t: t, random: rand.New(rand.NewPCG(seed, 1)), objects: map[plan.Ref]stored{}}
	s.stack = newStack(s.components()...)
	s.refresh()
	return s
}

func (s *simulation) notef(format string, values ...any) {
	s.log += fmt.Sprintf(format, values...) + "\n"
}

// components returns a random valid spec of a few names, types and images: so that edits often
// return to what there was.
func (s *simulation) components() []platformv1.Component {
	all := []string{"a", "b", "c", "d", "e"}
	s.random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	var components []platformv1.Component
	for i, name := range all[:1+s.random.IntN(len(all))] {
		var on []string
		for _, other := range all[:i] {
			if s.random.IntN(3) == 0 {
				on = append(on, other)
			}
		}
		c := one(name, "webApp", fmt.Sprintf(`{"image":"r.io/web:%d"}`, s.random.IntN(2)), on...)
		switch s.random.IntN(6) {
		case 0:
			c = one(name, "configMonitor", `{"configMap":"flags"}`, on...)
		case 1:
			c = one(name, "postgresql", `{"version":"17"}`, on...)
		}
		components = append(components, c)
	}
	s.random.Shuffle(len(components), func(i, j int) { components[i], components[j] = components[j], components[i] })
	return components
}

// refresh brings the cache up to date.
func (s *simulation) refresh() {
	s.cached, s.cachedStack = maps.Clone(s.objects), s.stack.DeepCopy()
}

// step does one thing that can happen.
func (s *simulation) step() {
	switch s.random.IntN(10) {
	case 0, 1:
		s.stack.Spec.Components = s.components()
		s.stack.Generation++
		s.notef("edit %d: %v", s.stack.Generation, s.describe())
	case 2:
		if s.random.IntN(20) == 0 && s.stack.DeletionTimestamp == nil {
			deleteNow(s.stack)
			s.stack.Generation++
			s.notef("the stack is deleted")
			return
		}
		s.stack.Spec.Updates = []platformv1.Updates{platformv1.UpdatesOrdered, platformv1.UpdatesIndependent}[s.random.IntN(2)]
		s.stack.Generation++
	case 3:
		s.refresh()
	case 4:
		s.touch(func(ref plan.Ref, one stored) {
			s.forget(ref)
			s.notef("%s is deleted by hand", ref)
		})
	case 5:
		s.touch(func(ref plan.Ref, one stored) { s.report(ref, one, "Broken") })
	default:
		s.touch(func(ref plan.Ref, one stored) { s.report(ref, one, "") })
		if s.random.IntN(2) == 0 {
			s.refresh()
		}
		s.reconcile()
	}
}

func (s *simulation) describe() string {
	text := ""
	for _, c := range s.stack.Spec.Components {
		text += fmt.Sprintf(" %s %s %s%v", c.Name, c.Type, c.Spec.Raw, c.DependsOn)
	}
	return text
}

// touch calls change for a random object.
func (s *simulation) touch(change func(plan.Ref, stored)) {
	refs := slices.SortedFunc(maps.Keys(s.objects), func(a, b plan.Ref) int { return cmpRef(a, b) })
	if len(refs) > 0 {
		ref := refs[s.random.IntN(len(refs))]
		change(ref, s.objects[ref])
	}
}

func cmpRef(a, b plan.Ref) int {
	if a.String() < b.String() {
		return -1
	}
	return 1
}

// report sets the status of an object, as its own controller does.
func (s *simulation) report(ref plan.Ref, one stored, reason string) {
	object := one.object.DeepCopyObject().(component.Object)
	setReady(object, reason)
	if isReady(object) {
		one.uses = namesIn(object, api.AnnotationDependsOn)
	}
	s.store(ref, stored{object, one.content, one.uses})
}

func (s *simulation) store(ref plan.Ref, one stored) {
	s.version++
	one.object.SetResourceVersion(strconv.Itoa(s.version))
	s.objects[ref] = one
}

// forget deletes an object: what is created under its name later is another one.
func (s *simulation) forget(ref plan.Ref) {
	delete(s.objects, ref)
	name := componentOf(s.stack.Name, ref.Name)
	for other, one := range s.objects {
		one.uses = slices.DeleteFunc(slices.Clone(one.uses), func(used string) bool { return used == name })
		s.objects[other] = one
	}
}

// reconcile is one pass of the manager, from its cache. It may be killed after any write.
func (s *simulation) reconcile() {
	stack := s.cachedStack
	found := plan.Children{}
	for ref, one := range s.cached {
		found[ref] = plan.Found{Object: one.object, Ownership: plan.Ours}
	}
	decided := Decide(stack, Observed{Children: found, Kinds: kinds})
	isLatest := stack.Generation == s.stack.Generation && (stack.DeletionTimestamp != nil || s.stack.DeletionTimestamp == nil)
	if decided.Deletes(stack) && !isLatest {
		return // the controller reads the latest spec before it deletes
	}
	wanted := Desired(stack, decided)
	written := map[plan.Ref]bool{}
	kept := map[plan.Ref]bool{}
	for _, ref := range wanted.Keep {
		kept[ref] = true
	}
	for _, child := range wanted.Children {
		object := child.Object
		ref := refOf(object)
		kept[ref] = true
		if slices.ContainsFunc(child.After, func(other plan.Ref) bool { return written[other] }) {
			continue
		}
		if !s.isCalm && s.random.IntN(100) == 0 {
			return // the manager is killed, or the write fails
		}
		if s.apply(ref, object) {
			written[ref] = true
		}
	}
	for ref, one := range s.cached {
		if !kept[ref] && one.object.GetDeletionTimestamp() == nil {
			s.remove(ref, one)
		}
	}
}

func refOf(object component.Object) plan.Ref {
	for _, kind := range kinds {
		if fmt.Sprintf("%T", kind.New()) == fmt.Sprintf("%T", object) {
			return kind.Ref(object.GetNamespace(), object.GetName())
		}
	}
	panic("no kind")
}

// apply writes an object as server-side apply does, and reports whether it wrote.
func (s *simulation) apply(ref plan.Ref, object component.Object) bool {
	content := fmt.Sprint(SpecOf(object), object.GetAnnotations())
	cached, isCached := s.cached[ref]
	if isCached && cached.content == content {
		return false
	}
	existing, exists := s.objects[ref]
	if isCached && (!exists || existing.object.GetUID() != cached.object.GetUID()) {
		return false // the write is for another object: refused
	}
	if !isCached && exists {
		return false // found by the live read, and known to the cache the next time
	}
	object = object.DeepCopyObject().(component.Object)
	uses := namesIn(object, api.AnnotationDependsOn)
	if !exists {
		s.version++
		object.SetUID(types.UID(strconv.Itoa(s.version)))
		object.SetGeneration(1)
		s.checkCreated(ref)
	} else {
		object.SetUID(existing.object.GetUID())
		object.SetGeneration(existing.object.GetGeneration())
		if fmt.Sprint(SpecOf(existing.object)) != fmt.Sprint(SpecOf(object)) {
			object.SetGeneration(object.GetGeneration() + 1)
		}
		object.(interface{ SetConditions([]metav1.Condition) }).SetConditions(component.ConditionsOf(existing.object))
		if !isReady(object) { // its pods are those of before, or partly
			uses = append(uses, slices.DeleteFunc(slices.Clone(existing.uses), func(name string) bool { return !s.isCached(name) })...)
		}
	}
	s.store(ref, stored{object, content, uses})
	s.notef("%s is written", ref)
	return true
}

// isCached reports whether the manager knows an object of a component.
func (s *simulation) isCached(name string) bool {
	for ref := range s.cached {
		if componentOf(s.stack.Name, ref.Name) == name {
			return true
		}
	}
	return false
}

// checkCreated checks that what an object depends on is ready as far as the cache tells, and that
// nothing is created for a stack that is known to be on its way out: what is deleted by hand in the
// middle of the ordered deletion stays so.
func (s *simulation) checkCreated(ref plan.Ref) {
	if s.cachedStack.DeletionTimestamp != nil {
		s.t.Errorf("%s is created while the stack is deleted", ref)
	}
	for _, c := range s.cachedStack.Spec.Components {
		if ObjectName(s.stack.Name, c.Name) != ref.Name {
			continue
		}
		for _, name := range c.DependsOn {
			isThere := false
			for other, one := range s.cached {
				isThere = isThere || componentOf(s.stack.Name, other.Name) == name && isReady(one.object)
			}
			if !isThere {
				s.t.Errorf("%s is created before %s is ready", ref.Name, name)
			}
		}
	}
}

// remove deletes an object with the preconditions of its cached state.
func (s *simulation) remove(ref plan.Ref, cached stored) {
	existing, exists := s.objects[ref]
	if !exists || existing.object.GetResourceVersion() != cached.object.GetResourceVersion() {
		return
	}
	if s.stack.DeletionTimestamp == nil {
		for _, c := range s.stack.Spec.Components {
			kind, _ := KindOf(&c, kinds)
			if kind.Ref(s.stack.Namespace, ObjectName(s.stack.Name, c.Name)) == ref {
				s.t.Errorf("%s is deleted, and the spec has it", ref)
			}
		}
	}
	for other := range s.objects {
		if s.isBefore(ref, other) {
			s.t.Errorf("%s is deleted before %s, which depends on it", ref.Name, other.Name)
		}
	}
	s.forget(ref)
	s.notef("%s is deleted", ref)
}

// isBefore reports whether an object is deleted too early, because another one that the manager
// knew depends on it or has pods that use it, and on no successor of another type, and not in a
// circle.
func (s *simulation) isBefore(ref, other plan.Ref) bool {
	name := componentOf(s.stack.Name, ref.Name)
	for successor, one := range s.cached {
		if successor != ref && successor.Name == ref.Name && isReady(one.object) {
			return false
		}
	}
	known, live := s.cached[other], s.objects[other]
	if other == ref || known.object == nil || known.object.GetUID() != live.object.GetUID() {
		return false
	}
	depends := slices.Contains(dependencies(known.object), name) && slices.Contains(dependencies(live.object), name)
	uses := slices.Contains(known.uses, name) && slices.Contains(live.uses, name)
	return (depends || uses) && !s.isCircle(s.objects, name) && !s.isCircle(s.cached, name)
}

// isCircle reports whether the objects depend on each other in a circle through a component.
func (s *simulation) isCircle(objects map[plan.Ref]stored, name string) bool {
	seen, next := map[string]bool{}, []string{name}
	for len(next) > 0 {
		at := next[0]
		next = next[1:]
		for ref, one := range objects {
			if componentOf(s.stack.Name, ref.Name) != at {
				continue
			}
			for _, on := range dependencies(one.object) {
				if on == name {
					return true
				}
				if !seen[on] {
					seen[on] = true
					next = append(next, on)
				}
			}
		}
	}
	return false
}

// settle lets everything come to rest, and checks what is there.
func (s *simulation) settle() {
	if s.random.IntN(3) == 0 && s.stack.DeletionTimestamp == nil {
		deleteNow(s.stack)
		s.stack.Generation++
	}
	s.isCalm = true
	const rounds = 60
	for unchanged, round := 0, 0; unchanged < 3 && round < rounds; round++ {
		for ref, one := range s.objects {
			if !isReady(one.object) {
				s.report(ref, one, "")
			}
		}
		before := s.log
		if s.stack.DeletionTimestamp != nil && s.random.IntN(10) == 0 {
			s.touch(func(ref plan.Ref, _ stored) {
				s.forget(ref)
				s.notef("%s is deleted by hand", ref)
			})
		}
		s.refresh()
		s.reconcile()
		unchanged++
		if s.log != before {
			unchanged = 0
		}
	}
	want := map[plan.Ref]bool{}
	if s.stack.DeletionTimestamp == nil {
		for _, c := range s.stack.Spec.Components {
			kind, _ := KindOf(&c, kinds)
			want[kind.Ref(s.stack.Namespace, ObjectName(s.stack.Name, c.Name))] = true
		}
	}
	for ref, one := range s.objects {
		if !want[ref] {
			s.t.Errorf("%s is left, and no spec has it", ref)
		}
		if former := namesIn(one.object, api.AnnotationDependedOn); len(former) > 0 {
			s.t.Errorf("%s is ready, and keeps what it depended on: %v", ref, former)
		}
	}
	for ref := range want {
		if _, exists := s.objects[ref]; !exists {
			s.t.Errorf("%s does not exist, and the spec has it", ref)
		}
	}
}
