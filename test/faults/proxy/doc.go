// Package proxy is a proxy between a client, such as the manager, and a Kubernetes API server. It
// makes requests fail by a plan: the same requests in the same way each time. It is for tests.
//
//	plan, err := proxy.ReadPlan("lost-answer.yaml")
//	faulty, err := proxy.New(cluster, plan) // cluster: a rest.Config that reaches the API server
//	defer faulty.Close()
//	config := faulty.Connect()              // for the client under test
//	...
//	fired := faulty.Fired()                 // which rule hit which request
//
// Besides its plan, the proxy can at any time simulate an outage (Pause, Resume), kill its clients
// as if their processes had been killed (Kill), and cut or stall open watches (CutWatches,
// StallWatches).
//
// Clients connect by plain HTTP/1.1 on the loopback interface, so that dropping one request affects
// no other. The proxy uses its own credentials for the API server, so all programs that reach its
// port have them too. Answers are JSON, whatever the client accepts, so that the proxy can tell the
// events of a watch apart.
//
// Requests of all clients of one plan are counted together. net/http and client-go themselves
// repeat a GET whose connection was dropped: that counts as another request.
package proxy
