package store

import (
	"cmp"
	"encoding/hex"
	"hash/fnv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Stub is an object of which only that it is there is worth keeping.
type Stub metav1.PartialObjectMetadata

// GetObjectKind says which kind it is of.
func (b *Stub) GetObjectKind() schema.ObjectKind { return &b.TypeMeta }

// DeepCopyObject makes it an object of the API.
func (b *Stub) DeepCopyObject() runtime.Object {
	return (*Stub)((*metav1.PartialObjectMetadata)(b).DeepCopy())
}

// UID is a UID in 16 bytes instead of 52: there may be very many.
type UID [16]byte

func compactUID(u types.UID) UID {
	var out UID
	digits := strings.ReplaceAll(string(u), "-", "")
	if len(digits) == 2*len(out) {
		if _, err := hex.Decode(out[:], []byte(digits)); err == nil {
			return out
		}
	}
	h := fnv.New128a() // of something else that is called a UID
	_, _ = h.Write([]byte(u))
	h.Sum(out[:0])
	return out
}

// Compare puts objects in the order of their kinds, namespaces and names.
func Compare(a, b *Entry) int {
	return cmp.Or(cmp.Compare(a.kind.Kind, b.kind.Kind), cmp.Compare(a.kind.Group, b.kind.Group), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
