package health

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// route contains the fields of an HTTPRoute that determine its health.
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
	Port        *int32 `json:"port"`
}

// routeHealth evaluates the status of a route: it is healthy when each Gateway has accepted it and
// resolved its references.
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
		return unknown(name + " cannot be evaluated: it is invalid or has no parentRefs")
	}
	for _, ref := range r.Spec.ParentRefs {
		if v := r.parentHealth(ref, o); v.Status != Healthy {
			return v
		}
	}
	return healthy(name + " is attached to its Gateway")
}

// parentHealth evaluates one parent. Each controller that handles the parent writes its own entry, and one
// that attaches the route is enough. A controller can set the namespace where the spec has none.
func (r *route) parentHealth(ref parentRef, o *unstructured.Unstructured) Result {
	name, gateway := objectName("HTTPRoute", o), ref.gatewayName(o.GetNamespace())
	var rejected *Result
	for _, p := range r.Status.Parents {
		if p.ParentRef.gatewayName(o.GetNamespace()) != gateway {
			continue
		}
		v := entryHealth(p.Conditions, o.GetGeneration(), name, gateway)
		if v.Status == Healthy {
			return v
		}
		if rejected == nil {
			rejected = &v
		}
	}
	if rejected != nil {
		return *rejected
	}
	return progressing(fmt.Sprintf("%s waits for Gateway %s to accept it; check that the Gateway exists and has a controller", name, gateway))
}

// entryHealth evaluates the entry of one controller for one parent.
func entryHealth(conditions []metav1.Condition, generation int64, name, gateway string) Result {
	for _, kind := range []string{"Accepted", "ResolvedRefs"} {
		c := meta.FindStatusCondition(conditions, kind)
		switch {
		case c == nil || c.ObservedGeneration < generation:
			return progressing(fmt.Sprintf("%s waits for Gateway %s to observe its latest change", name, gateway))
		case c.Status == metav1.ConditionFalse:
			return degraded(appsapi.ReasonComponentDegraded, fmt.Sprintf("%s is not attached to Gateway %s: %s", name, gateway, c.Reason))
		case c.Status != metav1.ConditionTrue:
			return progressing(fmt.Sprintf("%s waits for Gateway %s: %s", name, gateway, c.Reason))
		}
	}
	return healthy(name + " is attached")
}

func (p parentRef) gatewayName(namespace string) string {
	if p.Namespace != "" {
		namespace = p.Namespace
	}
	s := namespace + "/" + p.Name
	if p.SectionName != "" {
		s += " (" + p.SectionName + ")"
	}
	if p.Port != nil {
		s += fmt.Sprintf(" port %d", *p.Port)
	}
	return s
}
