package desired

import (
	"bytes"
	"testing"
)

// TestRenameKeepsPodTemplate checks that the pods of a renamed component are not replaced: the pod template, and so the
// labels of pods, must not contain the name of the component.
func TestRenameKeepsPodTemplate(t *testing.T) {
	for _, spec := range []string{`service: {image: a, ports: [{port: 80}]}`, `stateful: {image: a, storage: [{name: data, mountPath: /d, size: 1Gi}]}`} {
		var templates [][]byte
		for _, name := range []string{"db", "store"} {
			config, err := Build(stack, components(t, `[{name: `+name+`, resourceName: shop-data, `+spec+`}]`), ClusterState{})[0].Children[0].Render(nil)
			must(err)
			body, err := config.Patch("", "1")
			must(err)
			_, template, ok := bytes.Cut(body, []byte(`"template":`))
			if !ok {
				t.Fatalf("no pod template in %s", body)
			}
			templates = append(templates, template)
		}
		if !bytes.Equal(templates[0], templates[1]) {
			t.Errorf("the name of the component is in the pod template:\n%s\n%s", templates[0], templates[1])
		}
	}
}
