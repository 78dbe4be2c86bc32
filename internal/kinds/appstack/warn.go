package appstack

import (
	"fmt"
	"slices"

	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/component"
)

// WarnOfData returns a warning for each component with data that a change removes or renames: where
// the data are afterwards, as far as the former spec says. The object itself may differ from that,
// so the kind gets one without UID and status, of which nothing is certain.
func WarnOfData(stack, before *platformv1.AppStack, kinds component.Kinds) []string {
	var warnings []string
	for i := range before.Spec.Components {
		former := &before.Spec.Components[i]
		stays := slices.ContainsFunc(stack.Spec.Components, func(c platformv1.Component) bool {
			return c.Name == former.Name && c.Type == former.Type
		})
		kind, known := KindOf(former, kinds)
		if stays || !known || kind.DataAfter == nil {
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

// dataAfter says where the data of an existing object are once it is deleted; "" for one that has
// none.
func (o Observed) dataAfter(step Step) string {
	kind, known := o.Kinds.Of(step.Ref)
	if !known || kind.DataAfter == nil || step.Existing == nil {
		return ""
	}
	return kind.DataAfter(step.Existing)
}
