package appstack

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/component"
	"github.com/mainstay-platform/mainstay/internal/kit/naming"
)

// MaxComponents is how many components a stack may have.
const MaxComponents = 100

// Validate returns what is wrong with the spec of a defaulted AppStack, given the kinds that are
// on. An empty list means valid.
func Validate(stack *platformv1.AppStack, kinds component.Kinds) field.ErrorList {
	if count := len(stack.Spec.Components); count > MaxComponents {
		return field.ErrorList{field.TooMany(field.NewPath("spec", "components"), count, MaxComponents)}
	}
	stack = WithBindings(stack, kinds)
	spec, at := &stack.Spec, field.NewPath("spec")
	problems := checkNames(stack)
	for i := range spec.Components {
		problems = append(problems, checkComponent(stack, &spec.Components[i], kinds, ComponentField(i))...)
	}
	if len(problems) == 0 {
		problems = checkOrder(spec.Components)
	}
	switch spec.Updates {
	case platformv1.UpdatesIndependent, platformv1.UpdatesOrdered:
	default:
		problems = append(problems, field.NotSupported(at.Child("updates"), spec.Updates,
			[]platformv1.Updates{platformv1.UpdatesIndependent, platformv1.UpdatesOrdered}))
	}
	problems = append(problems, naming.CheckInstanceLabels(spec.Labels, at.Child("labels"))...)
	return append(problems, naming.CheckAnnotations(spec.Annotations, at.Child("annotations"))...)
}

// checkNames checks that there are components, and that each has a name of its own.
func checkNames(stack *platformv1.AppStack) field.ErrorList {
	at := field.NewPath("spec", "components")
	if len(stack.Spec.Components) == 0 {
		return field.ErrorList{field.Required(at, "must have at least one component")}
	}
	var problems field.ErrorList
	seen := map[string]bool{}
	for i, c := range stack.Spec.Components {
		if seen[c.Name] {
			problems = append(problems, field.Duplicate(at.Index(i).Child("name"), c.Name))
		}
		seen[c.Name] = true
	}
	return problems
}

// checkComponent checks one component by itself, and that what it depends on exists.
func checkComponent(stack *platformv1.AppStack, c *platformv1.Component, kinds component.Kinds, at *field.Path) field.ErrorList {
	if count := len(c.DependsOn); count > MaxComponents {
		return field.ErrorList{field.TooMany(at.Child("dependsOn"), count, MaxComponents)}
	}
	problems := append(checkDependencies(stack, c, at.Child("dependsOn")), checkOutputs(c, at.Child("outputs"))...)
	problems = append(problems, checkVariables(stack, c, kinds, at.Child("dependsOn"))...)
	kind, known := kinds.Get(c.Type)
	if !known {
		return append(problems, field.NotSupported(at.Child("type"), c.Type, kinds.Types()))
	}
	if c.Type == component.TypeObject {
		_, more := readExternal(c, kinds, at)
		problems = append(problems, more...)
		kind, known = KindOf(c, kinds)
		if len(more) > 0 || !known {
			return problems
		}
		return append(problems, checkName(stack, c, kind, at)...)
	}
	problems = append(problems, checkName(stack, c, kind, at)...)
	object, unread := read(c, kind, at)
	if len(unread) > 0 {
		return append(problems, unread...)
	}
	object.SetNamespace(stack.Namespace)
	object.SetName(ObjectName(stack.Name, c.Name))
	return append(problems, Within(kind.Check(object), at)...)
}

// checkName checks the name that a component's object has.
func checkName(stack *platformv1.AppStack, c *platformv1.Component, kind component.Kind, at *field.Path) field.ErrorList {
	var problems field.ErrorList
	name := ObjectName(stack.Name, c.Name)
	if messages := validation.IsDNS1123Subdomain(name); len(messages) > 0 {
		problems = append(problems, field.Invalid(at.Child("name"), c.Name, messages[0]))
	}
	if kind.MaxName > 0 && len(name) > kind.MaxName {
		problems = append(problems, field.Invalid(at.Child("name"), c.Name, fmt.Sprintf(
			"the %s would be named %s: must be at most %d characters: shorten this name to %d characters, or shorten the name of the AppStack",
			kind.Kind.Kind, name, kind.MaxName, max(kind.MaxName-len(stack.Name)-1, 0))))
	}
	return problems
}

// checkDependencies checks that what a component depends on are other components of the stack.
func checkDependencies(stack *platformv1.AppStack, c *platformv1.Component, at *field.Path) field.ErrorList {
	var problems field.ErrorList
	for i, name := range c.DependsOn {
		switch {
		case name == c.Name:
			problems = append(problems, field.Invalid(at.Index(i), name, "must not be the component itself"))
		case slices.Contains(c.DependsOn[:i], name):
			problems = append(problems, field.Duplicate(at.Index(i), name))
		case !slices.ContainsFunc(stack.Spec.Components, func(other platformv1.Component) bool { return other.Name == name }):
			problems = append(problems, field.NotFound(at.Index(i), name))
		}
	}
	return problems
}

// checkOrder refuses components that wait for each other in a circle, and names the way round.
func checkOrder(components []platformv1.Component) field.ErrorList {
	_, circle := order(components)
	if len(circle) == 0 {
		return nil
	}
	first := slices.IndexFunc(components, func(c platformv1.Component) bool { return c.Name == circle[0] })
	way := strings.Join(append(slices.Clone(circle), circle[0]), " -> ")
	return field.ErrorList{field.Invalid(ComponentField(first).Child("dependsOn"), field.OmitValueType{},
		"must not depend on itself through others: "+way)}
}

// order returns the indexes of components such that each comes after all that it depends on, and
// otherwise in the order of the spec. If that can't be, it returns the names of a circle, each of
// which depends on the next, and the last on the first.
func order(components []platformv1.Component) (sorted []int, circle []string) {
	index := map[string]int{}
	for i, c := range components {
		index[c.Name] = i
	}
	const (
		isNew = iota
		isUnderWay
		isDone
	)
	state := make([]int, len(components))
	var path []int
	var visit func(i int) bool
	visit = func(i int) bool {
		switch state[i] {
		case isDone:
			return true
		case isUnderWay:
			for _, at := range path[slices.Index(path, i):] {
				circle = append(circle, components[at].Name)
			}
			return false
		}
		state[i], path = isUnderWay, append(path, i)
		for _, name := range components[i].DependsOn {
			if at, known := index[name]; known && !visit(at) {
				return false
			}
		}
		state[i], path = isDone, path[:len(path)-1]
		sorted = append(sorted, i)
		return true
	}
	for i := range components {
		if !visit(i) {
			return nil, circle
		}
	}
	return sorted, nil
}
