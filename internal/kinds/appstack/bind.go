package appstack

import (
	"bytes"
	"slices"

	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/bounded"
	"github.com/mainstay-platform/mainstay/internal/kit/component"
)

// binding is an item of spec.bindings of a component that takes bindings.
type binding struct {
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	Prefix string `json:"prefix"`
}

// bindingsIn returns the bindings in the spec of a component; none if it can't be read. It parses a
// spec only if it may have some: a spec may be large, and few have bindings.
func bindingsIn(c *platformv1.Component, kind component.Kind) []binding {
	var spec struct {
		Bindings []binding `json:"bindings"`
	}
	if !kind.TakesBindings || !bytes.Contains(c.Spec.Raw, []byte(`"bindings"`)) || bounded.Unmarshal(raw(c), maxSpec, &spec) != nil {
		return nil
	}
	return spec.Bindings
}

// WithBindings returns a copy of a stack in which each component also depends on those of the stack
// that its own spec binds it to: a binding is a dependency, whether or not dependsOn says so.
func WithBindings(stack *platformv1.AppStack, kinds component.Kinds) *platformv1.AppStack {
	expanded := stack.DeepCopy()
	keepKinds(expanded)
	expandBindings(expanded, kinds)
	return expanded
}

// expandBindings changes a stack in place, and is idempotent.
func expandBindings(stack *platformv1.AppStack, kinds component.Kinds) {
	components := stack.Spec.Components
	named := map[binding]string{}
	for i := range components {
		if kind, known := KindOf(&components[i], kinds); known {
			named[binding{Kind: kind.Kind.Kind, Name: ObjectName(stack.Name, components[i].Name)}] = components[i].Name
		}
	}
	for i := range components {
		c := &components[i]
		kind, known := KindOf(c, kinds)
		if !known {
			continue
		}
		for _, one := range bindingsIn(c, kind) {
			name, isOurs := named[binding{Kind: one.Kind, Name: one.Name}]
			if isOurs && name != c.Name && !slices.Contains(c.DependsOn, name) {
				c.DependsOn = append(c.DependsOn, name)
			}
		}
	}
}

// injected returns the bindings that a component gets because it depends on others: one for each
// whose kind can be bound to, and to which its spec does not bind it already. The first of a kind
// in dependsOn has no prefix, unless a binding of the spec has none; each other one has the name
// of its component as its prefix. So one that is added at the end renames no variable.
func injected(stack *platformv1.AppStack, c *platformv1.Component, kinds component.Kinds) []binding {
	kind, known := KindOf(c, kinds)
	if !known || !kind.TakesBindings || c.Inject != nil && !*c.Inject {
		return nil
	}
	var found []binding
	own, isPlain := bindingsIn(c, kind), map[string]bool{}
	for _, one := range own {
		isPlain[one.Kind] = isPlain[one.Kind] || one.Prefix == ""
	}
	for _, name := range c.DependsOn {
		on, known := kindOfNamed(stack, name, kinds)
		one := binding{Kind: on.Kind.Kind, Name: ObjectName(stack.Name, name)}
		isOwn := slices.ContainsFunc(own, func(other binding) bool { return other.Kind == one.Kind && other.Name == one.Name })
		if !known || on.Binding == nil || isOwn {
			continue
		}
		if isPlain[one.Kind] {
			one.Prefix = variableName(name, "")
		}
		isPlain[one.Kind] = true
		found = append(found, one)
	}
	return found
}

// kindOfNamed returns the kind of another component of the stack.
func kindOfNamed(stack *platformv1.AppStack, name string, kinds component.Kinds) (component.Kind, bool) {
	at := slices.IndexFunc(stack.Spec.Components, func(c platformv1.Component) bool { return c.Name == name })
	if at < 0 {
		return component.Kind{}, false
	}
	return KindOf(&stack.Spec.Components[at], kinds)
}

// bind adds bindings to a spec.
func bind(spec map[string]any, bindings []binding) {
	if len(bindings) == 0 {
		return
	}
	list, _ := spec["bindings"].([]any)
	for _, one := range bindings {
		item := map[string]any{"kind": one.Kind, "name": one.Name}
		if one.Prefix != "" {
			item["prefix"] = one.Prefix
		}
		list = append(list, item)
	}
	spec["bindings"] = list
}

// boundVariables returns the names of the environment variables that a component gets from its own
// bindings and those that are injected, and the component or object that each is from.
func boundVariables(stack *platformv1.AppStack, c *platformv1.Component, kinds component.Kinds) map[string]string {
	from := map[string]string{}
	kind, known := KindOf(c, kinds)
	if !known {
		return from
	}
	for _, one := range slices.Concat(bindingsIn(c, kind), injected(stack, c, kinds)) {
		at := slices.IndexFunc(kinds, func(other component.Kind) bool { return other.Binding != nil && other.Kind.Kind == one.Kind })
		if at < 0 {
			continue
		}
		for _, name := range kinds[at].Binding.Names(one.Prefix) {
			from[name] = componentOf(stack.Name, one.Name)
		}
	}
	return from
}
