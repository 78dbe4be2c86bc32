package appstack

import (
	"maps"
	"slices"
	"strings"

	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/component"
)

// variableName returns the name of the environment variable with a component's output: DB_URI. It
// has no digit at its start, which Kubernetes accepts since 1.34 only.
func variableName(component, output string) string {
	name := strings.ToUpper(strings.ReplaceAll(component, "-", "_")) + "_" + output
	if name[0] >= '0' && name[0] <= '9' {
		return "_" + name
	}
	return name
}

// offered returns what a component of the stack offers, by the names of the variables. A value that
// its object does not have is Unknown.
func offered(stack *platformv1.AppStack, name string, observed Observed) map[string]offer {
	all := map[string]offer{}
	for i := range stack.Spec.Components {
		c := &stack.Spec.Components[i]
		if c.Name != name {
			continue
		}
		kind, known := KindOf(c, observed.Kinds)
		if !known {
			continue
		}
		ref := kind.Ref(stack.Namespace, ObjectName(stack.Name, name))
		for _, one := range c.Outputs {
			all[variableName(name, one.Name)] = offerOf(one, observed.existing(ref))
		}
	}
	return all
}

// offer is an output of a component.
type offer struct {
	component.Output
	// isUnknown reports that its object does not have the value.
	isUnknown bool
}

// offerOf returns what an output that users have declared offers, from the object that has it.
func offerOf(one platformv1.Output, object component.Object) offer {
	if one.SecretKeyRef != nil {
		return offer{Output: component.Output{Name: one.Name, Secret: one.SecretKeyRef.Name, Key: one.SecretKeyRef.Key}}
	}
	value, has := "", false
	if object != nil {
		value, has = valueOf(object, one.Path)
	}
	return offer{Output: component.Output{Name: one.Name, Value: value}, isUnknown: !has}
}

// Whole returns the additions to a component's object once all that it depends on is ready, as far
// as they are known before.
func Whole(stack *platformv1.AppStack, c *platformv1.Component, kinds component.Kinds) Additions {
	with := additions(stack, c, nil, observedNothing(kinds))
	with.IsExposed = true
	return with
}

// additions returns the variables and bindings that a component gets now. Bindings are there from
// the beginning: what they are added to waits for them by itself.
func additions(stack *platformv1.AppStack, c *platformv1.Component, existing component.Object, observed Observed) Additions {
	return Additions{Variables: variables(stack, c, existing, observed), Bindings: injected(stack, c, observed.Kinds)}
}

// observedNothing returns what is observed where nothing exists.
func observedNothing(kinds component.Kinds) Observed { return Observed{Kinds: kinds} }

// variables returns the items of env that a component gets now: of dependencies that are ready, and
// those that its object has already, as they are. So a dependency that fails later takes nothing
// away, and one that is added to a component that runs replaces its pods when it is ready.
func variables(stack *platformv1.AppStack, c *platformv1.Component, existing component.Object,
	observed Observed) map[string]map[string]any {
	all := map[string]map[string]any{}
	if c.Inject != nil && !*c.Inject {
		return all
	}
	has := variablesIn(existing)
	for _, name := range c.DependsOn {
		_, object := dependency(stack, name, observed)
		for variable, one := range offered(stack, name, observed) {
			former, exists := has[variable]
			switch {
			case existing != nil && !isReady(object) && !exists:
			case !one.isUnknown && (isReady(object) || one.Secret != ""):
				all[variable] = itemOf(variable, one.Output)
			case exists:
				all[variable] = former
			}
		}
	}
	return all
}

// variablesIn returns the items of env that an object has, by their names.
func variablesIn(object component.Object) map[string]map[string]any {
	items := map[string]map[string]any{}
	if object == nil {
		return items
	}
	for _, variable := range listOf(SpecOf(object)["env"]) {
		name, _ := variable["name"].(string)
		items[name] = variable
	}
	return items
}

// itemOf returns the item of env with an output, as the variable of a name.
func itemOf(name string, output component.Output) map[string]any {
	if output.Secret == "" {
		return map[string]any{"name": name, "value": output.Value}
	}
	key := map[string]any{"name": output.Secret, "key": output.Key}
	return map[string]any{"name": name, "valueFrom": map[string]any{"secretKeyRef": key}}
}

// listOf returns the objects of a list.
func listOf(value any) []map[string]any {
	items, _ := value.([]any)
	var objects []map[string]any
	for _, item := range items {
		if object, isObject := item.(map[string]any); isObject {
			objects = append(objects, object)
		}
	}
	return objects
}

// inject adds items to env of a spec that has none of their names: before its own, for Kubernetes
// expands $(QUEUE_HOST) only in what comes after QUEUE_HOST.
func inject(spec map[string]any, with Additions) {
	own := map[string]bool{}
	for _, variable := range listOf(spec["env"]) {
		name, _ := variable["name"].(string)
		own[name] = true
	}
	var added []any
	for _, name := range slices.Sorted(maps.Keys(with.Variables)) {
		if !own[name] {
			added = append(added, with.Variables[name])
		}
	}
	if len(added) == 0 {
		return
	}
	list, _ := spec["env"].([]any)
	if with.OwnFirst {
		spec["env"] = slices.Concat(list, added)
	} else {
		spec["env"] = slices.Concat(added, list)
	}
}
