package setup

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"

	"github.com/mainstay-platform/mainstay/internal/kit/transport/leaseguard"
)

// electionLock returns the Lease, with an identity that outlasts the process. A candidate that does
// not hold the Lease, and has not seen its last renewal, waits for a whole lease duration. With
// controller-runtime's random identity this includes the former leader after a restart. A container
// restarts only after its last process has ended, so the pod's name identifies one process at a
// time.
//
// The rights are those of managerOptions.
func electionLock(config *rest.Config, scheme *runtime.Scheme, settings Settings, guard *leaseguard.Guard) (resourcelock.Interface, error) {
	config = rest.AddUserAgent(config, "leader-election")
	core, err := typedcorev1.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	// One hanging request must not cost the Lease.
	config.Timeout = max(settings.RenewDeadline/2, time.Second)
	leases, err := coordinationv1client.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	namespace := settings.leaseNamespace()
	events := record.NewBroadcaster()
	events.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: core.Events(namespace)})
	made, err := resourcelock.New(resourcelock.LeasesResourceLock, namespace, leaderElectionID, core, leases, resourcelock.ResourceLockConfig{
		Identity:      settings.LeaderElectionIdentity,
		EventRecorder: events.NewRecorder(scheme, corev1.EventSource{Component: settings.LeaderElectionIdentity}),
	})
	return &ownLock{Interface: made, guard: guard}, err
}

// ownLock releases the Lease only if it holds it. client-go reads the holder before it releases the
// Lease, but decides by what it knew before. A leader that was stopped while another took over
// would release the other's Lease.
type ownLock struct {
	resourcelock.Interface
	guard *leaseguard.Guard
	// holder is the Lease's holder when it was last read. Only the election uses the lock, and never
	// concurrently.
	holder string
}

// Get reads the Lease.
func (l *ownLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	l.holder = ""
	if record != nil {
		l.holder = record.HolderIdentity
	}
	return record, raw, err
}

// Update renews or acquires the Lease, or releases it if the record has no holder. After a release
// nothing is written.
func (l *ownLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity == "" {
		l.guard.Close()
		if l.holder != l.Identity() {
			return fmt.Errorf("not released: the Lease is held by %q", l.holder)
		}
	}
	return l.Interface.Update(ctx, record)
}

// leaseNamespace returns the namespace of the Lease.
func (s Settings) leaseNamespace() string { return cmp.Or(s.LeaderElectionNamespace, s.Namespace) }
