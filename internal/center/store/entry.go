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

// Stub represents an object of which only the existence is stored.
type Stub metav1.PartialObjectMetadata

// GetObjectKind implements runtime.Object.
func (b *Stub) GetObjectKind() schema.ObjectKind { return &b.TypeMeta }

// DeepCopyObject implements runtime.Object.
func (b *Stub) DeepCopyObject() runtime.Object {
	return (*Stub)((*metav1.PartialObjectMetadata)(b).DeepCopy())
}

// UID is a UID in 16 bytes instead of 52, to save memory.
type UID [16]byte

func compactUID(u types.UID) UID {
	var out UID
	digits := strings.ReplaceAll(string(u), "-", "")
	if len(digits) == 2*len(out) {
		if _, err := hex.Decode(out[:], []byte(digits)); err == nil {
			return out
		}
	}
	h := fnv.New128a() // not in UUID format
	_, _ = h.Write([]byte(u))
	h.Sum(out[:0])
	return out
}

// Compare orders objects by kind, namespace and name.
func Compare(a, b *Entry) int {
	return cmp.Or(cmp.Compare(a.kind.Kind, b.kind.Kind), cmp.Compare(a.kind.Group, b.kind.Group), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
