// Package ownership says what of an object is ours: whether the object is, by its owner, and
// whether its fields are as we want them, by what we would apply. The operator decides by it
// what it writes, and whoever shows what the operator would do uses the same words.
//
// Safety rule: what is not known to be ours is somebody else's.
package ownership

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Object is an object of the cluster.
type Object interface {
	metav1.Object
	runtime.Object
}
