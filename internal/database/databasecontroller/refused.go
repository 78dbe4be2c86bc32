package databasecontroller

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/internal/database"
)

// maxRefusals is how many events about a StatefulSet are read. Its controller counts repeated ones
// in one object, so that it has few.
const maxRefusals = 50

// observeRefusal returns why pods of a database are not created: a quota or a policy. It reads
// events only while there are fewer pods than there are to be. They only explain: without them
// everything else goes on.
func (r Reader) observeRefusal(ctx context.Context, observed database.State, described *database.Database) string {
	set := observed.Lacking(described)
	if set == nil {
		return ""
	}
	var events corev1.EventList
	err := r.Children.Live.List(ctx, &events, client.InNamespace(set.Namespace), client.Limit(maxRefusals), client.MatchingFields{
		"involvedObject.uid": string(set.UID), "reason": database.EventFailedCreate,
	})
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing the events of a StatefulSet", "statefulset", set.Name)
		return ""
	}
	return database.RefusalIn(events.Items, observed.RefusedSince(r.Clock.Now()))
}
