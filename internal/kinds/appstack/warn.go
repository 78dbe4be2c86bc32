package appstack

import (
	"fmt"
	"slices"

	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/component"
)

// WarnOfData returns a warning for each component with data that a change removes or renames.
func WarnOfData(stack, before *platformv1.AppStack, kinds component.Kinds) []string {
	var warnings []string
	for _, former := range before.Spec.Components {
		kind, known := KindOf(&former, kinds)
		stays := slices.ContainsFunc(stack.Spec.Components, func(c platformv1.Component) bool {
			return c.Name == former.Name && c.Type == former.Type
		})
		if !known || !kind.KeepsData || stays {
			continue
		}
		warnings = append(warnings, fmt.Sprintf("component %s is removed, and a component of another name starts without its data: "+
			"%s %s is deleted, and its volumes stay or go as its spec.deletionPolicy says", former.Name, kind.Kind.Kind,
			ObjectName(stack.Name, former.Name)))
	}
	return warnings
}
