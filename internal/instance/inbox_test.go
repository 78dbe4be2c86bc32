package instance

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// TestBurst: the loop drops nothing, however much arrives while it is busy, or after a pause. A
// dropped function could be an answer for which a peer waits, or the end of an operation.
func TestBurst(t *testing.T) {
	run(t, func(t *testing.T, d *database) {
		p, err := d.program("db-0", "db-1")
		if err != nil {
			t.Fatal(err)
		}
		const burst = 10 * maxTurns
		var done atomic.Int64
		busy := make(chan struct{})
		go p.instance.post(t.Context(), func() { <-busy })
		synctest.Wait()
		for range burst {
			go p.instance.post(t.Context(), func() { done.Add(1) })
		}
		synctest.Wait()
		close(busy)
		synctest.Wait()
		if got := done.Load(); got != burst {
			t.Errorf("the loop did %d of %d things that it was given", got, burst)
		}
	})
}
