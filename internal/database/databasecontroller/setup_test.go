package databasecontroller

import (
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
)

// TestAddressType: the family of the cluster's addresses is that of the API server's.
func TestAddressType(t *testing.T) {
	for apiServer, want := range map[string]discoveryv1.AddressType{
		"https://10.96.0.1:443":         discoveryv1.AddressTypeIPv4,
		"https://[fd00:10:96::1]:443":   discoveryv1.AddressTypeIPv6,
		"https://[::ffff:10.96.0.1]:99": discoveryv1.AddressTypeIPv4,
		"https://api.example.com:6443":  discoveryv1.AddressTypeIPv4,
		"127.0.0.1:6443":                discoveryv1.AddressTypeIPv4,
		"":                              discoveryv1.AddressTypeIPv4,
	} {
		if got := addressType(apiServer); got != want {
			t.Errorf("%q: %s, want %s", apiServer, got, want)
		}
	}
}
