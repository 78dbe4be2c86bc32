package instances

import (
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
)

// blocks counts the databases of this process.
var blocks atomic.Int32

const (
	// firstBlock leaves 127.1.0.1 alone, on which a run looks for free ports before it starts.
	firstBlock = 2
	// maxBlocks is how many databases have addresses of their own at a time.
	maxBlocks = 250
)

// claimBlock returns a block of addresses that no other database of the scope has, of this process
// or another, until it is released. It looks from the ordinal number first on.
//
// The claim is a socket with an abstract address: like 127.0.0.0/8 itself, that is of one network
// namespace, and it ends with the process (unix(7)).
func claimBlock(scope string, first int) (block int, release func(), err error) {
	for i := range maxBlocks {
		block := firstBlock + (first+i)%maxBlocks
		listener, err := net.Listen("unix", fmt.Sprintf("@%s-%d", scope, block))
		if err == nil {
			return block, func() { _ = listener.Close() }, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return 0, nil, fmt.Errorf("claiming the addresses 127.%d.0.0: %w", block, err)
		}
	}
	return 0, nil, fmt.Errorf("all %d blocks of addresses are in use", maxBlocks)
}
