package provision

import "context"

// Run serves until ctx ends.
func Run(ctx context.Context, _, _ string) error {
	<-ctx.Done()
	return nil
}
