package setup

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"

	"github.com/mainstay-platform/mainstay/internal/kit/transport/leaseguard"
)

// electionLock is the Lease under an identity that outlasts the process. A candidate that does not hold the lease, nor
// saw its last renewal, waits for a whole lease first: also who held it until a moment ago, if it comes back under
// another name, as controller-runtime would have it. A container is started anew only after its last process has
// ended, so the pod's identity is that of one process at a time.
//
// The rights are those of managerOptions.
func electionLock(config *rest.Config, scheme *runtime.Scheme, settings Settings, guard *leaseguard.Guard) (resourcelock.Interface, error) {
	config = rest.AddUserAgent(config, "leader-election")
	core, err := corev1client.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	// One request that hangs must not cost the lease.
	config.Timeout = max(settings.RenewDeadline/2, time.Second)
	leases, err := coordinationv1client.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	namespace := settings.leaseNamespace()
	events := record.NewBroadcaster()
	events.StartRecordingToSink(&corev1client.EventSinkImpl{Interface: core.Events(namespace)})
	made, err := resourcelock.New(resourcelock.LeasesResourceLock, namespace, leaderElectionID, core, leases, resourcelock.ResourceLockConfig{
		Identity:      settings.LeaderElectionIdentity,
		EventRecorder: events.NewRecorder(scheme, corev1.EventSource{Component: settings.LeaderElectionIdentity}),
	})
	return &ownLock{Interface: made, guard: guard}, err
}

// ownLock gives back only what is its own. client-go asks who holds the lease before it gives it back, and goes by what it
// knew before: a leader that was stopped while another took over would take the lease from that one.
type ownLock struct {
	resourcelock.Interface
	guard *leaseguard.Guard
	// holder is who had the lease when it was last read. Only the election uses the lock, one call after the other.
	holder string
}

// Get reads the lease.
func (l *ownLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	l.holder = ""
	if record != nil {
		l.holder = record.HolderIdentity
	}
	return record, raw, err
}

// Update renews the lease, takes it, or, without a holder, gives it back. From then on nothing is written.
func (l *ownLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity == "" {
		l.guard.Close()
		if l.holder != l.Identity() {
			return fmt.Errorf("not given back: the lease is held by %q", l.holder)
		}
	}
	return l.Interface.Update(ctx, record)
}

// leaseNamespace is where the Lease is.
func (s Settings) leaseNamespace() string { return cmp.Or(s.LeaderElectionNamespace, s.Namespace) }
