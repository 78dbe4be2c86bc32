// Package testenv starts API servers and managers for tests, and has helpers for them.
//
//	server := testenv.New(t, testenv.Options{Definitions: true})
//	namespace := server.Namespace(t)
//	manager := testenv.StartManager(t, server.Config, testenv.ManagerOptions{Namespace: namespace})
//	...
//	manager.Settle(t)
//
// A manager with a Namespace reads only that namespace, so tests can run in parallel on one API
// server.
//
// The binaries come from the folder in the environment variable KUBEBUILDER_ASSETS.
package testenv
