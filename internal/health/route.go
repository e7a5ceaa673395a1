package health

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// route is what of an HTTPRoute tells whether it leads anywhere.
type route struct {
	Spec struct {
		ParentRefs []parentRef `json:"parentRefs"`
	} `json:"spec"`
	Status struct {
		Parents []struct {
			ParentRef  parentRef          `json:"parentRef"`
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"parents"`
	} `json:"status"`
}

type parentRef struct {
	Namespace   string `json:"namespace"`
	Name        string `json:"name"`
	SectionName string `json:"sectionName"`
}

// routeHealth asks the controllers of the Gateways: a route leads somewhere when each Gateway
// has accepted it and found what it leads to.
func routeHealth(o *unstructured.Unstructured) Result {
	name := objectName("HTTPRoute", o)
	if o.GetDeletionTimestamp() != nil {
		return progressing(name + " is being deleted")
	}
	var r route
	content, err := json.Marshal(o.Object)
	if err == nil {
		err = json.Unmarshal(content, &r)
	}
	if err != nil || len(r.Spec.ParentRefs) == 0 {
		return unknown(name + " cannot be read")
	}
	for _, ref := range r.Spec.ParentRefs {
		if v := r.parentHealth(ref, o); v.Status != Healthy {
			return v
		}
	}
	return healthy(name + " is attached to its Gateway")
}

// parentHealth judges one parent. A controller may write the namespace of the route where the
// spec says none.
func (r *route) parentHealth(ref parentRef, o *unstructured.Unstructured) Result {
	name, gateway := objectName("HTTPRoute", o), ref.gatewayName(o.GetNamespace())
	for _, p := range r.Status.Parents {
		if p.ParentRef.gatewayName(o.GetNamespace()) != gateway {
			continue
		}
		for _, kind := range []string{"Accepted", "ResolvedRefs"} {
			c := meta.FindStatusCondition(p.Conditions, kind)
			switch {
			case c == nil || c.ObservedGeneration < o.GetGeneration():
				return progressing(fmt.Sprintf("%s waits for Gateway %s to look at it", name, gateway))
			case c.Status == metav1.ConditionFalse:
				return degraded(appsapi.ReasonComponentDegraded, fmt.Sprintf("%s is not attached to Gateway %s: %s", name, gateway, c.Reason))
			case c.Status != metav1.ConditionTrue:
				return progressing(fmt.Sprintf("%s waits for Gateway %s: %s", name, gateway, c.Reason))
			}
		}
		return healthy(name + " is attached")
	}
	return progressing(fmt.Sprintf("%s waits for Gateway %s to accept it; see whether that Gateway exists and has a controller", name, gateway))
}

func (p parentRef) gatewayName(namespace string) string {
	if p.Namespace != "" {
		namespace = p.Namespace
	}
	s := namespace + "/" + p.Name
	if p.SectionName != "" {
		s += " (" + p.SectionName + ")"
	}
	return s
}
