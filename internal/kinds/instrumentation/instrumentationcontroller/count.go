package instrumentationcontroller

import (
	"context"
	"slices"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/injection"
	"github.com/mainstay-platform/mainstay/internal/kit/metrics"
)

// count sums up the workloads in the statuses of all Instrumentations, by kind and state.
func (r *Reader) count(ctx context.Context) (map[metrics.Instrumented]int, error) {
	objects, err := r.objects(ctx, "")
	if err != nil {
		return nil, err
	}
	counts := map[metrics.Instrumented]int{}
	add := func(kind string, status *instrv1.InstrumentationStatus) {
		counts[metrics.Instrumented{Kind: kind, State: "injected"}] += int(status.Injected)
		counts[metrics.Instrumented{Kind: kind, State: "pending"}] += int(status.Pending)
		counts[metrics.Instrumented{Kind: kind, State: "failed"}] += int(status.Failed)
	}
	for _, kind := range bothKinds {
		if !slices.Contains(r.Off, kind) {
			add(kind, &instrv1.InstrumentationStatus{}) // so that 0 is reported
		}
	}
	for _, object := range objects {
		add(injection.IdentityOf(object).Kind, object.GetStatus())
	}
	return counts, nil
}
