package desired

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// ConfigMapData returns the content of a ConfigMap by key.
func ConfigMapData(config *corev1.ConfigMap) map[string][]byte {
	data := maps.Clone(config.BinaryData)
	for k, v := range config.Data {
		if data == nil {
			data = map[string][]byte{}
		}
		data[k] = []byte(v)
	}
	return data
}

// HashRefData returns the hash of the requested keys. The HMAC key prevents short passwords from being guessed
// from the hash.
func HashRefData(data map[string][]byte, keys string, hmacKey []byte) string {
	selected := data
	if keys != "" {
		selected = map[string][]byte{}
		for k := range strings.SplitSeq(keys, ",") {
			if v, ok := data[k]; ok {
				selected[k] = v
			}
		}
	}
	h := hmac.New(sha256.New, hmacKey)
	// JSON encodes maps in the order of their keys, and writes to a hash do not fail.
	_ = json.NewEncoder(h).Encode(selected)
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// IsCurrent reports whether the state was computed from this version of an object or from a later version.
func (c RefState) IsCurrent(obj metav1.Object) bool {
	order, err := resourceversion.CompareResourceVersion(c.ResourceVersion, obj.GetResourceVersion())
	return c.UID == obj.GetUID() && err == nil && order >= 0
}
