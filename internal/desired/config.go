package desired

import (
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Config is the apply configuration of a child.
type Config struct {
	keys     *appsapi.Keys
	body     any // the apply configuration; meta points into it
	meta     *metav1ac.ObjectMetaApplyConfiguration
	hash     string
	sendOnly func()           // adds fields that are sent without owning them, see renderDeployment
	podHold  *podTemplateHold // nil for children without a pod template
	podsHeld bool
}

func newConfig(keys *appsapi.Keys, body any, meta *metav1ac.ObjectMetaApplyConfiguration) (*Config, error) {
	content, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", *meta.Name, err)
	}
	return &Config{keys: keys, body: body, meta: meta, hash: digest(content)[:16]}, nil
}

// Hash returns the hash of the configuration.
func (c *Config) Hash() string {
	if c.podHold == nil {
		return c.hash
	}
	return c.hash + "." + c.podHold.hash
}

// AppliedTo reports whether the last applied configuration of a child has the same hash.
func (c *Config) AppliedTo(live metav1.Object) bool {
	return live.GetAnnotations()[c.keys.AppliedHash] == c.Hash()
}

// Fingerprint distinguishes configurations that have the same hash but contain different fields.
func (c *Config) Fingerprint() string {
	if c.podsHeld {
		return c.Hash() + " without its pods"
	}
	return c.Hash()
}

// Labels returns the labels that the operator owns.
func (c *Config) Labels() map[string]string { return c.meta.Labels }

// Annotations returns the annotations that the operator owns, except for the hash.
func (c *Config) Annotations() map[string]string { return c.meta.Annotations }

// Fields returns all fields outside of metadata that the operator owns.
func (c *Config) Fields() (map[string]any, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(c.body)
	if err != nil {
		return nil, fmt.Errorf("read configuration of %s: %w", *c.meta.Name, err)
	}
	for _, key := range []string{"apiVersion", "kind", "metadata", "status"} {
		delete(fields, key)
	}
	return fields, nil
}

// Patch returns the body of the apply request. uid and resourceVersion are its preconditions: the object was
// not replaced or changed since it was observed. An empty uid and resourceVersion "1" require that the object
// does not exist. The configuration must not be used afterwards.
func (c *Config) Patch(uid types.UID, resourceVersion string) ([]byte, error) {
	c.meta.WithAnnotations(map[string]string{c.keys.AppliedHash: c.Hash()})
	c.meta.WithResourceVersion(resourceVersion)
	if uid != "" {
		c.meta.WithUID(uid)
	}
	if c.sendOnly != nil {
		c.sendOnly()
	}
	return json.Marshal(c.body)
}

// annotateList sets an annotation to a comma-separated list unless the list is empty.
func annotateList(meta *metav1ac.ObjectMetaApplyConfiguration, key string, list []string) {
	if len(list) > 0 {
		meta.WithAnnotations(map[string]string{key: strings.Join(list, ",")})
	}
}

// toApplyConfig converts a core type to its apply configuration. Both have the same JSON form.
func toApplyConfig[T any](in any) (*T, error) {
	content, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	out := new(T)
	return out, json.Unmarshal(content, out)
}
