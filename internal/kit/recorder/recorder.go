// Package recorder records events that API servers accept.
package recorder

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
)

// Bounded returns a recorder whose notes are at most as long as the message of a condition. API
// servers refuse events with a note of more than 1,024 bytes, and client-go then drops them.
func Bounded(recorder events.EventRecorder) events.EventRecorder { return bounded{recorder} }

type bounded struct{ events.EventRecorder }

// Eventf records an event with a note that is cut.
//
//nolint:revive // the interface has so many arguments
func (b bounded) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	b.EventRecorder.Eventf(regarding, related, kind, reason, action, "%s", conditions.Truncate(fmt.Sprintf(note, args...)))
}
