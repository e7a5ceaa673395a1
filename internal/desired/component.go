package desired

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Component is a component with everything it needs in the cluster.
type Component struct {
	Name string
	// Suspended components are looked at, not written.
	Suspended bool
	// Workload is the child that runs the pods.
	Workload ID
	// WorkloadID finds its pods by label.
	WorkloadID string
	// Children in the order in which they are listed to people; they do not depend on
	// each other.
	Children []Child
	// Absent are children that this component could have and must not have now.
	Absent []ID
	// Endpoints are where the component can be reached inside the cluster.
	Endpoints []appsapi.Endpoint
	// ProgressDeadlineSeconds is after how long without progress it counts as stalled.
	ProgressDeadlineSeconds int32
}

// Selector finds the pods of the component, in the syntax of kubectl.
func (c Component) Selector() string { return labels.Set(selector(c.WorkloadID)).String() }

// For says what a component needs.
func For(owner Owner, c appsapi.Component) Component {
	name := Name(owner, c)
	out := Component{
		Name:                    c.Name,
		Suspended:               c.Suspend,
		Workload:                ID{Kind: KindDeployment, Name: name},
		WorkloadID:              WorkloadID(KindDeployment.Kind, name),
		Children:                []Child{deployment(owner, c, name)},
		ProgressDeadlineSeconds: defaultProgressDeadline,
	}
	if s := c.Service.Update.ProgressDeadlineSeconds; s != 0 {
		out.ProgressDeadlineSeconds = s
	}
	s := service(owner, c, name)
	if len(c.Service.Ports) == 0 {
		out.Absent = append(out.Absent, s.ID)
		return out
	}
	out.Children = append(out.Children, s)
	for _, p := range c.Service.Ports {
		out.Endpoints = append(out.Endpoints, endpoint(owner.Namespace, name, p))
	}
	return out
}

// endpoint names the scheme that the port's name or number tells, and otherwise http for
// what has no name at all: a lone port is nearly always a web server's.
func endpoint(namespace, service string, p appsapi.Port) appsapi.Endpoint {
	name, scheme := p.Name, strings.ToLower(string(protocol(p)))
	switch {
	case protocol(p) != corev1.ProtocolTCP:
	case strings.HasPrefix(name, "https"), name == "" && p.Port == 443:
		scheme = "https"
	case strings.HasPrefix(name, "http"), name == "", name == "web":
		scheme = "http"
	}
	if name == "" {
		name = strconv.Itoa(int(p.Port))
	}
	return appsapi.Endpoint{Name: name, URL: fmt.Sprintf("%s://%s.%s.svc:%d", scheme, service, namespace, p.Port)}
}
