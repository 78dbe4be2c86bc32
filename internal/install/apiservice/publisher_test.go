package apiservice

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/mainstay-platform/mainstay/internal/aggregated"
	"github.com/mainstay-platform/mainstay/internal/install/loop/looptest"
)

// TestWritten: a write is not repeated before the cache can show it, and is repeated if the cache
// never does.
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
		"created, and not visible yet": {version(""), version(""), nil, 0, true},
		"created, and visible":         {version(""), version("1"), nil, 0, false},
		"changed, and not visible yet": {version("1"), version("1"), nil, 4 * time.Second, true},
		"changed":                      {version("1"), version("2"), nil, 0, false},
		"deleted, and not gone yet":    {version("1"), version("1"), nil, 0, true},
		"deleted":                      {version("1"), version(""), nil, 0, false},
		"it never changes":             {version("1"), version("1"), nil, 5 * time.Second, false},
		"it failed":                    {version("1"), version("1"), errors.New("no answer"), 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := &Publisher{}
			if err := p.after(test.before, test.err); !errors.Is(err, test.err) {
				t.Error(err)
			}
			test.now.now = start.Add(test.later)
			if got := p.written.isPending(test.now); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
	if (written{}).isPending(version("")) {
		t.Error("nothing was written, and it waits")
	}
}

// TestUnreached: the APIService stays while any resource is served, so the note names the switches
// of all. The API server must accept an event of this length.
func TestUnreached(t *testing.T) {
	note := unreached("FailedDiscoveryCheck").note
	for _, resource := range aggregated.AllResources() {
		if name := "apiserver." + resource + ".enabled"; !strings.Contains(note, name) {
			t.Errorf("the note lacks %s: %s", name, note)
		}
	}
	if len(note) > 1024 {
		t.Errorf("the note has %d bytes, must have at most 1024", len(note))
	}
}

// TestStartBroken: without a cache or a watch nothing could be decided, so the process ends with an
// error.
func TestStartBroken(t *testing.T) {
	looptest.EndsWhenBroken(t, func(ctx context.Context, broken cache.Cache) error {
		return New(Options{Cache: broken, Clock: clock.RealClock{}}).Start(ctx)
	})
}
