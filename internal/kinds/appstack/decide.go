package appstack

import (
	"cmp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-platform/mainstay/api"
	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/bounded"
	"github.com/mainstay-platform/mainstay/internal/kit/component"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// Action is what is done about a component.
type Action string

// Actions.
const (
	// Apply: the object is created, or made what it should be.
	Apply Action = "Apply"
	// Wait: the object is not created, changed or deleted yet, because of other components.
	Wait Action = "Wait"
	// Delete: the object is deleted.
	Delete Action = "Delete"
	// Leave: the object is left alone: it is being deleted already, or stays without the stack.
	Leave Action = "Leave"
)

// Step is what is done about one component.
type Step struct {
	// Name of the component. It is no longer in the spec if IsLeft.
	Name string
	Ref  plan.Ref
	// Object is what the component should be; nil if it should not exist, or can't be read.
	Object component.Object
	// Existing is what it is; nil if the stack has none.
	Existing component.Object
	// Action is what is done now.
	Action Action
	// WaitsFor are the components that the step waits for.
	WaitsFor []string
	// HiddenBy are the components that must be ready before clients are let in to this one, which is
	// ready itself; nil if they are, or if its kind lets none in.
	HiddenBy []string
	// After are the objects that must be as they should be first: those of the components that it
	// depends on.
	After []plan.Ref
	// Former are the components that the object depended on before, and may still use. Its annotation
	// keeps them.
	Former []string
	// HasData reports that objects of the component's kind have data, or may have some. What others
	// have set on such an object is never removed: databases and users may be among it, or what its
	// operator has noted on it.
	HasData bool
	// IsLeft reports that the component is no longer to exist.
	IsLeft bool
}

// desired returns the object as it is applied. Object is what the spec says; what may still be used
// is no part of that.
func (s Step) desired() component.Object {
	if len(s.Former) == 0 {
		return s.Object
	}
	object := s.Object.DeepCopyObject().(component.Object)
	setAnnotations(object, object.GetAnnotations(), map[string]string{api.AnnotationDependedOn: strings.Join(s.Former, ",")})
	return object
}

// Decision is what is done about all components.
type Decision struct {
	// Steps are those of the spec's components, each after what it depends on. In a spec with a
	// circle, which is invalid, they are in its order.
	Steps []Step
	// Left are those of objects that should no longer exist, by name.
	Left []Step
}

// Decide returns what is done now. For a component of the spec:
//
//	its object        what it depends on              updates       action
//	does not exist    is ready                        -             Apply: it is created
//	does not exist    is not                          -             Wait
//	exists            -                               Independent   Apply: it is changed
//	exists            is ready                        Ordered       Apply: it is changed
//	exists            is not                          Ordered       Wait: it stays as it is
//
// Ready means for the present generation; with Ordered also that no change of it waits. Apply sees
// to it that nothing is written after a component that was changed just now, or after one that
// waits for such a component; and with Ordered, that nothing is changed after one whose change was
// refused. An object that is no longer to exist, because the spec lost it or the stack is being
// deleted:
//
//	the stack is being deleted and orphans it            Leave
//	it is being deleted                                  Leave
//	the spec has its name with another type, and that
//	  object is not ready                                Wait
//	an existing object of the stack depends on it        Wait
//	no other does                                        Delete
//
// What an existing object depends on is what the spec says and what it was made with, and until it
// is ready for its present generation also what it was made with before, which its pods may still
// use.
func Decide(stack *platformv1.AppStack, observed Observed) Decision {
	isGoing := stack.DeletionTimestamp != nil
	var decided Decision
	named := map[plan.Ref]bool{}
	if !isGoing {
		sorted, circle := order(stack.Spec.Components)
		if len(circle) > 0 {
			// Admission refuses it, and nothing is done: the status says what there is.
			for i := range stack.Spec.Components {
				sorted = append(sorted, i)
			}
		}
		for _, i := range sorted {
			step, known := decideComponent(stack, &stack.Spec.Components[i], observed, decided.Steps)
			if known {
				decided.Steps = append(decided.Steps, step)
				named[step.Ref] = true
			}
		}
	}
	for ref := range observed.Children {
		if object := observed.existing(ref); object != nil && !named[ref] {
			decided.Left = append(decided.Left, Step{Name: componentOf(stack.Name, ref.Name), Ref: ref, Existing: object, IsLeft: true})
		}
	}
	slices.SortFunc(decided.Left, func(a, b Step) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Ref.Kind, b.Ref.Kind))
	})
	keepFormer(stack, &decided)
	decideLeft(stack, &decided)
	return decided
}

// keepFormer sets what the objects of the spec depended on before, and may still use: the write
// that changes what an object depends on would otherwise be the last that knows of it. A name stays
// until the object is ready without it, or nothing of that name exists.
func keepFormer(stack *platformv1.AppStack, decided *Decision) {
	exists := map[string]bool{}
	for _, step := range slices.Concat(decided.Steps, decided.Left) {
		exists[step.Name] = exists[step.Name] || step.Existing != nil
	}
	for i := range decided.Steps {
		step := &decided.Steps[i]
		switch {
		case step.Existing == nil:
		case stack.Spec.Paused: // nothing is written, and so nothing differs
			step.Former = namesIn(step.Existing, api.AnnotationDependedOn)
		default:
			names := namesOf(stack, step.Name)
			former := slices.DeleteFunc(dependencies(step.Existing), func(name string) bool {
				return !exists[name] || name == step.Name || slices.Contains(names, name)
			})
			former = slices.Compact(slices.Sorted(slices.Values(former)))
			step.Former = former[:min(len(former), MaxComponents)]
		}
	}
}

// decideComponent returns the step of a component of the spec, and whether its kind is known.
// earlier are the steps of the components that it depends on, and of others.
func decideComponent(stack *platformv1.AppStack, c *platformv1.Component, observed Observed, earlier []Step) (Step, bool) {
	kind, known := KindOf(c, observed.Kinds)
	if !known {
		return Step{}, false
	}
	step := Step{Name: c.Name, Ref: kind.Ref(stack.Namespace, ObjectName(stack.Name, c.Name)), Action: Apply, HasData: kind.DataAfter != nil}
	step.Existing = observed.existing(step.Ref)
	isOrdered := stack.Spec.Updates == platformv1.UpdatesOrdered
	for _, name := range c.DependsOn {
		ref, object := dependency(stack, name, observed)
		step.After = append(step.After, ref)
		isUnchanged := isOrdered && waitsWithChange(stepOf(earlier, name))
		if isUnchanged || !isReady(object) || missingOutput(stack, name, object) != "" {
			step.WaitsFor = append(step.WaitsFor, name)
		}
	}
	// One that is about to be adopted keeps its clients, too.
	live, _ := observed.Children.Get(step.Ref)
	isExposed := isExposedAlready(live, kind)
	if !isExposed && isReady(step.Existing) {
		isExposed = len(step.WaitsFor) == 0
		if exposes(c, kind) {
			step.HiddenBy = step.WaitsFor
		}
	}
	if step.Existing != nil && !isOrdered {
		step.After, step.WaitsFor = nil, nil
	}
	if len(step.WaitsFor) > 0 {
		step.Action = Wait
	}
	with := additions(stack, c, step.Existing, observed)
	with.IsExposed = isExposed
	step.Object, _ = Object(stack, c, kind, with) // what can't be read, admission refuses
	if step.Object == nil {
		step.Action = Wait
	}
	return step, true
}

// waitsWithChange reports whether a component that exists waits, and is not what it should be.
func waitsWithChange(step *Step) bool {
	return step != nil && step.Existing != nil && step.Action == Wait && step.isChanged()
}

// isChanged reports whether the object that exists differs from what it should be. It does also
// where something else has written a value in another form.
func (s *Step) isChanged() bool {
	return s.Object != nil && changes(s.Existing, s.Object, false) != ""
}

// dependency returns the object of another component of the spec.
func dependency(stack *platformv1.AppStack, name string, observed Observed) (plan.Ref, component.Object) {
	for i := range stack.Spec.Components {
		c := &stack.Spec.Components[i]
		if c.Name != name {
			continue
		}
		if kind, known := KindOf(c, observed.Kinds); known {
			ref := kind.Ref(stack.Namespace, ObjectName(stack.Name, name))
			return ref, observed.existing(ref)
		}
	}
	return plan.Ref{}, nil
}

// exposes reports whether a component's spec has any of the fields that expose its object.
func exposes(c *platformv1.Component, kind component.Kind) bool {
	spec := map[string]any{}
	if len(kind.Exposes) == 0 || bounded.Unmarshal(raw(c), maxSpec, &spec) != nil {
		return false
	}
	return slices.ContainsFunc(kind.Exposes, func(name string) bool { return spec[name] != nil })
}

// isExposedAlready reports whether an object has any of the fields that expose it.
func isExposedAlready(object component.Object, kind component.Kind) bool {
	if object == nil || len(kind.Exposes) == 0 {
		return false
	}
	spec := SpecOf(object)
	return slices.ContainsFunc(kind.Exposes, func(name string) bool { return spec[name] != nil })
}

// decideLeft sets the actions of what is no longer to exist. Objects that depend on each other in a
// circle, as former specs may have left them, are deleted one after the other.
func decideLeft(stack *platformv1.AppStack, decided *Decision) {
	byKept, byLeft := dependentsOf(stack, *decided)
	isMoving := false
	for i := range decided.Left {
		step := &decided.Left[i]
		waitsFor := slices.Concat(byLeft[step.Name], byKept[step.Name])
		if successor := stepOf(decided.Steps, step.Name); successor != nil {
			// What stays depends on the successor.
			waitsFor = byLeft[step.Name]
			if !isReady(successor.Existing) {
				waitsFor = append(slices.Clone(waitsFor), step.Name)
			}
		}
		switch {
		case stack.DeletionTimestamp != nil && isOrphaning(stack), step.Existing.GetDeletionTimestamp() != nil:
			step.Action, isMoving = Leave, true
		case len(waitsFor) > 0:
			step.Action, step.WaitsFor = Wait, slices.Compact(slices.Sorted(slices.Values(waitsFor)))
		default:
			step.Action, isMoving = Delete, true
		}
	}
	if !isMoving {
		breakCircle(decided.Left)
	}
}

// dependentsOf returns which existing components depend on each: those of the spec, and those that
// are no longer to exist.
func dependentsOf(stack *platformv1.AppStack, decided Decision) (byKept, byLeft map[string][]string) {
	byKept, byLeft = map[string][]string{}, map[string][]string{}
	note := func(into map[string][]string, name string, on []string) {
		for _, other := range on {
			if other != name {
				into[other] = append(into[other], name)
			}
		}
	}
	for _, step := range decided.Steps {
		if step.Existing != nil {
			note(byKept, step.Name, dependencies(step.Existing))
			note(byKept, step.Name, namesOf(stack, step.Name))
		}
	}
	for _, step := range decided.Left {
		note(byLeft, step.Name, dependencies(step.Existing))
	}
	return byKept, byLeft
}

// stepOf returns the step of a component; nil if there is none.
func stepOf(steps []Step, name string) *Step {
	at := slices.IndexFunc(steps, func(step Step) bool { return step.Name == name })
	if at < 0 {
		return nil
	}
	return &steps[at]
}

// breakCircle deletes the first object, by name, of a circle in which what is left waits.
func breakCircle(left []Step) {
	index := map[string]int{}
	for i, step := range left {
		index[step.Name] = i
	}
	for start := range left {
		at, seen := start, map[int]bool{}
		for !seen[at] && waitsForLeft(left[at], index) {
			seen[at] = true
			at = index[left[at].WaitsFor[0]]
		}
		if seen[at] {
			left[at].Action, left[at].WaitsFor = Delete, nil
			return
		}
	}
}

// waitsForLeft reports whether all that a step waits for is no longer to exist either, and not its
// own successor.
func waitsForLeft(step Step, index map[string]int) bool {
	return len(step.WaitsFor) > 0 && !slices.ContainsFunc(step.WaitsFor, func(name string) bool {
		_, isLeft := index[name]
		return !isLeft || name == step.Name
	})
}

// namesOf returns what a component of the spec depends on.
func namesOf(stack *platformv1.AppStack, name string) []string {
	for i := range stack.Spec.Components {
		if stack.Spec.Components[i].Name == name {
			return stack.Spec.Components[i].DependsOn
		}
	}
	return nil
}

// Desired returns the plan of a decision.
func Desired(stack *platformv1.AppStack, decided Decision) plan.Plan {
	wanted := plan.Plan{Independent: true, Foreground: true, Withhold: stack.Spec.Paused && stack.DeletionTimestamp == nil}
	for _, step := range decided.Steps {
		switch step.Action {
		case Apply:
			wanted.Children = append(wanted.Children, plan.Child{Object: step.desired(), After: step.After, KeepOthers: step.HasData})
		case Wait, Leave, Delete:
			wanted.Keep = append(wanted.Keep, step.Ref)
		}
	}
	for _, step := range decided.Left {
		if step.Action != Delete {
			wanted.Keep = append(wanted.Keep, step.Ref)
		}
	}
	return wanted
}

// Deletes reports whether objects are deleted although the stack stays: for which its spec has to
// be the latest.
func (d Decision) Deletes(stack *platformv1.AppStack) bool {
	return stack.DeletionTimestamp == nil && !stack.Spec.Paused &&
		slices.ContainsFunc(d.Left, func(step Step) bool { return step.Action == Delete })
}

// Released reports whether a stack that is being deleted has nothing left.
func Released(decided Decision) bool { return len(decided.Left) == 0 }

// holders returns the finalizers that keep an object that is being deleted.
func holders(object metav1.Object) []string {
	return slices.Sorted(slices.Values(object.GetFinalizers()))
}
