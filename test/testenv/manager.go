package testenv

import (
	"context"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/mainstay-platform/mainstay/internal/setup"
)

// Settings returns the settings of production, but without leader election and ports, because many
// managers run in one process.
func Settings() setup.Settings {
	settings := setup.DefaultSettings()
	settings.LeaderElection = false
	settings.HealthAddress = "0"
	settings.SkipNameValidation = true
	settings.ShutdownTimeout = Within // a manager that takes longer ends with an error
	return settings
}

// ManagerOptions configure StartManager.
type ManagerOptions struct {
	// Namespace is the only namespace that the manager reads, although it asks for all. Empty means
	// all of them.
	Namespace string
	// Settings changes the result of Settings. May be nil.
	Settings func(*setup.Settings)
	// Requests records the manager's requests. Nil means a new recorder.
	Requests *Requests
	// Ended is called with the error, or nil, that Start of the manager returns. Without Ended, an
	// error fails the test.
	Ended func(error)
}

// Manager is a complete manager that runs in the process of the test.
type Manager struct {
	*setup.Operator
	// Requests are the requests of the manager.
	Requests *Requests
	// Stop stops the manager and waits until it has ended. It is also called at the end of the test.
	Stop func()
	// Done is closed when the manager has ended, also if nothing has stopped it.
	Done chan struct{}
}

// StartManager starts a manager as in production, and returns when its caches are filled.
func StartManager(t testing.TB, config *rest.Config, options ManagerOptions) *Manager {
	t.Helper()
	m := RunManager(t, config, options)
	if !m.GetCache().WaitForCacheSync(t.Context()) {
		t.Fatal("the caches did not fill")
	}
	return m
}

// RunManager is like StartManager, but does not wait for the caches.
func RunManager(t testing.TB, config *rest.Config, options ManagerOptions) *Manager {
	t.Helper()
	m := &Manager{Requests: options.Requests, Done: make(chan struct{})}
	if m.Requests == nil {
		m.Requests = &Requests{}
	}
	config = rest.CopyConfig(config)
	if options.Namespace != "" {
		namespaced, err := FindNamespaced(config)
		if err != nil {
			t.Fatal(err)
		}
		config.Wrap(namespaced.Confine(options.Namespace))
		m.Requests.confineTo(options.Namespace, namespaced)
	}
	config.Wrap(m.Requests.Wrap)
	settings := Settings()
	if options.Settings != nil {
		options.Settings(&settings)
	}
	// Not the test's context: that ends before Cleanup, and only Stop may end the manager.
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	operator, err := setup.New(ctx, config, settings)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	m.Operator = operator
	done := make(chan error, 1)
	go func() {
		done <- operator.Start(ctx)
		close(m.Done)
	}()
	m.Stop = sync.OnceFunc(func() {
		cancel()
		err := <-done
		switch {
		case options.Ended != nil:
			options.Ended(err)
		case err != nil:
			t.Errorf("the manager ended with: %v", err)
		}
	})
	t.Cleanup(m.Stop)
	return m
}

// Settle waits until the manager has received all that was written and has nothing left to do. It
// returns the number of requests so far. See Requests.Settle.
func (m *Manager) Settle(t testing.TB) int {
	t.Helper()
	return m.Requests.Settle(t)
}
