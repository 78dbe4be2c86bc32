// Command metrics-server is the Kubernetes metrics server, pinned by this module's go.mod.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"sigs.k8s.io/metrics-server/cmd/metrics-server/app"

	genericapiserver "k8s.io/apiserver/pkg/server"

	_ "k8s.io/component-base/logs/json/register"
)

func main() {
	os.Exit(cli.Run(app.NewMetricsServerCommand(genericapiserver.SetupSignalHandler())))
}
