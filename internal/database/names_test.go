package database_test

import (
	"testing"

	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/instance/peers"
)

// TestCommonName: the instances know each other by what the manager puts into their certificates.
func TestCommonName(t *testing.T) {
	d := &database.Database{Namespace: "shop", Name: "db"}
	if got := d.CommonName(1); got != peers.CertificatePrefix+"db-1" {
		t.Errorf("got %s", got)
	}
}

// TestOrdinalOf: only what PodName returns is a pod of the database.
func TestOrdinalOf(t *testing.T) {
	for pod, want := range map[string]int{
		database.PodName("db", 0): 0, database.PodName("db", 4): 4, "db-01": -1, "db--1": -1, "db-1x": -1, "db": -1, "other-0": -1, "db-db-0": -1,
	} {
		if got := database.OrdinalOf("db", pod); got != want {
			t.Errorf("%s: got %d, want %d", pod, got, want)
		}
	}
}
