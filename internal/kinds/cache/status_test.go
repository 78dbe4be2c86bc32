package cache

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// worked is a Cache of so many instances that was ready, with sessions-0 as the primary.
func worked(count int32, changes ...func(*databasev1.CacheSpec)) *databasev1.Cache {
	c := newCache(append(changes, replicas(count))...)
	c.Status = databasev1.CacheStatus{FirstReadyTime: new(metav1.NewTime(noon.Add(-time.Hour))), Primary: "sessions-0", Term: 4}
	return c
}

// hibernates stops the instances.
func hibernates(spec *databasev1.CacheSpec) { spec.Hibernated = true }

// pauses keeps Mainstay from changing anything.
func pauses(spec *databasev1.CacheSpec) { spec.Paused = true }

// asleep is a Cache whose status says that it hibernated.
func asleep(changes ...func(*databasev1.CacheSpec)) *databasev1.Cache {
	c := worked(3, changes...)
	c.Status.Primary, c.Status.FormerPrimary = "", "sessions-0"
	c.Status.Conditions = []metav1.Condition{
		{Type: databasev1.ConditionWritable, Status: metav1.ConditionFalse, Reason: databasev1.ReasonHibernated},
	}
	return c
}

// young makes all pods new.
func young(observed Observed) Observed {
	for i := range observed.Pods {
		observed.Pods[i].CreationTimestamp = metav1.NewTime(noon)
	}
	return observed
}

// without removes all pods.
func without(observed Observed) Observed {
	observed.Pods = nil
	return observed
}

// TestStatus: the first thing that is true and matters is what is said, and the phase follows.
func TestStatus(t *testing.T) {
	silent, noImage, foreign := contract.Report{State: "Waiting"}, empty(), plan.Result{Conflicts: []plan.Ref{Ref(newCache(), "StatefulSet", "sessions")}}
	noImage.Catalogue = nil
	none := running(worked(3), 3).says(0, silent).says(1, silent).says(2, silent)
	refusing := contract.Report{Role: contract.Primary, State: "Leading", Term: 4, Provided: true,
		Refuses: "1 replicas receive, and min-replicas-to-write needs 2"}
	other := silent
	other.Foreign = "has the data of Valkey 9, and needs those of Valkey 8"
	for name, test := range map[string]struct {
		c        *databasev1.Cache
		observed Observed
		result   plan.Result
		ready    string
		phase    databasev1.CachePhase
	}{
		"nothing is there": {newCache(), empty(), plan.Result{}, "Creating the cache is being created: there are no pods yet", "Pending"},
		"no user yet":      {newCache(), running(newCache(), 1).says(0, contract.Report{Role: contract.Primary, State: "Leading"}), plan.Result{}, "Creating the cache is being created: sessions-0 (Leading) does not have the user", "Creating"},
		"one":              {worked(1), running(worked(1), 1), plan.Result{}, "Available sessions-0 takes writes", "Running"},
		"three":            {worked(3), running(worked(3), 3), plan.Result{}, "Available sessions-0 takes writes, and all 3", "Running"},
		"no primary":       {worked(3), none, plan.Result{}, "FailingOver no instance takes writes: sessions-0 (Waiting)", "FailingOver"},
		"one is away":      {worked(3), running(worked(3), 3).says(2, silent), plan.Result{}, "InstanceNotReady 2 of 3", "Degraded"},
		"a replica whose node is gone": {worked(2), running(worked(2), 2).deletedFor(1, 2*time.Minute), plan.Result{},
			"InstanceNotReady 1 of 2 instances are ready; not ready: sessions-1 (Following): its pod does not end", "Degraded"},
		"writes are refused": {worked(3), running(worked(3), 3).says(0, refusing), plan.Result{}, "WritesRefused sessions-0 is the primary and accepts no writes: 1 replicas receive, and", "Degraded"},
		"another has a name": {worked(3), running(worked(3), 3), foreign, "Conflict StatefulSet shop/sessions exists and was not created by this Cache", "Degraded"},
		"no image":           {newCache(), noImage, plan.Result{}, "ImageNotConfigured spec.image: Required value: this installation has no image for Valkey 9", "Failed"},
		"foreign data":       {worked(3), running(worked(3), 3).says(1, other), plan.Result{}, "Conflict the volume data-sessions-1 has the data of Valkey 9", "Degraded"},
		"hibernates":         {worked(3, hibernates), running(worked(3), 3), plan.Result{}, "Scaling spec.hibernated is true, and 3 instances are not stopped yet", "Updating"},
		"not stopped": {
			worked(3, hibernates, pauses), running(worked(3), 3), plan.Result{},
			"PausedByUser spec.paused is true and withholds spec.hibernated, which is true", "Paused",
		},
		"hibernated": {asleep(hibernates), without(running(worked(3), 3)), plan.Result{},
			"Hibernated spec.hibernated is true: no instance runs", "Hibernated"},
		"wakes": {asleep(), young(none), plan.Result{}, "Updating the instances are being started: sessions-0", "Updating"},
		"does not wake": {asleep(), running(worked(3), 3).says(0, silent).says(1, silent).says(2, silent), plan.Result{},
			"FailingOver no instance takes writes", "FailingOver"},
		"paused": {worked(3, pauses), running(worked(3), 3), plan.Result{}, "Available", "Paused"},
	} {
		status, _ := Status(test.c, test.observed, Decide(test.c, test.observed), test.result)
		ready := condition(status, "Ready")
		if said := ready.Reason + " " + ready.Message; !strings.HasPrefix(said, test.ready) || status.Phase != test.phase {
			t.Errorf("%s: got %s %q, want %s %q", name, status.Phase, said, test.phase, test.ready)
		}
	}
}

// TestPasswordPoll: no watch shows that a missing or unusable password was corrected, so it is read
// again; one that can be used is not.
func TestPasswordPoll(t *testing.T) {
	given := func(spec *databasev1.CacheSpec) { spec.PasswordSecret = "mine" }
	for name, test := range map[string]struct {
		c        *databasev1.Cache
		observed Observed
		want     time.Duration
	}{
		"missing":        {newCache(given), empty(), passwordPoll},
		"unusable":       {newCache(given), gives(PasswordKey, "short"), passwordPoll},
		"edited to less": {newCache(), empty().hasApplication(newCache(), "short"), passwordPoll},
		"there":          {newCache(given), gives(PasswordKey, "given-password"), 0},
	} {
		if _, after := Status(test.c, test.observed, Decide(test.c, test.observed), plan.Result{}); after != test.want {
			t.Errorf("%s: it is read again after %s, want %s", name, after, test.want)
		}
	}
}

// TestReplicated: what a failover would keep.
func TestReplicated(t *testing.T) {
	for want, test := range map[string]struct {
		c        *databasev1.Cache
		observed Observed
	}{
		"True Replicating 2 replicas receive":                                  {worked(3), running(worked(3), 3)},
		"False TooFewReplicas 1 of 2 replicas receive":                         {worked(3), running(worked(3), 3).says(1, contract.Report{State: "Cloning"})},
		"False OneInstance there is only one instance, without persistence":    {worked(1), running(worked(1), 1)},
		"False OneInstance there is only one instance: if its volume is lost":  {worked(1, stores), running(worked(1), 1)},
		"False Hibernated spec.hibernated is true: no instance runs":           {asleep(hibernates), empty()},
		"True Replicating 2 replicas receive what the primary writes":          {worked(3, hibernates, pauses), running(worked(3), 3)},
		"False TooFewReplicas 0 of 2 replicas receive what the primary writes": {worked(3), empty()},
	} {
		status, _ := Status(test.c, test.observed, Decision{Replicas: test.c.Spec.Replicas}, plan.Result{})
		got := condition(status, databasev1.ConditionReplicated)
		if said := string(got.Status) + " " + got.Reason + " " + got.Message; !strings.HasPrefix(said, want) {
			t.Errorf("got %s, want %s", said, want)
		}
		if storage := condition(status, databasev1.ConditionStorageHealthy); (storage.Type != "") != (test.c.Spec.Persistence != nil) {
			t.Errorf("%s: StorageHealthy is %q", want, storage.Status)
		}
	}
}

// TestWritable: a primary that accepts no writes is said, and how many replicas it needs.
func TestWritable(t *testing.T) {
	leads := contract.Report{Role: contract.Primary, State: "Leading", Term: 4, Provided: true}
	refusing := leads
	refusing.Refuses = "0 replicas receive, and min-replicas-to-write needs 1"
	for want, report := range map[string]contract.Report{
		"True Primary sessions-0 takes writes": leads,
		"False WritesRefused sessions-0 is the primary and accepts no writes: 0 replicas receive, and m": refusing,
	} {
		c := worked(3)
		observed := running(c, 3).says(0, report)
		status, _ := Status(c, observed, Decide(c, observed), plan.Result{})
		got := condition(status, databasev1.ConditionWritable)
		if said := string(got.Status) + " " + got.Reason + " " + got.Message; !strings.HasPrefix(said, want) {
			t.Errorf("got %s, want %s", said, want)
		}
	}
}

// TestUnreplicated: the status says how much a failover may lose, and after one how much it was.
func TestUnreplicated(t *testing.T) {
	c := worked(3)
	leads := contract.Report{Role: contract.Primary, State: "Leading", Term: 4, Provided: true, Unreplicated: 1 << 20}
	observed := running(c, 3).says(0, leads)
	pass := func() {
		t.Helper()
		ready := c.Status.FirstReadyTime
		c.Status, _ = Status(c, observed, Decide(c, observed), plan.Result{})
		c.Status.FirstReadyTime = ready
	}
	pass()
	said := condition(c.Status, databasev1.ConditionReplicated).Message
	if c.Status.UnreplicatedBytes != 1<<20 || !strings.Contains(said, "at most 1Mi at") {
		t.Errorf("got %d, %s", c.Status.UnreplicatedBytes, said)
	}
	observed = observed.says(0, contract.Report{State: "Waiting"})
	if pass(); c.Status.UnreplicatedBytes != 1<<20 {
		t.Errorf("without a primary: got %d", c.Status.UnreplicatedBytes)
	}
	former := c.DeepCopy()
	leads.Term, leads.Unreplicated, leads.Cause = 5, 1<<16, string(election.Gone)
	observed = observed.says(1, leads)
	pass()
	change := c.Status.PrimaryChange
	if change == nil || change.Planned || change.UnreplicatedBytes != 1<<20 || c.Status.UnreplicatedBytes != 1<<16 {
		t.Fatalf("got %+v, %d", change, c.Status.UnreplicatedBytes)
	}
	if events := Tell(former, c); len(events) != 1 || !strings.Contains(events[0].Note, "at most 1Mi of its writes were on no replica") {
		t.Errorf("got %+v", events)
	}
}

// TestFailover: a failover is remembered and reported once; a handover on request is one for each
// time.
func TestFailover(t *testing.T) {
	c := worked(3)
	observed := running(c, 3).says(0, contract.Report{Role: contract.Replica, State: "Following", Term: 5}).
		says(1, contract.Report{Role: contract.Primary, State: "Leading", Term: 5, Cause: string(election.Gone), Gap: 2, Provided: true})
	status, _ := Status(c, observed, Decide(c, observed), plan.Result{})
	if status.Primary != "sessions-1" || status.FormerPrimary != "sessions-0" || status.Term != 5 || status.InstanceSummary != "3/3" {
		t.Errorf("got %+v", status)
	}
	after := c.DeepCopy()
	after.Status = status
	events := Tell(c, after)
	if len(events) != 1 || events[0].Reason != databasev1.ReasonFailedOver || events[0].Type != corev1.EventTypeWarning ||
		!strings.Contains(events[0].Note, "sessions-1 took over from sessions-0") {
		t.Errorf("got %+v", events)
	}
	if again := Tell(after, after); len(again) > 0 {
		t.Errorf("it is reported again: %v", again)
	}
}

// TestSwitchover: a new time lets the primary hand over, once.
func TestSwitchover(t *testing.T) {
	c := worked(3)
	c.Spec.SwitchoverAt = new(metav1.NewTime(noon))
	decided := Decide(c, running(c, 3))
	c.Status, _ = Status(c, running(c, 3), decided, plan.Result{})
	c.Status.FirstReadyTime = new(metav1.NewTime(noon))
	if c.Status.SwitchoverFrom != 4 || !c.Status.SwitchoverFor.Equal(c.Spec.SwitchoverAt) {
		t.Fatalf("got %+v", c.Status)
	}
	decided = Decide(c, running(c, 3))
	if decided.SwitchFrom != 4 || decided.SwitchTo != "sessions-1" {
		t.Errorf("got %+v", decided)
	}
	observed := running(c, 3).says(1, contract.Report{Role: contract.Primary, State: "Leading", Term: 5}).
		says(0, contract.Report{Role: contract.Replica, State: "Following", Term: 5})
	c.Status, _ = Status(c, observed, Decide(c, observed), plan.Result{})
	if !c.Status.SwitchoverAt.Equal(c.Spec.SwitchoverAt) || c.Status.SwitchoverFrom != 0 {
		t.Errorf("got %+v", c.Status)
	}
}

// TestReplace: an instance of an earlier template is replaced, replicas first.
func TestReplace(t *testing.T) {
	c := worked(3)
	observed := running(c, 3)
	for i := range observed.Pods {
		observed.Pods[i].Labels["controller-revision-hash"] = "sessions-1"
	}
	if decided := Decide(c, observed); decided.Evict == nil || decided.Evict.Name != "sessions-2" {
		t.Errorf("got %+v", decided)
	}
}
