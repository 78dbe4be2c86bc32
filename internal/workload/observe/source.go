package observe

import (
	"context"

	"github.com/mainstay-platform/mainstay/internal/workload"
)

// Source is what the cache knows of one source, for who asks nothing of workloads. It makes no API call.
func (r Reader) Source(ctx context.Context, namespace string, ref workload.SourceRef) (workload.Source, error) {
	found, err := (&snapshot{Reader: r, namespace: namespace}).readSource(ctx, ref)
	if err != nil {
		return workload.Source{}, err
	}
	return found.source, nil
}
