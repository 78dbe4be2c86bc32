package ecommerceplatform

import (
	"github.com/mainstay-platform/mainstay/api"
	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/naming"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

const (
	// Controller is the name of the kind's controller; its field manager is
	// mainstay/ecommerceplatform.
	Controller = "ecommerceplatform"
	// Kind is the name of the kind.
	Kind = "EcommercePlatform"
	// Finalizer keeps a platform until its parts are deleted, in order.
	Finalizer = api.Domain + "/ecommerceplatform"
	// Label has the name of the platform, on all its parts and their children.
	Label = "platform"
)

// The components of the AppStack. Their objects are named PLATFORM-COMPONENT.
const (
	databaseName = "db"
	cacheName    = "cache"
	backendName  = "backend"
	frontendName = "frontend"
)

// The types of the components, and the kinds to which the backend is bound.
const (
	webAppType     = "webApp"
	postgresqlType = "postgresql"
	mysqlType      = "mysql"
	cacheType      = "cache"
	postgresqlKind = "PostgreSQL"
	mysqlKind      = "MySQLCluster"
	cacheKind      = "Cache"
)

// objectName is the name of a component's object.
func objectName(platform *platformv1.EcommercePlatform, component string) string {
	return platform.Name + "-" + component
}

// Ref names the AppStack of a platform.
func Ref(platform *platformv1.EcommercePlatform) plan.Ref {
	return plan.Ref{Group: platformv1.GroupVersion.Group, Kind: "AppStack", Namespace: platform.Namespace, Name: platform.Name}
}

// ownLabels are the labels of the AppStack. It hands on the first to all components.
func ownLabels(platform *platformv1.EcommercePlatform) map[string]string {
	labels := naming.Part{Name: platform.Name, Component: Controller, PartOf: platform.Labels[api.LabelPartOf]}.Labels()
	delete(labels, api.LabelApp) // it would select the components, too
	return naming.Merged(labels, map[string]string{Label: platform.Name})
}
