package testenv

import (
	"context"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/mainstay-platform/mainstay/internal/setup"
)

// Settings are those of production, without a leader election and without ports: many managers run in one process.
func Settings() setup.Settings {
	settings := setup.DefaultSettings()
	settings.LeaderElection = false
	settings.HealthAddress = "0"
	settings.SkipNameValidation = true
	return settings
}

// ManagerOptions are what a manager is started with.
type ManagerOptions struct {
	// Namespace is the only one that the manager sees, though it asks for all; empty shows it all of them.
	Namespace string
	// Settings changes what Settings returns; nil for nothing.
	Settings func(*setup.Settings)
	// Requests records the manager's requests; nil makes a new recorder.
	Requests *Requests
	// Ended takes the error with which the manager ended, nil too. Without Ended, an error fails the test.
	Ended func(error)
}

// Manager is a whole manager that runs in the test's process.
type Manager struct {
	*setup.Operator
	// Requests are those that it has made.
	Requests *Requests
	// Stop ends it, and returns when it has ended. The end of the test calls it too.
	Stop func()
}

// StartManager starts a manager as it runs in production, and returns when its caches are filled.
func StartManager(t testing.TB, config *rest.Config, options ManagerOptions) *Manager {
	t.Helper()
	m := RunManager(t, config, options)
	if !m.GetCache().WaitForCacheSync(t.Context()) {
		t.Fatal("the caches did not fill")
	}
	return m
}

// RunManager is StartManager, but does not wait for the caches.
func RunManager(t testing.TB, config *rest.Config, options ManagerOptions) *Manager {
	t.Helper()
	m := &Manager{Requests: options.Requests}
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
	// Not the test's context: that ends before Cleanup does, and Stop is to end the manager in both cases.
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	operator, err := setup.New(ctx, config, settings)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	m.Operator = operator
	done := make(chan error, 1)
	go func() { done <- operator.Start(ctx) }()
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

// Settle waits until the manager has seen all that was written and has nothing left to do, and returns how many requests it had made by
// then. See Requests.Settle.
func (m *Manager) Settle(t testing.TB) int {
	t.Helper()
	return m.Requests.Settle(t)
}
