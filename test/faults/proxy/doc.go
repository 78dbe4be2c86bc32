// Package proxy stands between a client, such as the manager, and a Kubernetes API server, and lets requests
// fail as a plan says: the same requests in the same way each time. It is for tests.
//
//	plan, err := proxy.ReadPlan("lost-answer.yaml")
//	faulty, err := proxy.New(cluster, plan) // cluster: a rest.Config that reaches the API server
//	defer faulty.Close()
//	config := faulty.Connect()              // for the client under test
//	...
//	fired := faulty.Fired()                 // which rule hit which request
//
// Beside its plan it can be told at any time to be away (Pause, Resume), to end its clients as if
// their processes had been killed (Kill), and to cut or stall the watches that are open (CutWatches, StallWatches).
//
// Clients speak plain HTTP/1.1 to it, on the loopback, so that each request that is dropped is dropped alone;
// it speaks to the API server with the credentials that it was given: whoever reaches its port has
// them too. Answers pass as JSON, whatever the client prefers, so that the events of a watch can be told apart.
//
// Two clients of one plan count requests together. net/http and client-go repeat a GET whose connection was
// dropped, by themselves: that is a request of its own.
package proxy
