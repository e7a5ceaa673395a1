package desired

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestConfigMapDataHasTextAndBinaryData(t *testing.T) {
	binary := map[string][]byte{"b": {0, 1}}
	for name, tc := range map[string]struct {
		config corev1.ConfigMap
		want   map[string][]byte
	}{
		"empty":  {corev1.ConfigMap{}, nil},
		"text":   {corev1.ConfigMap{Data: map[string]string{"a": "x"}}, map[string][]byte{"a": []byte("x")}},
		"binary": {corev1.ConfigMap{BinaryData: binary}, binary},
		"both":   {corev1.ConfigMap{Data: map[string]string{"a": "x"}, BinaryData: binary}, map[string][]byte{"a": []byte("x"), "b": {0, 1}}},
	} {
		if diff := cmp.Diff(tc.want, ConfigMapData(&tc.config)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if len(binary) != 1 {
		t.Errorf("the ConfigMap was changed: %v", binary)
	}
}

func TestHashRefDataDependsOnRequestedKeys(t *testing.T) {
	type data = map[string][]byte
	both := data{"a": []byte("1"), "b": []byte("2")}
	base := HashRefData(both, "a", []byte("key"))
	if len(base) != 16 {
		t.Errorf("got %q, want 16 digits", base)
	}
	for name, tc := range map[string]struct {
		got  string
		same bool
	}{
		"another key of the object changed": {HashRefData(data{"a": []byte("1"), "b": []byte("3")}, "a", []byte("key")), true},
		"a key that does not exist":         {HashRefData(both, "a,c", []byte("key")), true},
		"the value changed":                 {HashRefData(data{"a": []byte("2")}, "a", []byte("key")), false},
		"all keys":                          {HashRefData(both, "", []byte("key")), false},
		"both keys":                         {HashRefData(both, "a,b", []byte("key")), false},
		"another HMAC key":                  {HashRefData(both, "a", []byte("other")), false},
	} {
		if (tc.got == base) != tc.same {
			t.Errorf("%s: got %s, base %s, want the same: %t", name, tc.got, base, tc.same)
		}
	}
	if all, named := HashRefData(both, "", nil), HashRefData(both, "a,b", nil); all != named {
		t.Errorf("the hash of all keys is %s, and of the same keys by name %s", all, named)
	}
}

func TestRefStateIsCurrent(t *testing.T) {
	state := RefState{UID: "uid", ResourceVersion: "7"}
	for name, tc := range map[string]struct {
		uid, version string
		want         bool
	}{
		"the same version": {"uid", "7", true},
		"an older version": {"uid", "6", true},
		"a newer version":  {"uid", "10", false},
		"another object":   {"other", "7", false},
		"not a number":     {"uid", "x", false},
	} {
		if got := state.IsCurrent(&metav1.ObjectMeta{UID: types.UID(tc.uid), ResourceVersion: tc.version}); got != tc.want {
			t.Errorf("%s: got %t, want %t", name, got, tc.want)
		}
	}
}

func TestMissingRefsAreThoseOfVolumes(t *testing.T) {
	const volumes = `volumes: [{name: a, mountPath: /a, configMap: {name: a}},
		{name: b, mountPath: /b, secret: {name: b, items: [{key: k, path: k}]}}]`
	a, b := Ref{Kind: "ConfigMap", Name: "a"}, Ref{Kind: "Secret", Name: "b", Keys: "k"}
	for name, tc := range map[string]struct {
		spec   string
		states RefStates
		want   []Ref
	}{
		"none exists":           {`service: {image: a, ` + volumes + `}`, nil, []Ref{a, b}},
		"one exists":            {`stateful: {image: a, ` + volumes + `}`, RefStates{a: {}}, []Ref{b}},
		"all exist":             {`service: {image: a, ` + volumes + `}`, RefStates{a: {}, b: {}}, nil},
		"environment variables": {`service: {image: a, envFrom: [{secretRef: {name: b}}]}`, nil, nil},
		"a job":                 {`job: {image: a, ` + volumes + `}`, nil, nil},
	} {
		if diff := cmp.Diff(tc.want, MissingRefs(components(t, `[{name: web, `+tc.spec+`}]`)[0], tc.states)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
