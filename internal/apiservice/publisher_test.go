package apiservice

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/internal/aggregated"
)

// TestWritten: what was written is not written again before the cache can show it, and is if the cache never does.
func TestWritten(t *testing.T) {
	version := func(version string) *observed {
		o := &observed{now: start}
		if version != "" {
			o.apiService = stored(func(a *apiregistrationv1.APIService) { a.ResourceVersion = version })
		}
		return o
	}
	for name, test := range map[string]struct {
		before, now *observed
		err         error
		later       time.Duration
		want        bool
	}{
		"made, and not there yet":         {version(""), version(""), nil, 0, true},
		"made, and there":                 {version(""), version("1"), nil, 0, false},
		"changed, and not to be seen yet": {version("1"), version("1"), nil, 4 * time.Second, true},
		"changed":                         {version("1"), version("2"), nil, 0, false},
		"deleted, and not gone yet":       {version("1"), version("1"), nil, 0, true},
		"deleted":                         {version("1"), version(""), nil, 0, false},
		"it never changes":                {version("1"), version("1"), nil, 5 * time.Second, false},
		"it failed":                       {version("1"), version("1"), errors.New("no answer"), 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := &Publisher{}
			if err := p.after(test.before, test.err); !errors.Is(err, test.err) {
				t.Error(err)
			}
			test.now.now = start.Add(test.later)
			if got := p.written.isShown(test.now); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
	if (written{}).isShown(version("")) {
		t.Error("nothing was written, and it waits")
	}
}

// TestUnreached: with one resource served the APIService stays, so who wants it gone is told of all; and the API server takes an event of this length.
func TestUnreached(t *testing.T) {
	note := unreached("FailedDiscoveryCheck").note
	for _, resource := range aggregated.AllResources() {
		if name := "apiserver." + resource + ".enabled"; !strings.Contains(note, name) {
			t.Errorf("%s is not told: %s", name, note)
		}
	}
	if len(note) > 1024 {
		t.Errorf("the note has %d bytes, and 1024 are accepted", len(note))
	}
}

// broken is a cache that does not start, or in which nothing can be watched.
type broken struct {
	cache.Cache
	start, watch error
}

func (b broken) Start(ctx context.Context) error {
	if b.start == nil {
		<-ctx.Done()
	}
	return b.start
}

func (b broken) GetInformer(ctx context.Context, _ client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	if b.watch == nil {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return nil, b.watch
}

// TestStartBroken: without a cache, or a watch, nothing would ever be decided, so the process ends, and says why. In a bubble a Start
// that never ended would be told of.
func TestStartBroken(t *testing.T) {
	problem := errors.New("no such kind")
	for name, from := range map[string]broken{"the cache": {start: problem}, "the watch": {watch: problem}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if err := New(Options{Cache: from, Clock: clock.RealClock{}}).Start(t.Context()); !errors.Is(err, problem) {
					t.Errorf("it ended with: %v", err)
				}
				ended, end := context.WithCancel(t.Context())
				end()
				if err := New(Options{Cache: from, Clock: clock.RealClock{}}).Start(ended); err != nil {
					t.Errorf("at the end of the process it ended with: %v", err)
				}
			})
		})
	}
}
