package appstack

import (
	"fmt"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/component"
)

// CheckType refuses another type for a component of the spec, by its index, if objects of its
// former type and of the new one may own something of the same name. The former object stays until
// the new one is ready, and the new one could not get ready before the former one is gone. It
// returns nil if nothing is wrong.
func CheckType(stack, before *platformv1.AppStack, index int, kinds component.Kinds) *field.Error {
	c := &stack.Spec.Components[index]
	at := slices.IndexFunc(before.Spec.Components, func(former platformv1.Component) bool { return former.Name == c.Name })
	if at < 0 || before.Spec.Components[at].Type == c.Type {
		return nil
	}
	former := &before.Spec.Components[at]
	owned := childrenOf(before, former, kinds)
	for _, one := range childrenOf(stack, c, kinds) {
		if slices.Contains(owned, one) {
			return field.Invalid(ComponentField(index).Child("type"), c.Type, fmt.Sprintf(
				"must stay %s: objects of both types have a %s %s, and the former object stays until the new one is ready: "+
					"give the new component another name", former.Type, one.kind, one.name))
		}
	}
	return nil
}

// child identifies something that a component's object may own.
type child struct{ kind, name string }

// childrenOf returns everything that a component's object may own; nothing if that is not known.
func childrenOf(stack *platformv1.AppStack, c *platformv1.Component, kinds component.Kinds) []child {
	kind, known := KindOf(c, kinds)
	if !known || kind.Children == nil {
		return nil
	}
	object, err := Object(stack, c, kind, Additions{})
	if err != nil {
		return nil // it can't be read, and so has no object
	}
	var all []child
	for _, one := range kind.Children(object) {
		all = append(all, child{reflect.TypeOf(one).Elem().Name(), one.GetName()})
	}
	return all
}
