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
	// maxInternedLength is the longest string of which more than one object is likely to have a copy.
	maxInternedLength = 128
	// maxInterned is how many strings, labels and requests a pool knows. When it is full it
	// begins anew: what is common comes again at once, and what is not is not kept for ever.
	maxInterned = 1 << 13
)

// interner lets objects share strings, and labels and requests as a whole. Each is read from the API
// server with copies of its own, and thousands of objects have the same labels, selectors, images,
// requests, owners, reasons and names of variables.
type interner struct {
	mu        sync.Mutex
	strings   map[string]string
	labels    map[uint64]map[string]string // by a hash of what is in them
	resources map[uint64]corev1.ResourceList
	seed      maphash.Seed
}

func newInterner() *interner {
	return &interner{strings: map[string]string{}, labels: map[uint64]map[string]string{}, resources: map[uint64]corev1.ResourceList{}, seed: maphash.MakeSeed()}
}

// intern makes an object that nobody else has yet use the strings of others.
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

// internLabels is the one of all labels that are the same: nobody changes them.
func (p *interner) internLabels(labels map[string]string) map[string]string {
	var sum uint64 // the same in any order
	for k, v := range labels {
		sum += maphash.Comparable(p.seed, [2]string{k, v})
	}
	if known := p.labels[sum]; maps.Equal(known, labels) {
		return known
	}
	if len(p.labels) >= maxInterned {
		clear(p.labels)
	}
	// An assignment to a key that is there replaces the key as well.
	for k, v := range labels {
		labels[p.internString(k)] = p.internString(v)
	}
	p.labels[sum] = labels
	return labels
}

// internResources is the same for requests and limits, of which there are few different ones.
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

// internMap shares what is in objects of kinds that are not known here.
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
