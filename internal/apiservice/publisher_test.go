package apiservice

import (
	"errors"
	"testing"
	"time"

	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
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
