package instances

import (
	"fmt"
	"os"
	"testing"
)

// TestClaimBlock: two databases share no block, and that of one that has ended is used again.
func TestClaimBlock(t *testing.T) {
	t.Parallel()
	scope := fmt.Sprintf("%s-%d", t.Name(), os.Getpid()) // no other process has it
	last, release, err := claimBlock(scope, maxBlocks-1)
	if err != nil || last != firstBlock+maxBlocks-1 {
		t.Fatalf("the last block is %d (%v), want %d", last, err, firstBlock+maxBlocks-1)
	}
	next, releaseNext, err := claimBlock(scope, maxBlocks-1)
	if err != nil || next != firstBlock {
		t.Fatalf("the block after the last one is %d (%v), want %d", next, err, firstBlock)
	}
	defer releaseNext()
	release()
	again, releaseAgain, err := claimBlock(scope, maxBlocks-1)
	if err != nil || again != last {
		t.Fatalf("a released block is not used again: got %d (%v), want %d", again, err, last)
	}
	releaseAgain()
}
