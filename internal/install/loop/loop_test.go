package loop

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/mainstay-platform/mainstay/internal/install/loop/looptest"
)

// started is a cache that starts.
type started struct{}

func (started) Start(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// serving is a fake of Certificates that change once, when the channel is closed.
type serving chan struct{}

func (serving) Bundle() []byte { return nil }
func (serving) Trusted([]byte) {}
func (s serving) Changed() <-chan struct{} {
	select {
	case <-s:
		return nil
	default:
		return s
	}
}

// result is that of a pass. The zero value means that there is nothing to do.
type result struct {
	// again is a time after the pass, or zero for never.
	again time.Duration
	err   error
}

// passing returns options of a Loop whose passes have these results, and after them the zero value.
// It adds the times of the passes after the first to passed.
func passing(results []result, passed *[]time.Duration) Options {
	var first time.Time
	return Options{
		What: "the test", Cache: started{}, Log: func(context.Context, error) {}, Clock: clock.RealClock{},
		Watch: func(context.Context) ([]toolscache.InformerSynced, error) { return nil, nil },
		Pass: func(context.Context) (again time.Time, err error) {
			if first.IsZero() {
				first = time.Now()
			} else {
				*passed = append(*passed, time.Since(first))
			}
			if len(results) == 0 {
				return time.Time{}, nil
			}
			next := results[0]
			results = results[1:]
			if next.again != 0 {
				again = time.Now().Add(next.again)
			}
			return again, next.err
		},
	}
}

// TestPasses: a pass follows a change, the time that the last pass returned, and an error.
func TestPasses(t *testing.T) {
	broken := errors.New("no answer")
	growing := wait.Backoff{Duration: time.Second, Factor: 2, Steps: 4}
	for name, test := range map[string]struct {
		results []result
		retry   wait.Backoff
		// change happens a minute after the start.
		change func(*Loop, serving)
		want   []time.Duration
	}{
		"nothing to do":              {},
		"a time":                     {results: []result{{again: time.Hour}}, want: []time.Duration{time.Hour}},
		"a time that has passed":     {results: []result{{again: -time.Hour}}, want: []time.Duration{0}},
		"an error":                   {results: []result{{err: broken}}, want: []time.Duration{5 * time.Second}},
		"an error, and a later time": {results: []result{{time.Hour, broken}}, want: []time.Duration{5 * time.Second}},
		"an error, and an earlier":   {results: []result{{time.Second, broken}}, want: []time.Duration{time.Second}},
		"waiting":                    {results: []result{{err: Waiting(broken)}}},
		"waiting, and a time":        {results: []result{{time.Second, Waiting(broken)}}, want: []time.Duration{time.Second}},
		"a lost race":                {results: []result{{err: ErrLostRace}}, want: []time.Duration{5 * time.Second}},
		"errors, with a back-off": {results: []result{{err: broken}, {err: broken}, {again: time.Hour}, {err: broken}}, retry: growing,
			want: []time.Duration{time.Second, 3 * time.Second, time.Hour + 3*time.Second, time.Hour + 4*time.Second}},
		"a change":            {change: func(l *Loop, _ serving) { l.Wake() }, want: []time.Duration{time.Minute}},
		"another certificate": {change: func(_ *Loop, s serving) { close(s) }, want: []time.Duration{time.Minute}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
				defer cancel()
				var passed []time.Duration
				options, certificates := passing(test.results, &passed), make(serving)
				options.Retry, options.Certificates = test.retry, certificates
				l := New(options)
				if test.change != nil {
					time.AfterFunc(time.Minute, func() { test.change(l, certificates) })
				}
				if err := l.Run(ctx); err != nil {
					t.Error(err)
				}
				if !slices.Equal(passed, test.want) {
					t.Errorf("passes after %v, want %v", passed, test.want)
				}
			})
		})
	}
}

// TestFirstPass: the first pass waits until the objects have been read, which wakes nothing. An
// early Loop does not wait, and wakes for each kind.
func TestFirstPass(t *testing.T) {
	for name, test := range map[string]struct {
		early bool
		want  int
	}{"after reading": {false, 0}, "early": {true, 2}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				var passed []time.Duration
				options := passing(nil, &passed)
				options.Early = test.early
				start := time.Now()
				after := func(wait time.Duration) toolscache.InformerSynced {
					return func() bool { return time.Since(start) >= wait }
				}
				var l *Loop
				options.Watch = func(context.Context) ([]toolscache.InformerSynced, error) {
					l.Wake()
					return []toolscache.InformerSynced{after(time.Second), after(time.Minute)}, nil
				}
				l = New(options)
				if err := l.Run(ctx); err != nil {
					t.Error(err)
				}
				passed = slices.DeleteFunc(passed, func(after time.Duration) bool { return after < time.Second })
				if len(passed) != test.want {
					t.Errorf("passes after %v, want %d", passed, test.want)
				}
			})
		})
	}
}

// TestReport: an error is logged once, until another result. A lost race is no result.
func TestReport(t *testing.T) {
	a, b := errors.New("a"), errors.New("b")
	logged := 0
	l := New(Options{Log: func(context.Context, error) { logged++ }})
	if l.Problem() == nil {
		t.Error("no problem before the first pass")
	}
	ended, end := context.WithCancel(t.Context())
	end()
	for i, step := range []struct {
		ctx     context.Context
		err     error
		problem error
		logged  int
	}{
		{t.Context(), a, a, 1}, {t.Context(), errors.New("a"), a, 1}, {t.Context(), b, b, 2}, {t.Context(), ErrLostRace, b, 2},
		{ended, a, b, 2}, {t.Context(), nil, nil, 2}, {t.Context(), b, b, 3}, {t.Context(), Waiting(a), a, 4},
	} {
		l.Report(step.ctx, step.err)
		got := l.Problem()
		if (got == nil) != (step.problem == nil) || got != nil && got.Error() != step.problem.Error() || logged != step.logged {
			t.Errorf("step %d: the problem is %v, and %d were logged", i, got, logged)
		}
	}
}

// TestBroken: without a cache or a watch no pass would be of use, so Run returns the error.
func TestBroken(t *testing.T) {
	looptest.EndsWhenBroken(t, func(ctx context.Context, broken cache.Cache) error {
		options := passing(nil, new([]time.Duration))
		options.Cache = broken
		var l *Loop
		options.Watch = func(ctx context.Context) ([]toolscache.InformerSynced, error) {
			return l.Informers(ctx, broken, nil, nil)
		}
		l = New(options)
		return l.Run(ctx)
	})
}
