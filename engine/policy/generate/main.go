// Command generate prints the admission policies of an operator that is built on the engine.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"strings"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/engine/policy"
)

func main() {
	log.SetFlags(0)
	if err := run(); err != nil {
		log.Fatalln("policy:", err)
	}
}

func run() error {
	var o policy.Options
	var kinds, types, account, policies string
	flag.StringVar(&o.Name, "name", "", "prefix of the names of the policies")
	flag.StringVar(&o.Group, "group", "", "API group of the kinds")
	flag.StringVar(&kinds, "kinds", "", "kinds and their resources: Guestbook=guestbooks,Gallery=galleries")
	flag.StringVar(&types, "types", "Service,Stateful,Database,Job", "component types of the kinds")
	flag.StringVar(&o.LabelPrefix, "label-prefix", "apps.holdfast.dev", "prefix of labels and annotations, as in engine.ManagerOptions")
	flag.StringVar(&account, "account", "", "ServiceAccount of the operator: NAMESPACE/NAME")
	flag.StringVar(&o.Lease, "lease", "", "ID of the leader election (default: the name of the ServiceAccount)")
	flag.StringVar(&o.ServiceAccounts, "service-accounts", "", "CEL expression for the names of the ServiceAccounts that an object uses: [object.spec.serviceAccountName]")
	flag.StringVar(&o.DeletesData, "deletes-data", "", "CEL expression that is true if deleting an object deletes its data: object.spec.deletionPolicy == 'Delete'")
	flag.StringVar(&policies, "policies", "requester-rights,keep-data,operator-account", "policies to print")
	flag.Parse()
	for pair := range strings.SplitSeq(kinds, ",") {
		kind, resource, _ := strings.Cut(pair, "=")
		o.Kinds = append(o.Kinds, policy.Kind{Kind: kind, Resource: resource})
	}
	for t := range strings.SplitSeq(types, ",") {
		o.Types = append(o.Types, appsapi.ComponentType(t))
	}
	o.AccountNamespace, o.AccountName, _ = strings.Cut(account, "/")
	if o.Lease == "" {
		o.Lease = o.AccountName
	}
	for i, name := range strings.Split(policies, ",") {
		manifest, err := policy.Manifest(policy.Policy(name), o)
		if err != nil {
			return err
		}
		if i > 0 {
			fmt.Println("---")
		}
		if _, err := os.Stdout.Write(manifest); err != nil {
			return err
		}
	}
	return nil
}
