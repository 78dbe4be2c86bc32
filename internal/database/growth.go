package database

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/mainstay-platform/mainstay/api"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
)

// Growth is when volumes grow by themselves.
type Growth struct {
	// From is how full one of them has to be, and By how much larger they get, in percent.
	From, By int64
	// Limit is how large they get at most.
	Limit resource.Quantity
}

// GrowsEach is how long volumes are to last after they have grown by themselves. Clouds refuse to
// change a volume again at once, some for hours; so those that last so long stay as they are.
const GrowsEach = 10 * time.Minute

// Filled is how much of the volumes was used, and how large they were for the instances, in MiB; 0
// is unknown.
type Filled struct{ Used, Size int64 }

// Grow gives the volumes the sizes that they are to have: those of the spec, or larger ones.
//
//	they never shrink                                        the largest of the spec's and their own
//	there is no Growth, or the limit is reached              that size
//	none that was asked for that size is full enough         that size
//	one was asked for that size, and has not got it yet      that size
//	they have not grown within the last ten minutes          By percent more, up to the limit
//	they have, and how fast they fill is not known           that size
//	they have, and will not be full before the ten are over  that size
//	otherwise                                                what lasts for ten minutes more, at least By percent, up to the limit
//
// How full they are is in the instances' reports. When they grew stands on the claims, and how full
// they were then, written with the size. So the manager need not remember how fast they fill.
// Only the volume of the primary counts for that: a replica that copies its data stops by itself.
func (d *Database) Grow(observed State) {
	fills := []func(contract.Report) fill{
		func(report contract.Report) fill { return fill{percent: report.Full, size: report.Size} },
		func(report contract.Report) fill { return fill{percent: report.FullLog, size: report.SizeLog} },
	}
	for i := range d.Volumes {
		d.grow(observed, &d.Volumes[i], observed.fills(d, fills[i]))
	}
}

// grow is Grow for one of the volumes that each instance has.
func (d *Database) grow(observed State, volume *Volume, fills map[int]fill) {
	claims := map[int]*corev1.PersistentVolumeClaim{}
	for ordinal := range int(d.Replicas) {
		claim := observed.Claim(d, volume.Claim(d.Name, ordinal))
		if claim == nil || claim.DeletionTimestamp != nil {
			continue
		}
		if asked := claim.Spec.Resources.Requests.Storage(); asked.Cmp(volume.Size) > 0 {
			volume.Size = asked.DeepCopy()
		}
		claims[ordinal] = claim
		at, isKnown := grownAt(claim)
		if isKnown && at.After(volume.GrownAt) && at.Before(observed.Now.Add(GrowsEach)) {
			volume.GrownAt, volume.GrownFrom = at, grownFrom(claim)
		}
	}
	isResizing := false
	for ordinal, claim := range claims {
		asked, has := claim.Spec.Resources.Requests.Storage(), claim.Status.Capacity.Storage()
		switch {
		case asked.Cmp(volume.Size) < 0:
			// It is still to be asked for the size, or can't have it: that it is full is no reason to
			// enlarge the others again.
			delete(fills, ordinal)
		case claim.Status.Phase == corev1.ClaimBound && has.Cmp(*asked) < 0:
			isResizing = true
		}
	}
	growth := volume.Growth
	if growth == nil || isResizing || volume.Size.Cmp(growth.Limit) >= 0 {
		return
	}
	isFull, ahead, now := false, int64(0), Filled{}
	for _, one := range fills {
		now = Filled{max(now.Used, one.used()), max(now.Size, one.size)}
		if one.percent < int(growth.From) {
			continue
		}
		isFull = true
		if one.isWritten {
			ahead = growth.ahead(one, volume.GrownFrom, observed.Now.Sub(volume.GrownAt))
		}
	}
	next := volume.GrownAt.Add(GrowsEach)
	switch {
	case !isFull:
	case observed.Now.Before(next) && ahead == 0:
		volume.GrowsAt = next
	default:
		volume.Size, volume.GrownFrom = larger(volume.Size, *growth, ahead), now
		volume.GrownAt = observed.Now.UTC().Truncate(time.Second)
	}
}

// fill is how full a volume is, in percent, and how large, in MiB; 0 is unknown.
type fill struct {
	percent int
	size    int64
	// isWritten is true for that of the primary.
	isWritten bool
}

func (f fill) used() int64 { return f.size * int64(f.percent) / percent }

const (
	percent = 100
	// reportStep is by how many percent a volume may be fuller than its report says, and reportSlack
	// by how many less full.
	reportStep, reportSlack = 5, 2
	// maxSize limits the size in a report, in MiB: every client with the right to patch Pods can
	// write one.
	maxSize = 1 << 40
)

// fills returns how full the volumes of the instances are, by their ordinals.
func (o State) fills(d *Database, of func(contract.Report) fill) map[int]fill {
	all := map[int]fill{}
	instances := o.Instances(d)
	primary := PrimaryOf(instances)
	for _, instance := range instances {
		if instance.Ordinal < int(d.Replicas) {
			one := of(instance.Report)
			isWritten := primary != nil && instance.Ordinal == primary.Ordinal
			all[instance.Ordinal] = fill{min(max(one.percent, 0), percent), min(max(one.size, 0), maxSize), isWritten}
		}
	}
	return all
}

// ahead returns by how many MiB a volume has to grow at once, so that it lasts for ten minutes
// more; 0 if it is not full before ten minutes since it grew are over, or if that is not known. A
// report of before it grew says nothing, nor does a time that is yet to come. What was written
// since is the least that fits both reports: no volume shrinks again.
func (g Growth) ahead(now fill, then Filled, since time.Duration) int64 {
	filled := now.used() - now.size*reportSlack/percent - then.Used - then.Size*reportStep/percent
	if then.Size == 0 || now.size <= then.Size || filled <= 0 || since <= 0 || since >= GrowsEach {
		return 0
	}
	perSecond := float64(filled) / max(since, time.Second).Seconds()
	free := now.size * int64(max(percent-reportStep-now.percent, 0)) / percent
	if perSecond*(GrowsEach-since).Seconds() <= float64(free) {
		return 0
	}
	// Then it is as full as it has to be in order to grow, and no fuller.
	lasts := (float64(now.used()) + perSecond*GrowsEach.Seconds()) * percent / float64(g.From)
	return max(int64(min(lasts, maxSize))-now.size, 1)
}

// larger returns the next size, in whole MiB: By percent more, or so many MiB, if that is larger.
func larger(size resource.Quantity, growth Growth, ahead int64) resource.Quantity {
	const mib = 1 << 20
	bytes := max(size.Value()/percent*(percent+growth.By), size.Value()+min(ahead*mib, growth.Limit.Value()-size.Value()))
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

// String returns what grownFrom reads: "819/1024".
func (f Filled) String() string { return fmt.Sprintf("%d/%d", f.Used, f.Size) }

// grownFrom returns how full the volumes were when they grew; 0 of 0 if a claim does not say that.
func grownFrom(claim *corev1.PersistentVolumeClaim) Filled {
	const most = 40 // bytes
	text := claim.Annotations[api.AnnotationGrownFrom]
	if len(text) > most {
		return Filled{}
	}
	used, size, _ := strings.Cut(text, "/")
	from, err := strconv.ParseInt(used, 10, 64)
	of, errOf := strconv.ParseInt(size, 10, 64)
	if err != nil || errOf != nil || from < 0 || of < from || of > maxSize {
		return Filled{}
	}
	return Filled{Used: from, Size: of}
}
