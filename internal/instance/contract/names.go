package contract

import "github.com/mainstay-platform/mainstay/api"

// EndpointManager is the value of the label endpointslice.kubernetes.io/managed-by of the primary's
// EndpointSlice, which the primary's instance manager writes. Kubernetes' own controllers ignore a
// slice with this label.
const EndpointManager = "instance.database." + api.Domain

// PortName is the name of the server's port in Services and in the primary's EndpointSlice. Both
// must be the same, because Kubernetes matches ports by name.
const PortName = "server"

// PlainPortName is the name of the port without TLS, of servers that have one in addition to the
// port with TLS.
const PlainPortName = "plain"

// SettingsName returns the name of the ConfigMap with the settings of a database's instances.
func SettingsName(database string) string { return database + "-config" }

// PeerServiceName returns the name of the headless Service that gives each instance a DNS name,
// ready or not.
func PeerServiceName(database string) string { return database + "-pods" }

// WriteServiceName returns the name of the Service that routes to the primary, and of its
// EndpointSlice.
func WriteServiceName(database string) string { return database + "-rw" }

// Host returns the DNS name of an instance.
func Host(pod, database, namespace string) string {
	return pod + "." + PeerServiceName(database) + "." + namespace + ".svc"
}
