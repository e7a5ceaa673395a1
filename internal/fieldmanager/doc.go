// Package fieldmanager compares, merges and takes over fields of an object: whether it has the
// declared fields, what an apply would change, and which fields of other field managers conflict.
// The operator and the plugin share it.
package fieldmanager

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Object is an object in the cluster.
type Object interface {
	metav1.Object
	runtime.Object
}
