package appstack

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/bounded"
	"github.com/mainstay-platform/mainstay/internal/kit/component"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
)

// WarnOfData returns a warning for each component with data that a change removes or renames, or
// gives another kind: where the data are afterwards, as far as the former spec says. The object
// itself may differ from that, so the kind gets one without UID and status, of which nothing is
// certain.
func WarnOfData(stack, before *platformv1.AppStack, kinds component.Kinds) []string {
	var warnings []string
	for i := range before.Spec.Components {
		former := &before.Spec.Components[i]
		kind, known := KindOf(former, kinds)
		if !known || kind.DataAfter == nil || stays(stack, former, kind, kinds) {
			continue
		}
		object, err := Object(before, former, kind, Additions{})
		if err != nil {
			continue // it can't be read, and so has no object
		}
		if data := kind.DataAfter(object); data != "" {
			warnings = append(warnings, fmt.Sprintf("component %s is removed: %s %s is deleted, and a component of another name starts "+
				"without its data: %s", former.Name, kind.Kind.Kind, object.GetName(), data))
		}
	}
	return warnings
}

// stays reports whether a stack still has the object of a former component, which is of a kind:
// components of the type object may have the same name and objects of different kinds.
func stays(stack *platformv1.AppStack, former *platformv1.Component, kind component.Kind, kinds component.Kinds) bool {
	at := slices.IndexFunc(stack.Spec.Components, func(c platformv1.Component) bool {
		return c.Name == former.Name && c.Type == former.Type
	})
	if at < 0 {
		return false
	}
	now, known := KindOf(&stack.Spec.Components[at], kinds)
	return known && now.Kind.GroupKind() == kind.Kind.GroupKind()
}

// maxOverridden limits how many variables a warning names.
const maxOverridden = 3

// WarnOfVariables returns a warning for each component whose envFrom may have variables that an
// injected binding overrides. Which ones it has is not known. before is the stack as it is stored,
// nil if there is none: what has been said of it is not said again.
func WarnOfVariables(stack, before *platformv1.AppStack, kinds component.Kinds) []string {
	var warnings []string
	for i := range stack.Spec.Components {
		c := &stack.Spec.Components[i]
		warning := warnOfVariables(stack, c, kinds)
		if warning == "" {
			continue
		}
		if before != nil {
			at := slices.IndexFunc(before.Spec.Components, func(former platformv1.Component) bool { return former.Name == c.Name })
			if at >= 0 && warnOfVariables(before, &before.Spec.Components[at], kinds) == warning {
				continue
			}
		}
		warnings = append(warnings, fmt.Sprintf("component %s: %s", c.Name, warning))
	}
	return warnings
}

// warnOfVariables returns the warning about one component; "" if there is none.
func warnOfVariables(stack *platformv1.AppStack, c *platformv1.Component, kinds component.Kinds) string {
	prefixes := importedPrefixes(c)
	if len(prefixes) == 0 {
		return ""
	}
	var names, from []string
	for _, one := range injected(stack, c, kinds) {
		at := slices.IndexFunc(kinds, func(other component.Kind) bool { return other.Binding != nil && other.Kind.Kind == one.Kind })
		if at < 0 {
			continue
		}
		for _, name := range kinds[at].Binding.Names(one.Prefix) {
			if slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
				names, from = append(names, name), append(from, one.Kind+" "+one.Name)
			}
		}
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("spec.envFrom: the variables of %s, which are injected (%s), take precedence over those of the same names: "+
		"rename these, write them into env, or set inject to false",
		strings.Join(slices.Compact(from), " and "), conditions.First(maxOverridden, names, ", "))
}

// importedPrefixes returns the prefixes of the variables that a component imports from whole
// ConfigMaps and Secrets; none if it imports none, or its spec can't be read.
func importedPrefixes(c *platformv1.Component) []string {
	var spec struct {
		EnvFrom []struct {
			Prefix string `json:"prefix"`
		} `json:"envFrom"`
	}
	if !bytes.Contains(c.Spec.Raw, []byte(`"envFrom"`)) || bounded.Unmarshal(raw(c), maxSpec, &spec) != nil {
		return nil
	}
	var prefixes []string
	for _, one := range spec.EnvFrom {
		prefixes = append(prefixes, one.Prefix)
	}
	return prefixes
}

// dataAfter says where the data of an existing object are once it is deleted; "" for one that has
// none.
func (o Observed) dataAfter(step Step) string {
	kind, known := o.Kinds.Of(step.Ref)
	if !known || kind.DataAfter == nil || step.Existing == nil {
		return ""
	}
	return kind.DataAfter(step.Existing)
}
