package apply

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// ErrTaken says that something has the name of a decisive child, although the cache did not
// know it. The plan has to be made again.
var ErrTaken = errors.New("an object of this name exists")

// noVersion is a resource version that no object has: etcd gives the first write the revision 2.
const noVersion = "1"

// create creates a child and records that. It fails, with an error for which isTaken is true, if
// there is an object of the child's name, of any owner. A child that another client has deleted
// again and again waits.
func (r *run) create(ctx context.Context, task task) error {
	isAgain := r.memory.hasExisted(r.owner.GetUID(), task.ref)
	if isAgain && r.isSlowed(task) {
		return nil
	}
	var err error
	if task.CreateOnce {
		// With generated content, two replicas do not apply the same.
		err = r.Client.Create(ctx, task.object, client.FieldOwner(r.manager))
	} else {
		err = r.writeNew(ctx, task.object)
	}
	if err != nil {
		return err
	}
	r.recordCreated(task, isAgain)
	if isAgain {
		r.noteContest(task, "", true)
	}
	return nil
}

// writeNew sends one server-side apply that can only create. Of an object that exists the API
// server checks the version, and noVersion is never that; for a new one it ignores the version. An
// apply without a version would change another owner's object that was created since the last
// read, and make it a child.
//
// See docs/decisions/20261125-create-by-apply.md.
func (r *run) writeNew(ctx context.Context, object *unstructured.Unstructured, options ...client.ApplyOption) error {
	object.SetResourceVersion(noVersion)
	err := r.write(ctx, r.manager, object, options...)
	if err != nil {
		object.SetResourceVersion("")
	}
	return err
}

// isTaken reports whether a child was not created because there is an object of its name. A few
// other conflicts look the same, for example that of a resource quota that changes.
func isTaken(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)
}

// resolve handles the refusal to create a child whose name seemed free: it reads what has the name.
// It returns refused if nothing has it.
func (r *run) resolve(ctx context.Context, task task, refused error) error {
	existing, err := r.look(ctx, task)
	switch {
	case err != nil:
		return err
	case existing.Ownership == plan.Absent:
		return refused
	case task.Decisive:
		return ErrTaken
	default:
		return nil
	}
}
