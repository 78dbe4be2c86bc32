// Command mainstay runs the operator.
package main

import (
	"fmt"
	"os"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/mainstay-platform/mainstay/internal/setup"
)

func main() {
	if err := setup.Command(os.Stderr).ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "mainstay:", err)
		os.Exit(1)
	}
}
