package main

import (
	"context"
	"strings"
	"testing"
)

func TestServe(t *testing.T) {
	for _, address := range []string{":0", "0.0.0.0:0"} {
		if err := serve(t.Context(), address); err == nil || !strings.Contains(err.Error(), "loopback") {
			t.Errorf("%s: got %v", address, err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := serve(ended, "127.0.0.1:0"); err != nil {
		t.Error(err)
	}
}
