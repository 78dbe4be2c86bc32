package database

import (
	"fmt"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/mainstay-platform/mainstay/internal/kit/monitoring"
)

const (
	// InstallName is the init container that brings our program.
	InstallName = "install"
	// MaxReplicas is the highest number of instances. Certificates are issued for so many at once.
	MaxReplicas = 5
)

// The ports of every instance, beside those of its server.
const (
	PeerPort  = 8443
	ProbePort = 8080
)

// MetricsPortName is the name of the port of the metrics in a pod.
const MetricsPortName = "metrics"

// PodName is the name of an instance, counted from 0.
func PodName(database string, ordinal int) string { return fmt.Sprintf("%s-%d", database, ordinal) }

// PodNames are the names of so many instances.
func PodNames(database string, count int32) []string {
	var names []string
	for ordinal := range int(min(count, MaxReplicas)) {
		names = append(names, PodName(database, ordinal))
	}
	return names
}

// VolumeName is the name of the volume claim of an instance: what a StatefulSet calls it.
func VolumeName(database string, ordinal int) string { return "data-" + PodName(database, ordinal) }

// CertificatesName is the name of the Secret with the certificates of all instances.
func CertificatesName(database string) string { return database + "-certificates" }

// AuthorityName is the name of the ConfigMap with the authorities that sign the servers'
// certificates.
func AuthorityName(database string) string { return database + "-ca" }

// ApplicationName is the name of the Secret with which an application connects.
func ApplicationName(database string) string { return database + "-app" }

// AccountName is the name of the instances' ServiceAccount, and of their Role and its binding.
func AccountName(database string) string { return database + "-instance" }

// MetricsName is the name of the Secret with which Prometheus reads the metrics.
func MetricsName(database string) string { return database + "-metrics" }

// ReplicasName is the name of the Service that leads to the replicas.
func ReplicasName(database string) string { return database + "-ro" }

// AllName is the name of the Service that leads to all instances that take connections.
func AllName(database string) string { return database + "-r" }

// OrdinalOf returns the number of a pod of the database; -1 if it is none.
func OrdinalOf(database, pod string) int {
	text, found := strings.CutPrefix(pod, database+"-")
	ordinal, err := strconv.Atoi(text)
	if !found || err != nil || ordinal < 0 || PodName(database, ordinal) != pod {
		return -1
	}
	return ordinal
}

// groups are the API groups of the kinds of children; the core group where a kind is missing.
var groups = map[string]string{
	"StatefulSet": appsv1.GroupName, "Deployment": appsv1.GroupName, "Lease": coordinationv1.GroupName, "EndpointSlice": discoveryv1.GroupName,
	"Role": rbacv1.GroupName, "RoleBinding": rbacv1.GroupName, "PodDisruptionBudget": policyv1.GroupName,
	"NetworkPolicy": networkingv1.GroupName, "PodMonitor": monitoring.GroupVersion.Group,
}
