package postgresql

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

	"github.com/mainstay-platform/mainstay/api"
	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/monitoring"
	"github.com/mainstay-platform/mainstay/internal/kit/naming"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

const (
	// Controller is the name of the kind's controller; its field manager is mainstay/postgresql.
	Controller = "postgresql"
	// Component is the value of app.kubernetes.io/component on all objects of a PostgreSQL.
	Component = "postgresql"
	// ContainerName is the server's container, which users rely on (kubectl exec -c postgres).
	ContainerName = "postgres"
	// installName is the init container that brings our program.
	installName = "install"
	// MaxReplicas is the highest number of instances. Certificates are issued for so many at once.
	MaxReplicas = 5
)

// The ports of an instance.
const (
	serverPort = 5432
	peerPort   = 8443
	probePort  = 8080
	// metricsPort is that of PostgreSQL's exporters.
	metricsPort = 9187
)

// PodName is the name of an instance, counted from 0.
func PodName(database string, ordinal int) string { return fmt.Sprintf("%s-%d", database, ordinal) }

// podNames are the names of so many instances.
func podNames(database string, count int32) []string {
	var names []string
	for ordinal := range int(min(count, MaxReplicas)) {
		names = append(names, PodName(database, ordinal))
	}
	return names
}

// VolumeName is the name of the volume claim of an instance: what a StatefulSet calls it.
func VolumeName(database string, ordinal int) string { return "data-" + PodName(database, ordinal) }

// WALVolumeName is the name of the volume claim of an instance for the server's log.
func WALVolumeName(database string, ordinal int) string { return "wal-" + PodName(database, ordinal) }

// CertificatesName is the name of the Secret with the certificates of all instances.
func CertificatesName(database string) string { return database + "-certificates" }

// AuthorityName is the name of the ConfigMap with the authorities that sign the servers'
// certificates.
func AuthorityName(database string) string { return database + "-ca" }

// ApplicationName is the name of the Secret with which an application connects.
func ApplicationName(database string) string { return database + "-app" }

// AccountName is the name of the instances' ServiceAccount, and of their Role and its binding.
func AccountName(database string) string { return database + "-instance" }

// ordinalOf returns the number of a pod of the database; -1 if it is none.
func ordinalOf(database, pod string) int {
	text, found := strings.CutPrefix(pod, database+"-")
	ordinal, err := strconv.Atoi(text)
	if !found || err != nil || ordinal < 0 || PodName(database, ordinal) != pod {
		return -1
	}
	return ordinal
}

// part returns the database as part of its application.
func part(db *databasev1.PostgreSQL) naming.Part {
	return naming.Part{Name: db.Name, Component: Component, PartOf: db.Labels[api.LabelPartOf]}
}

// groups are the API groups of the kinds of children; the core group where a kind is missing.
var groups = map[string]string{
	"StatefulSet": appsv1.GroupName, "Lease": coordinationv1.GroupName, "EndpointSlice": discoveryv1.GroupName,
	"Role": rbacv1.GroupName, "RoleBinding": rbacv1.GroupName, "PodDisruptionBudget": policyv1.GroupName,
	"NetworkPolicy": networkingv1.GroupName, "PodMonitor": monitoring.GroupVersion.Group,
}

// Ref names a child.
func Ref(db *databasev1.PostgreSQL, kind, name string) plan.Ref {
	return plan.Ref{Group: groups[kind], Kind: kind, Namespace: db.Namespace, Name: name}
}

// Secrets returns the names of the Secrets of a PostgreSQL whose content the manager reads. It does
// not read those of spec.imagePullSecrets.
func Secrets(db *databasev1.PostgreSQL) []string {
	return []string{CertificatesName(db.Name), ApplicationName(db.Name), MetricsName(db.Name)}
}
