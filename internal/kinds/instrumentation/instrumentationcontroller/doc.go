// Package instrumentationcontroller reads and writes for the kinds Instrumentation and
// ClusterInstrumentation, which differ in their scope only.
//
// A webhook injects agents within each write of a workload's owner, so that Mainstay never competes
// with owners. The controllers find, in the cache, workloads that differ from their desired state,
// and make the webhook compose them by patching one annotation. Without webhooks the controllers
// patch the pod templates themselves.
package instrumentationcontroller
