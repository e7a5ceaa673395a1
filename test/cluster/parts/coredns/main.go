// Package main is CoreDNS with the plugins that the test cluster needs.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/loadbalance"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/template"
)

func main() {
	// The order is that of the plugin chain. template answers NXDOMAIN for external names: there is no forwarding.
	dnsserver.Directives = []string{"ready", "health", "errors", "cache", "template", "loadbalance", "kubernetes"}
	coremain.Run()
}
