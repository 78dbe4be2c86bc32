// Package instances runs databases on this machine as Kubernetes would: the real program with real
// servers, each in the file system of its image and on an address of its own, with a real API
// server. What is between them can be cut, stopped and killed. There is no kubelet.
package instances
