package database

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/mainstay-platform/mainstay/api"
)

// Growth is when volumes grow by themselves.
type Growth struct {
	// From is how full one of them has to be, and By how much larger they get, in percent.
	From, By int64
	// Limit is how large they get at most.
	Limit resource.Quantity
}

// GrowsEach is how long volumes stay as they are after they have grown by themselves. Clouds refuse
// to change a volume again at once, and a runaway writer must not take everything in a minute.
const GrowsEach = 10 * time.Minute

// Grow gives the volumes the sizes that they are to have: those of the spec, or larger ones.
//
//	they never shrink                                        the largest of the spec's and their own
//	there is no Growth, or the limit is reached              that size
//	none is full enough                                      that size
//	one has not yet the size that was asked for              that size
//	they have grown within the last ten minutes              that size
//	otherwise                                                By percent more, up to the limit
//
// How full they are is in the instances' reports. When they grew stands on the claims, written with
// the size.
func (d *Database) Grow(observed State) {
	fulls := []func(Instance) int{
		func(instance Instance) int { return instance.Report.Full }, func(instance Instance) int { return instance.Report.FullLog },
	}
	for i := range d.Volumes {
		d.grow(observed, &d.Volumes[i], fulls[i])
	}
}

// grow is Grow for one of the volumes that each instance has. full returns how full that of an
// instance is, in percent.
func (d *Database) grow(observed State, volume *Volume, full func(Instance) int) {
	isResizing := false
	for ordinal := range int(d.Replicas) {
		claim := observed.Claim(d, volume.Claim(d.Name, ordinal))
		if claim == nil || claim.DeletionTimestamp != nil {
			continue
		}
		asked, has := claim.Spec.Resources.Requests.Storage(), claim.Status.Capacity.Storage()
		if asked.Cmp(volume.Size) > 0 {
			volume.Size = asked.DeepCopy()
		}
		isResizing = isResizing || claim.Status.Phase == corev1.ClaimBound && has.Cmp(*asked) < 0
		at, isKnown := grownAt(claim)
		if isKnown && at.After(volume.GrownAt) && at.Before(observed.Now.Add(GrowsEach)) {
			volume.GrownAt = at
		}
	}
	growth := volume.Growth
	if growth == nil || isResizing || volume.Size.Cmp(growth.Limit) >= 0 || !observed.isFull(d, int(growth.From), full) {
		return
	}
	if next := volume.GrownAt.Add(GrowsEach); observed.Now.Before(next) {
		volume.GrowsAt = next
		return
	}
	volume.Size, volume.GrownAt = larger(volume.Size, *growth), observed.Now.UTC().Truncate(time.Second)
}

// isFull reports whether the volume of an instance is so full.
func (o State) isFull(d *Database, from int, full func(Instance) int) bool {
	for _, instance := range o.Instances(d) {
		if instance.Ordinal < int(d.Replicas) && full(instance) >= from {
			return true
		}
	}
	return false
}

// larger returns the next size, in whole MiB.
func larger(size resource.Quantity, growth Growth) resource.Quantity {
	const percent, mib = 100, 1 << 20
	bytes := size.Value() / percent * (percent + growth.By)
	next := *resource.NewQuantity((bytes+mib-1)/mib*mib, resource.BinarySI)
	if next.Cmp(growth.Limit) > 0 {
		return growth.Limit.DeepCopy()
	}
	return next
}

// grownAt returns when a claim grew by itself; false if it says nothing that can be read.
func grownAt(claim *corev1.PersistentVolumeClaim) (time.Time, bool) {
	text := claim.Annotations[api.AnnotationGrownAt]
	if len(text) > len(time.RFC3339) {
		return time.Time{}, false
	}
	at, err := time.Parse(time.RFC3339, text)
	return at, err == nil
}
