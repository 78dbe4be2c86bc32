package testenv

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// running are the servers that an interrupt stops. envtest gives them a process group of their own,
// so that Ctrl-C in a terminal ends the tests, and not what they have started.
var running = struct {
	sync.Mutex
	servers map[*Server]bool
	watch   sync.Once
}{servers: map[*Server]bool{}}

// ending are the signals that end the tests. The end of their terminal does, unless nohup has them
// outlive it.
func ending() []os.Signal {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}

// begins notes a server, before any process of it runs.
func begins(s *Server) {
	running.watch.Do(func() {
		interrupts := make(chan os.Signal, 1)
		signal.Notify(interrupts, ending()...)
		go func() {
			<-interrupts
			stopAll()
			const interrupted = 130 // as shells say it
			os.Exit(interrupted)
		}()
	})
	running.Lock()
	defer running.Unlock()
	running.servers[s] = true
}

// ends forgets a server that has stopped.
func ends(s *Server) {
	running.Lock()
	defer running.Unlock()
	delete(running.servers, s)
}

// stopAll stops the servers that run. Tests that use them fail meanwhile, or wait.
func stopAll() {
	running.Lock()
	defer running.Unlock()
	var stopped sync.WaitGroup
	for s := range running.servers {
		stopped.Go(func() { _ = s.Environment.Stop() })
	}
	stopped.Wait()
}
