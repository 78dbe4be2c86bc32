package workload

import (
	"runtime"
	"strings"
	"testing"
)

// TestHashText: a text has the hash of its bytes, whatever its length, and is not copied whole.
func TestHashText(t *testing.T) {
	for _, length := range []int{0, 1, pieceBytes - 1, pieceBytes, pieceBytes + 1, 3*pieceBytes + 7} {
		text := strings.Repeat("0123456789abcdefg", length/17+1)[:length]
		if got, want := HashText(text), HashKey([]byte(text)); got != want {
			t.Errorf("%d bytes: got %s, want %s", length, got, want)
		}
	}
	long := strings.Repeat("x", 1<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	HashText(long)
	runtime.ReadMemStats(&after)
	if taken := after.TotalAlloc - before.TotalAlloc; taken > 1<<18 {
		t.Errorf("it took %d bytes to hash %d", taken, len(long))
	}
}
