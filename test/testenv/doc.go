// Package testenv starts API servers and managers for tests, and has what such tests share.
//
//	server := testenv.New(t, testenv.Options{Definitions: true})
//	namespace := server.Namespace(t)
//	manager := testenv.StartManager(t, server.Config, testenv.ManagerOptions{Namespace: namespace})
//	...
//	manager.Settle(t)
//
// A manager with a Namespace sees that namespace and nothing else, so that tests run in parallel on one API server.
//
// The programs come from the folder that the environment variable KUBEBUILDER_ASSETS names.
package testenv
