package database

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-platform/mainstay/api"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// TestGrowAhead walks the last rows of the table of Grow: volumes of 1536 MiB, which have grown
// from 1024.
func TestGrowAhead(t *testing.T) {
	const grown, waits = "1536Mi", "1536Mi waits"
	ago := func(seconds int) time.Duration { return time.Duration(seconds) * time.Second }
	for name, test := range map[string]struct {
		from    string
		since   time.Duration
		reports []fill
		limit   string
		want    string
	}{
		"not full enough":                  {"819/1024", ago(20), []fill{{75, 1536, true}}, "1Ti", grown},
		"fast":                             {"819/1024", ago(20), []fill{{80, 1536, true}}, "1Ti", "13835Mi"},
		"fast, and the other one is empty": {"819/1024", ago(20), []fill{{0, 1536, false}, {80, 1536, true}}, "1Ti", "13835Mi"},
		"fast, of a smaller file system":   {"790/990", ago(20), []fill{{80, 1480, true}}, "1Ti", "13386Mi"},
		"fast, up to the limit":            {"819/1024", ago(20), []fill{{80, 1536, true}}, "4Gi", "4Gi"},
		"fast, within a second":            {"819/1024", ago(1) / 2, []fill{{80, 1536, true}}, "1Ti", "247535Mi"},
		"in no time":                       {"819/1024", 0, []fill{{95, 1536, true}}, "1Ti", waits},
		"as fast as it may be":             {"819/1024", ago(353), []fill{{80, 1536, true}}, "1Ti", waits},
		"a little faster":                  {"819/1024", ago(352), []fill{{80, 1536, true}}, "1Ti", "2304Mi"},
		"slow, and nearly full":            {"819/1024", ago(599), []fill{{95, 1536, true}}, "1Ti", "2523Mi"},
		"full, and no fuller than then":    {"1459/1024", ago(60), []fill{{95, 1536, true}}, "1Ti", waits},
		"less is used":                     {"1400/1024", ago(60), []fill{{80, 1536, true}}, "1Ti", waits},
		"a report of before":               {"819/1024", ago(5), []fill{{95, 1024, true}}, "1Ti", waits},
		"a report without a size":          {"819/1024", ago(20), []fill{{95, 0, true}}, "1Ti", waits},
		"a claim of an earlier Mainstay":   {"", ago(20), []fill{{95, 1536, true}}, "1Ti", waits},
		"a claim that was edited":          {"-1/x", ago(20), []fill{{95, 1536, true}}, "1Ti", waits},
		"a report that is no size":         {"819/1024", ago(20), []fill{{95, -5, true}}, "1Ti", waits},
		"a report of everything":           {"819/1024", ago(20), []fill{{100, 1 << 62, true}}, "9223372036854775807", "2304Mi"},
		"a replica that copies its data":   {"819/1024", ago(20), []fill{{75, 1536, true}, {95, 1536, false}}, "1Ti", waits},
		"no primary":                       {"819/1024", ago(20), []fill{{95, 1536, false}, {95, 1536, false}}, "1Ti", waits},
		"at a time that is to come":        {"819/1024", ago(-60), []fill{{95, 1536, true}}, "1Ti", waits},
		"ten minutes later":                {"819/1024", ago(600), []fill{{80, 1536, true}}, "1Ti", "2304Mi"},
	} {
		g := newGrowing(Growth{From: 80, By: 50, Limit: resource.MustParse(test.limit)}, len(test.reports))
		g.now = g.now.Add(test.since)
		for ordinal := range test.reports {
			g.claims[ordinal] = claimWith("1536Mi", "1536Mi", "12:00:00")
			g.claims[ordinal].Annotations[api.AnnotationGrownFrom] = test.from
		}
		volume := g.grow(test.reports)
		got := volume.Size.String()
		if !volume.GrowsAt.IsZero() {
			got += " waits"
		}
		if got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}

// growing is a database whose volumes grow.
type growing struct {
	growth Growth
	now    time.Time
	claims []*corev1.PersistentVolumeClaim
}

func newGrowing(growth Growth, instances int) *growing {
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	return &growing{growth: growth, now: now, claims: make([]*corev1.PersistentVolumeClaim, instances)}
}

// grow returns the volume as it is to be, given how full its instances say that it is.
func (g *growing) grow(reports []fill) Volume {
	d := &Database{Namespace: "shop", Name: "db", Replicas: int32(len(reports)), Volumes: []Volume{ //nolint:gosec // there are two
		{Name: DataVolume, Size: resource.MustParse("1Gi"), Claim: VolumeName, Growth: &g.growth},
	}}
	observed := State{Now: g.now, Children: plan.Children{}}
	for ordinal, report := range reports {
		observed.Children[d.Ref("PersistentVolumeClaim", VolumeName("db", ordinal))] = plan.Found{Object: g.claims[ordinal], Ownership: plan.Ours}
		says := contract.Report{State: "Following", Full: report.percent, Size: report.size}
		if report.isWritten {
			says.Role = contract.Primary
		}
		text, _ := json.Marshal(says)
		observed.Pods = append(observed.Pods, corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: PodName("db", ordinal), Annotations: map[string]string{api.AnnotationInstance: string(text)},
		}})
	}
	d.Grow(observed)
	return d.Volumes[0]
}

// disk is the volume of a primary, in a storage that takes four seconds to enlarge it.
type disk struct {
	*growing
	used, size, growths int64
	said                fill
	enlarges            time.Time
}

func newDisk(growth Growth, size string) *disk {
	d := &disk{growing: newGrowing(growth, 1)}
	d.claims[0] = claimWith(size, size, "")
	d.size = d.claims[0].Status.Capacity.Storage().Value() >> 20
	return d
}

// second is one second, in every other of which the volume is measured. It returns true if the
// volume is asked to grow.
func (d *disk) second() bool {
	const measures, takes = 2, 4 * time.Second
	d.now = d.now.Add(time.Second)
	if d.now.Equal(d.enlarges) {
		d.claims[0].Status.Capacity[corev1.ResourceStorage] = *d.claims[0].Spec.Resources.Requests.Storage()
		d.size = d.claims[0].Status.Capacity.Storage().Value() >> 20
	}
	if d.now.Second()%measures == 0 {
		is := int(d.used * percent / d.size)
		if is >= d.said.percent || is < d.said.percent-reportSlack {
			d.said.percent = is / reportStep * reportStep
		}
		d.said.size, d.said.isWritten = d.size, true
	}
	volume := d.grow([]fill{d.said})
	if volume.Size.Cmp(*d.claims[0].Spec.Resources.Requests.Storage()) <= 0 {
		return false
	}
	next := (&Database{Namespace: "shop", Name: "db"}).claimFor(volume, 0)
	next.Status = d.claims[0].Status
	d.claims[0], d.enlarges = next, d.now.Add(takes)
	d.growths++
	return true
}

// TestAheadOfAWriter: a writer of up to 27 MiB/s fills a volume of 1 GiB for half an hour. It is
// never full.
func TestAheadOfAWriter(t *testing.T) {
	for _, writes := range []int64{1, 20, 27} { // MiB a second
		t.Run(fmt.Sprint(writes), func(t *testing.T) {
			const lasts = 1800 // seconds
			d := newDisk(Growth{From: 80, By: 50, Limit: resource.MustParse("1Ti")}, "1Gi")
			for second := range lasts {
				if d.used += writes; d.used > d.size {
					t.Fatalf("it is full after %d s, with %d MiB", second, d.size)
				}
				d.second()
			}
			if needs := d.used + writes*600; d.growths > 8 || d.size > 2*needs*percent/80 {
				t.Errorf("it grew %d times, to %d MiB, with %d used", d.growths, d.size, d.used)
			}
			t.Logf("it grew %d times, to %d MiB, with %d used", d.growths, d.size, d.used)
		})
	}
}

// TestNobodyWrites: a volume that nobody writes to grows by its percentage only, and only once in
// ten minutes, although it is fuller than its report says before, and less full afterwards.
func TestNobodyWrites(t *testing.T) {
	for _, growth := range []Growth{
		{From: 50, By: 5}, {From: 50, By: 9}, {From: 65, By: 7}, {From: 80, By: 6}, {From: 80, By: 25}, {From: 95, By: 5},
	} {
		t.Run(fmt.Sprint(growth.From, " by ", growth.By), func(t *testing.T) {
			const lasts = 1230 // seconds
			growth.Limit = resource.MustParse("10Ti")
			d := newDisk(growth, "100Gi")
			d.used = d.size * (growth.From*10 + 49) / 1000
			asked, last := d.size, d.now.Add(-GrowsEach)
			for range lasts {
				if !d.second() {
					continue
				}
				size := d.claims[0].Spec.Resources.Requests.Storage().Value() >> 20
				if d.now.Sub(last) < GrowsEach || size > asked+asked*growth.By/percent+1 {
					t.Fatalf("it grew from %d to %d MiB after %s, with %d used", asked, size, d.now.Sub(last), d.used)
				}
				asked, last = size, d.now
			}
			if d.growths == 0 {
				t.Error("it has not grown")
			}
		})
	}
}
