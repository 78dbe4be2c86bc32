// Package configmonitor decides what is particular to a ConfigMonitor: whether its spec can be carried out, which pods it
// evicts, and what it has to say of itself. Which workloads are restarted, and when, is package workload's to decide.
package configmonitor
