// Package databases lets things happen to a PostgreSQL on a real cluster of three nodes, while a
// client writes to it through its Service: pods, processes, nodes, volumes, the Lease, the manager
// and the control plane. It says for how long no write was acknowledged, and checks that none was
// lost. `make test-databases` starts the testbed and sets the environment that it needs.
package databases
