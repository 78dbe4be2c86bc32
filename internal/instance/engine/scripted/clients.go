package scripted

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
)

// Write writes text as a client of the server of a pod. It returns nil when the write is
// acknowledged, and an error when it is unknown whether it was written, or the server does not
// lead.
func (s *Servers) Write(ctx context.Context, pod, text string) error {
	s.mu.Lock()
	server := s.servers[pod]
	if server == nil || server.state != election.Leading || s.cut[pod] {
		s.mu.Unlock()
		return fmt.Errorf("%s accepts no writes", pod)
	}
	server.data.Writes = append(server.data.Writes, text)
	end, life, err := len(server.data.Writes), server.lives, server.store()
	s.mu.Unlock()
	for err == nil {
		s.mu.Lock()
		switch {
		case server.lives != life || server.state != election.Leading:
			err = errors.New("the connection was lost")
		case server.acknowledges(end):
			s.acknowledged = append(s.acknowledged, text)
			s.mu.Unlock()
			return nil
		}
		s.mu.Unlock()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(beatEvery / 10):
		}
	}
	return err
}

// Leading returns the pods whose servers accept writes.
func (s *Servers) Leading() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var pods []string
	for pod, server := range s.servers {
		if server.state == election.Leading {
			pods = append(pods, pod)
		}
	}
	slices.Sort(pods)
	return pods
}

// Lost returns the acknowledged writes that are not in the data of a pod.
func (s *Servers) Lost(pod string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var lost []string
	for _, text := range s.acknowledged {
		if !slices.Contains(s.servers[pod].data.Writes, text) {
			lost = append(lost, text)
		}
	}
	return lost
}

// Crash ends the server of a pod as a signal would. The program has to notice that itself.
func (s *Servers) Crash(pod string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	server := s.servers[pod]
	server.lives++
	server.state = election.Stopped
	server.notify()
}
