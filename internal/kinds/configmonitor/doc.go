// Package configmonitor decides what is specific to ConfigMonitors: whether a spec is valid, which
// pods are evicted, and what the status says. Package workload decides which workloads are
// restarted, and when. It does no I/O.
package configmonitor
