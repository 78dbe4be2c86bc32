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

// offered returns what a component of the stack offers, by the names of the variables.
func offered(stack *platformv1.AppStack, name string, kinds component.Kinds) map[string]component.Output {
	all := map[string]component.Output{}
	for i := range stack.Spec.Components {
		c := &stack.Spec.Components[i]
		kind, known := kinds.Get(c.Type)
		if c.Name != name || !known || kind.Outputs == nil {
			continue
		}
		for _, output := range kind.Outputs(ObjectName(stack.Name, name)) {
			all[variableName(name, output.Name)] = output
		}
	}
	return all
}

// Variables returns the environment variables that a component gets from those that it depends on,
// once all of them are ready.
func Variables(stack *platformv1.AppStack, c *platformv1.Component, kinds component.Kinds) map[string]component.Output {
	all := map[string]component.Output{}
	if c.Inject != nil && !*c.Inject {
		return all
	}
	for _, name := range c.DependsOn {
		maps.Copy(all, offered(stack, name, kinds))
	}
	return all
}

// variables returns those that a component gets now: of dependencies that are ready, and those that
// its object has already. So a dependency that fails later takes nothing away, and one that is
// added to a component that runs replaces its pods when it is ready.
func variables(stack *platformv1.AppStack, c *platformv1.Component, existing component.Object,
	observed Observed) map[string]component.Output {
	all := Variables(stack, c, observed.Kinds)
	if existing == nil || len(all) == 0 {
		return all
	}
	has := map[string]bool{}
	for _, variable := range listOf(specOf(existing)["env"]) {
		name, _ := variable["name"].(string)
		has[name] = true
	}
	for _, name := range c.DependsOn {
		if _, object := dependency(stack, name, observed); isReady(object) {
			continue
		}
		for variable := range offered(stack, name, observed.Kinds) {
			if !has[variable] {
				delete(all, variable)
			}
		}
	}
	return all
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

// inject adds environment variables to a spec that has none of their names.
func inject(spec map[string]any, variables map[string]component.Output) {
	own := map[string]bool{}
	for _, variable := range listOf(spec["env"]) {
		name, _ := variable["name"].(string)
		own[name] = true
	}
	list, _ := spec["env"].([]any)
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		output, variable := variables[name], map[string]any{"name": name}
		switch {
		case own[name]:
			continue
		case output.Secret != "":
			variable["valueFrom"] = map[string]any{"secretKeyRef": map[string]any{"name": output.Secret, "key": output.Key}}
		default:
			variable["value"] = output.Value
		}
		list = append(list, variable)
	}
	if len(list) > 0 {
		spec["env"] = list
	}
}
