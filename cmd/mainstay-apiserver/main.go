// Command mainstay-apiserver serves resources behind the Kubernetes API server.
package main

import (
	"fmt"
	"os"

	genericapiserver "k8s.io/apiserver/pkg/server"

	"github.com/mainstay-platform/mainstay/internal/aggregated"
)

func main() {
	if err := aggregated.Command(os.Stderr).ExecuteContext(genericapiserver.SetupSignalContext()); err != nil {
		fmt.Fprintln(os.Stderr, "mainstay-apiserver:", err)
		os.Exit(1)
	}
}
