package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of all kinds.
const GroupName = "apps.holdfast.dev"

// GroupVersion is the group and version of the kinds in this package.
var GroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

// SchemeGroupVersion is GroupVersion under the name that generated clients require.
var SchemeGroupVersion = GroupVersion

// AddToScheme registers the kinds of this package with a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &AppService{}, &AppServiceList{}, &AppStack{}, &AppStackList{}, &CloudManager{}, &CloudManagerList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

// Resource returns the group and name of a resource of this group.
func Resource(resource string) schema.GroupResource {
	return GroupVersion.WithResource(resource).GroupResource()
}
