package contract

import "github.com/mainstay-platform/mainstay/api"

// EndpointManager is the manager of the primary's EndpointSlice, which is the primary's program.
// With this label, Kubernetes' own controllers leave the slice alone.
const EndpointManager = "instance.database." + api.Domain

// PortName is the name of the server's port in Services. That in the primary's EndpointSlice must
// be the same: Kubernetes finds the endpoints of a Service's port by it.
const PortName = "server"

// PlainPortName is the name of a port without TLS, of servers that have one beside the other.
const PlainPortName = "plain"

// SettingsName is the name of the ConfigMap with the settings of a database's instances.
func SettingsName(database string) string { return database + "-config" }

// PeerServiceName is the name of the Service that gives each instance a name, ready or not.
func PeerServiceName(database string) string { return database + "-pods" }

// WriteServiceName is the name of the Service, and of its EndpointSlice, that leads to the primary.
func WriteServiceName(database string) string { return database + "-rw" }

// Host is the name by which an instance is reached.
func Host(pod, database, namespace string) string {
	return pod + "." + PeerServiceName(database) + "." + namespace + ".svc"
}
