package webapp

import (
	"github.com/mainstay-platform/mainstay/api"
	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/naming"
)

const (
	// Controller is the name of the kind's controller; its field manager is mainstay/webapp.
	Controller = "webapp"
	// Component is the value of app.kubernetes.io/component on all objects of a WebApp.
	Component = "webapp"
	// ContainerName is the application container's name, which users rely on (kubectl logs -c webapp).
	ContainerName = "webapp"
	// portName is the name of the application's port in the pod, the Service and its probes.
	portName = "http"
	// tmpVolume is the empty directory at tmpPath if the root file system is read-only.
	tmpVolume = "tmp"
	tmpPath   = "/tmp"
)

// Every child has the WebApp's name: there is one of each kind. The exception is the ConfigMap,
// whose name users would choose for the application's own configuration.

// DashboardName returns the name of the ConfigMap with the dashboard of a WebApp.
func DashboardName(name string) string { return name + "-dashboard" }

// part returns the WebApp as part of its application.
func part(app *msappsv1.WebApp) naming.Part {
	return naming.Part{Name: app.Name, Component: Component, PartOf: app.Labels[api.LabelPartOf]}
}
