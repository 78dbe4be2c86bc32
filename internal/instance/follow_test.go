package instance

import (
	"slices"
	"testing"
	"time"
)

// TestSlowFollow: a server that has to be restarted to follow a leader may take any time to replay
// its log. It is not killed meanwhile, after which it would begin anew.
func TestSlowFollow(t *testing.T) {
	run(t, func(t *testing.T, d *database) {
		t.Helper()
		replica := pods[(slices.Index(pods, d.leader())+1)%3]
		d.crash(replica)
		d.start(replica)
		d.engines[replica].Slow("Follow", 2*time.Minute)
		d.await("replica that receives again", 3*time.Minute, func() bool { return d.engines[replica].Observe().Connected })
		if done := d.engines[replica].Operations(); !slices.Equal(done, []string{"Start", "Follow"}) {
			t.Errorf("the server did %q", done)
		}
	})
}
