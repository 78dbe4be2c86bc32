// Command coredns is CoreDNS with only the plugins that the testbed's Corefile names.
//
// The stock build carries some fifty plugins (and the clients of three clouds):
// leaving them out makes a cold build several times shorter.
package main

import (
	"github.com/coredns/coredns/coremain"

	// Each import registers the directive of the same name.
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/loadbalance"
	_ "github.com/coredns/coredns/plugin/log"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/template"
)

func main() { coremain.Run() }
