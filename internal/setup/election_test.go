package setup

import (
	"context"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/mainstay-platform/mainstay/internal/kit/transport/leaseguard"
)

// shared is a Lease in memory.
type shared struct {
	resourcelock.Interface
	record resourcelock.LeaderElectionRecord
	writes int
}

func (*shared) Identity() string { return "pod-a_uid-a" }

func (s *shared) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	return &s.record, nil, nil
}

func (s *shared) Update(_ context.Context, record resourcelock.LeaderElectionRecord) error {
	s.record, s.writes = record, s.writes+1
	return nil
}

// TestLeaseIsReleasedByItsHolderOnly: client-go decides by what it knew before it read the Lease.
func TestLeaseIsReleasedByItsHolderOnly(t *testing.T) {
	g := gomega.NewWithT(t)
	under := &shared{record: resourcelock.LeaderElectionRecord{HolderIdentity: "pod-b_uid-b"}}
	lock := &ownLock{Interface: under, guard: leaseguard.New(time.Second, clocktesting.NewFakePassiveClock(time.Now()))}
	_, _, err := lock.Get(t.Context())
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(lock.Update(t.Context(), resourcelock.LeaderElectionRecord{})).To(gomega.MatchError(gomega.ContainSubstring("pod-b_uid-b")))
	g.Expect(under.writes).To(gomega.BeZero())

	g.Expect(lock.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "pod-a_uid-a"})).To(gomega.Succeed(),
		"an expired lease is taken")
	_, _, err = lock.Get(t.Context())
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(lock.Update(t.Context(), resourcelock.LeaderElectionRecord{})).To(gomega.Succeed())
	g.Expect(under.record.HolderIdentity).To(gomega.BeEmpty())
}
