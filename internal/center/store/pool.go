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
	// maxShared is the longest string of which more than one object is likely to have a copy.
	maxShared = 128
	// maxPool is how many strings, labels and requests a pool knows. When it is full it
	// begins anew: what is common comes again at once, and what is not is not kept for ever.
	maxPool = 1 << 13
)

// pool lets objects share strings, and labels and requests as a whole. Each is read from the API
// server with copies of its own, and thousands of objects have the same labels, selectors, images,
// requests, owners, reasons and names of variables.
type pool struct {
	mu     sync.Mutex
	known  map[string]string
	labels map[uint64]map[string]string // by a hash of what is in them
	lists  map[uint64]corev1.ResourceList
	seed   maphash.Seed
}

func newPool() *pool {
	return &pool{known: map[string]string{}, labels: map[uint64]map[string]string{}, lists: map[uint64]corev1.ResourceList{}, seed: maphash.MakeSeed()}
}

// share makes an object that nobody else has yet use the strings of others.
func (p *pool) share(obj any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.walk(reflect.ValueOf(obj))
}

func (p *pool) one(s string) string {
	if s == "" || len(s) > maxShared {
		return s
	}
	if known, ok := p.known[s]; ok {
		return known
	}
	if len(p.known) >= maxPool {
		clear(p.known)
	}
	p.known[s] = s
	return s
}

func (p *pool) walk(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if v.CanSet() {
			v.SetString(p.one(v.String()))
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
				v.Set(reflect.ValueOf(p.set(m)))
			}
		case corev1.ResourceList:
			if v.CanSet() && len(m) > 0 {
				v.Set(reflect.ValueOf(p.list(m)))
			}
		case map[string]any:
			p.entries(m)
		}
	}
}

// set is the one of all labels that are the same: nobody changes them.
func (p *pool) set(labels map[string]string) map[string]string {
	var sum uint64 // the same in any order
	for k, v := range labels {
		sum += maphash.Comparable(p.seed, [2]string{k, v})
	}
	if known := p.labels[sum]; maps.Equal(known, labels) {
		return known
	}
	if len(p.labels) >= maxPool {
		clear(p.labels)
	}
	// An assignment to a key that is there replaces the key as well.
	for k, v := range labels {
		labels[p.one(k)] = p.one(v)
	}
	p.labels[sum] = labels
	return labels
}

// list is the same for requests and limits, of which there are few different ones.
func (p *pool) list(amounts corev1.ResourceList) corev1.ResourceList {
	var sum uint64
	for k, v := range amounts {
		sum += maphash.Comparable(p.seed, [2]string{string(k), v.String()})
	}
	if known := p.lists[sum]; maps.EqualFunc(known, amounts, resource.Quantity.Equal) {
		return known
	}
	if len(p.lists) >= maxPool {
		clear(p.lists)
	}
	p.lists[sum] = amounts
	return amounts
}

// entries shares what is in objects of kinds that are not known here.
func (p *pool) entries(m map[string]any) {
	for k, v := range m {
		m[p.one(k)] = p.value(v)
	}
}

func (p *pool) value(v any) any {
	switch v := v.(type) {
	case string:
		return p.one(v)
	case []any:
		for i := range v {
			v[i] = p.value(v[i])
		}
	case map[string]any:
		p.entries(v)
	}
	return v
}
