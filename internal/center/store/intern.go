package store

import (
	"hash/maphash"
	"maps"
	"reflect"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

const (
	// maxInternedLength is the length limit of interned strings. Longer strings are rarely repeated.
	maxInternedLength = 128
	// maxInterned is the size of each pool. A full pool is cleared: common values are added again soon, and
	// rare ones are not kept.
	maxInterned = 1 << 13
)

// interner lets objects share strings, label maps and resource lists. Decoding creates copies of them for each
// object, although thousands of objects have the same labels, selectors, images, requests, owners, reasons
// and variable names.
type interner struct {
	mu        sync.Mutex
	strings   map[string]string
	labels    map[uint64]map[string]string // by hash of the content
	resources map[uint64]corev1.ResourceList
	seed      maphash.Seed
}

func newInterner() *interner {
	return &interner{strings: map[string]string{}, labels: map[uint64]map[string]string{}, resources: map[uint64]corev1.ResourceList{}, seed: maphash.MakeSeed()}
}

// intern replaces values of an object by shared ones. No other goroutine may use the object yet.
func (p *interner) intern(obj any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.walk(reflect.ValueOf(obj))
}

func (p *interner) internString(s string) string {
	if s == "" || len(s) > maxInternedLength {
		return s
	}
	if known, ok := p.strings[s]; ok {
		return known
	}
	if len(p.strings) >= maxInterned {
		clear(p.strings)
	}
	p.strings[s] = s
	return s
}

func (p *interner) walk(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if v.CanSet() {
			v.SetString(p.internString(v.String()))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			p.walk(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() {
				p.walk(f)
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		for i := range v.Len() {
			p.walk(v.Index(i))
		}
	case reflect.Map:
		switch m := v.Interface().(type) {
		case map[string]string:
			if v.CanSet() && len(m) > 0 {
				v.Set(reflect.ValueOf(p.internLabels(m)))
			}
		case corev1.ResourceList:
			if v.CanSet() && len(m) > 0 {
				v.Set(reflect.ValueOf(p.internResources(m)))
			}
		case map[string]any:
			p.internMap(m)
		}
	}
}

// internLabels returns the shared map for equal labels. Labels must not be modified after that.
func (p *interner) internLabels(labels map[string]string) map[string]string {
	var sum uint64 // independent of the order
	for k, v := range labels {
		sum += maphash.Comparable(p.seed, [2]string{k, v})
	}
	if known := p.labels[sum]; maps.Equal(known, labels) {
		return known
	}
	if len(p.labels) >= maxInterned {
		clear(p.labels)
	}
	// Assigning to an existing string key also replaces the stored key.
	for k, v := range labels {
		labels[p.internString(k)] = p.internString(v)
	}
	p.labels[sum] = labels
	return labels
}

// internResources returns the shared list for equal requests or limits.
func (p *interner) internResources(amounts corev1.ResourceList) corev1.ResourceList {
	var sum uint64
	for k, v := range amounts {
		sum += maphash.Comparable(p.seed, [2]string{string(k), v.String()})
	}
	if known := p.resources[sum]; maps.EqualFunc(known, amounts, resource.Quantity.Equal) {
		return known
	}
	if len(p.resources) >= maxInterned {
		clear(p.resources)
	}
	p.resources[sum] = amounts
	return amounts
}

// internMap interns the values of an unstructured object.
func (p *interner) internMap(m map[string]any) {
	for k, v := range m {
		m[p.internString(k)] = p.internValue(v)
	}
}

func (p *interner) internValue(v any) any {
	switch v := v.(type) {
	case string:
		return p.internString(v)
	case []any:
		for i := range v {
			v[i] = p.internValue(v[i])
		}
	case map[string]any:
		p.internMap(v)
	}
	return v
}
