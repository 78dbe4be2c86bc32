package appstackcontroller

import (
	"context"
	"fmt"
	"slices"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/component"
	"github.com/mainstay-platform/mainstay/internal/kit/optionalapi"
	"github.com/mainstay-platform/mainstay/internal/kit/watch"
	"github.com/mainstay-platform/mainstay/internal/registration"
)

// use is a kind of another project, which the cluster may lack.
type use struct {
	object client.Object
	child  optionalapi.Child[*platformv1.AppStack]
}

// external returns the kinds of other projects whose objects may be components.
func external(in registration.Input) []use {
	var uses []use
	for _, kind := range in.Objects {
		object := component.NewExternal(kind.GroupVersionKind, nil).New().(client.Object)
		uses = append(uses, use{object, optionalapi.Child[*platformv1.AppStack]{
			API: kind.API, Object: object, Owner: &platformv1.AppStack{}, IsWanted: hasExternal,
		}})
	}
	return uses
}

// hasExternal reports whether a stack has objects of other projects' kinds.
func hasExternal(stack *platformv1.AppStack) bool {
	return slices.ContainsFunc(stack.Spec.Components, func(c platformv1.Component) bool { return c.Type == component.TypeObject })
}

// start watches the objects of the kind, now or once the cluster has it.
func (u use) start(ctx context.Context, manager ctrl.Manager, running controller.Controller) error {
	begin := func(ctx context.Context) error {
		if err := watch.AddIndexes(ctx, manager.GetFieldIndexer(), indexOf(u.object)); err != nil {
			return err
		}
		return u.child.Watch(manager, running)
	}
	u.child.API.OnAppear = begin
	if err := manager.Add(u.child.API); err != nil {
		return fmt.Errorf("awaiting a kind of objects: %w", err)
	}
	if !u.child.API.Available() {
		return nil
	}
	return begin(ctx)
}
