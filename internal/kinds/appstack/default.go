package appstack

import (
	"cmp"

	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
)

// Default fills in omitted fields. It changes stack in place, in memory only, and is idempotent.
func Default(stack *platformv1.AppStack) {
	stack.Spec.Updates = cmp.Or(stack.Spec.Updates, platformv1.UpdatesIndependent)
	for i := range stack.Spec.Components {
		if c := &stack.Spec.Components[i]; c.Inject == nil {
			c.Inject = new(true)
		}
	}
}
