package model

import (
	"encoding/json"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/objdiff"
)

// Users who see that a variable has changed may not be allowed to see its value.
func TestActivityRedactsSecretValues(t *testing.T) {
	app := func(text string) *appsapi.AppStack {
		a := &appsapi.AppStack{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
		if err := yaml.UnmarshalStrict([]byte(text), &a.Spec); err != nil {
			t.Fatal(err)
		}
		return a
	}
	before := app(`components: [{name: web, service: {image: "web:1", env: [{name: PASSWORD, value: c4n4ry-1}], config: {files: [{path: /a, content: c4n4ry-2}]}}}]`)
	after := app(`components: [{name: web, service: {image: "web:2", env: [{name: PASSWORD, value: c4n4ry-3}], config: {files: [{path: /a, content: c4n4ry-4}]}}}]`)
	changes := redactedSpecChanges(objdiff.DiffObjects("AppStack", toUnstructured(before), toUnstructured(after)))
	text, err := json.Marshal(changes)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "c4n4ry") {
		t.Errorf("values are not redacted: %s", text)
	}
	if !strings.Contains(string(text), "PASSWORD") || !strings.Contains(string(text), "web:2") {
		t.Errorf("the changed field is missing: %s", text)
	}
}
