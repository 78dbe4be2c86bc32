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
		"not full enough":                  {"819/1024", ago(20), []fill{{75, 1536}}, "1Ti", grown},
		"fast":                             {"819/1024", ago(20), []fill{{80, 1536}}, "1Ti", "16872Mi"},
		"fast, and the other one is empty": {"819/1024", ago(20), []fill{{0, 1536}, {80, 1536}}, "1Ti", "16872Mi"},
		"fast, of a smaller file system":   {"790/990", ago(20), []fill{{80, 1480}}, "1Ti", "16311Mi"},
		"fast, up to the limit":            {"819/1024", ago(20), []fill{{80, 1536}}, "4Gi", "4Gi"},
		"fast, within a second":            {"819/1024", 0, []fill{{80, 1536}}, "1Ti", "308285Mi"},
		"as fast as it may be":             {"819/1024", ago(390), []fill{{80, 1536}}, "1Ti", waits},
		"a little faster":                  {"819/1024", ago(380), []fill{{80, 1536}}, "1Ti", "2342Mi"},
		"slow, and nearly full":            {"819/1024", ago(599), []fill{{95, 1536}}, "1Ti", "2625Mi"},
		"full, and no fuller than then":    {"1459/1024", ago(60), []fill{{95, 1536}}, "1Ti", waits},
		"less is used":                     {"1400/1024", ago(60), []fill{{80, 1536}}, "1Ti", waits},
		"a report of before":               {"819/1024", ago(5), []fill{{95, 1024}}, "1Ti", waits},
		"a report without a size":          {"819/1024", ago(20), []fill{{95, 0}}, "1Ti", waits},
		"a claim of an earlier Mainstay":   {"", ago(20), []fill{{95, 1536}}, "1Ti", waits},
		"a claim that was edited":          {"-1/x", ago(20), []fill{{95, 1536}}, "1Ti", waits},
		"a report that is no size":         {"819/1024", ago(20), []fill{{95, -5}}, "1Ti", waits},
		"a report of everything":           {"819/1024", ago(20), []fill{{100, 1 << 62}}, "9223372036854775807", "2304Mi"},
		"ten minutes later":                {"819/1024", ago(600), []fill{{80, 1536}}, "1Ti", "2304Mi"},
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
		text, _ := json.Marshal(contract.Report{State: "Following", Full: report.percent, Size: report.size})
		observed.Pods = append(observed.Pods, corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: PodName("db", ordinal), Annotations: map[string]string{api.AnnotationInstance: string(text)},
		}})
	}
	d.Grow(observed)
	return d.Volumes[0]
}

// TestAheadOfAWriter: a writer of up to 27 MiB/s fills a volume of 1 GiB for half an hour. The
// volume is measured every two seconds and resized in four, and it is never full.
func TestAheadOfAWriter(t *testing.T) {
	for _, writes := range []int64{1, 20, 27} { // MiB a second
		t.Run(fmt.Sprint(writes), func(t *testing.T) {
			const measures, resizes, lasts = 2, 4, 1800 // seconds
			g := newGrowing(Growth{From: 80, By: 50, Limit: resource.MustParse("1Ti")}, 1)
			g.claims[0] = claimWith("1Gi", "1Gi", "")
			used, size, said, resized, growths := int64(0), int64(1024), fill{}, 0, 0
			for second := range lasts {
				g.now = g.now.Add(time.Second)
				if used += writes; used > size {
					t.Fatalf("it is full after %d s, with %d MiB", second, size)
				}
				if second == resized {
					g.claims[0].Status.Capacity[corev1.ResourceStorage] = *g.claims[0].Spec.Resources.Requests.Storage()
					size = g.claims[0].Status.Capacity.Storage().Value() >> 20
				}
				if second%measures == 0 {
					said = fill{int(used*percent/size) / reportStep * reportStep, size}
				}
				volume := g.grow([]fill{said})
				if volume.Size.Cmp(*g.claims[0].Spec.Resources.Requests.Storage()) > 0 {
					d := &Database{Namespace: "shop", Name: "db"}
					next := d.claimFor(volume, 0)
					next.Status = g.claims[0].Status
					g.claims[0], resized = next, second+resizes
					growths++
				}
			}
			if needs := used + writes*600; growths > 8 || size > 2*needs*percent/80 {
				t.Errorf("it grew %d times, to %d MiB, with %d used", growths, size, used)
			}
			t.Logf("it grew %d times, to %d MiB, with %d used", growths, size, used)
		})
	}
}
