package watch

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Index finds objects in the cache by values that are computed from them.
type Index struct {
	// Object is an empty object of the kind.
	Object client.Object
	Name   string
	Values client.IndexerFunc
}

// AddIndexes adds indexes to the cache.
func AddIndexes(ctx context.Context, indexer client.FieldIndexer, indexes ...Index) error {
	for _, index := range indexes {
		if err := indexer.IndexField(ctx, index.Object, index.Name, index.Values); err != nil {
			return fmt.Errorf("adding the index %s: %w", index.Name, err)
		}
	}
	return nil
}
