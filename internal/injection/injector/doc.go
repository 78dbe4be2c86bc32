// Package injector reads and writes for the kinds Instrumentation and ClusterInstrumentation, which differ in their scope only; package
// injection decides.
//
// What is injected is written by a webhook, within each write of a workload's owner, so that owners are never fought. The controllers
// find, in the cache, what is not as it should be, and have the webhook look at it, by a patch of one annotation. Without webhooks they patch the
// pod templates themselves.
package injector
