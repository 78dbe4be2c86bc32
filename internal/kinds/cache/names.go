package cache

import (
	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

const (
	// Controller is the name of the kind's controller; its field manager is mainstay/cache.
	Controller = "cache"
	// Component is the value of app.kubernetes.io/component on all objects of a Cache.
	Component = "cache"
	// ContainerName is the server's container, which users rely on (kubectl exec -c valkey).
	ContainerName = "valkey"
	// engine is the server, as our program in the pod calls it.
	engine = "valkey"
	// user is the application's, by its name in the server.
	user = "app"
)

// The ports of an instance, beside those that every database has.
const (
	serverPort = 6379
	// metricsPort is that of Redis exporters.
	metricsPort = 9121
)

// PasswordKey is the key of the password in the Secret that spec.passwordSecret names.
const PasswordKey = "password"

// Ref names a child.
func Ref(c *databasev1.Cache, kind, name string) plan.Ref {
	return (&database.Database{Namespace: c.Namespace}).Ref(kind, name)
}

// Secrets returns the names of the Secrets whose content the manager reads for a Cache. It does not
// read those of spec.imagePullSecrets.
func Secrets(c *databasev1.Cache) []string {
	names := []string{database.CertificatesName(c.Name), database.ApplicationName(c.Name), database.MetricsName(c.Name)}
	if c.Spec.PasswordSecret != "" {
		names = append(names, c.Spec.PasswordSecret)
	}
	return names
}
