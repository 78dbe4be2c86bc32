package observe

import (
	"context"

	"github.com/mainstay-platform/mainstay/internal/workload"
)

// Source returns what the cache knows about one source. It makes no API calls.
func (r Reader) Source(ctx context.Context, namespace string, ref workload.SourceRef) (workload.Source, error) {
	found, err := (&snapshot{Reader: r, namespace: namespace}).readSource(ctx, ref)
	if err != nil {
		return workload.Source{}, err
	}
	return found.source, nil
}
