package find

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// allReferences refers to images, Secrets and ConfigMaps in all fields of a pod, and in fields that must
// be ignored.
const allReferences = `
metadata:
  annotations: {image: shop/web, secretName: s}
  labels: {image: shop/web}
spec:
  jobTemplate:
    spec:
      template:
        metadata: {annotations: {secretName: s}}
        spec:
          imagePullSecrets: [{name: s}, {name: other}]
          initContainers: [{name: first, image: "registry.example.com/shop/web:2"}]
          containers:
          - name: main
            image: shop/web:1
            command: [shop/web]
            env:
            - {name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}
            - {name: B, valueFrom: {configMapKeyRef: {name: c, key: s}}}
            - {name: s, value: s}
            envFrom: [{secretRef: {name: s}}, {configMapRef: {name: c}}]
          volumes:
          - {name: s, secret: {secretName: s, items: [{key: s, path: s}]}}
          - {name: c, configMap: {name: c}}
          - {name: p, projected: {sources: [{secret: {name: s}}, {configMap: {name: c}}]}}
          - {name: csi, csi: {driver: d, nodePublishSecretRef: {name: s}}}
          - {name: claim, persistentVolumeClaim: {claimName: s}}
          - {name: files, image: {reference: "shop/web:3"}}
          serviceAccountName: s
status: {image: shop/web}
`

func TestQueryMatch(t *testing.T) {
	const pod = "spec.jobTemplate.spec.template.spec."
	cases := map[string]struct {
		query query
		want  []Match // nil means that it does not match
	}{
		"image": {query{image: "shop/web"}, []Match{
			{"shop/web:1", pod + "containers[main].image"}, {"registry.example.com/shop/web:2", pod + "initContainers[first].image"},
			{"shop/web:3", pod + "volumes[files].image.reference"}}},
		"tag":          {query{image: ":2"}, []Match{{"registry.example.com/shop/web:2", pod + "initContainers[first].image"}}},
		"unused image": {query{image: "shop/api"}, nil},
		"Secret": {query{secret: "s"}, []Match{
			{"Secret s", pod + "containers[main].env[A].valueFrom.secretKeyRef.name"}, {"Secret s", pod + "containers[main].envFrom[0].secretRef.name"},
			{"Secret s", pod + "imagePullSecrets[s].name"}, {"Secret s", pod + "volumes[s].secret.secretName"},
			{"Secret s", pod + "volumes[p].projected.sources[0].secret.name"}, {"Secret s", pod + "volumes[csi].csi.nodePublishSecretRef.name"}}},
		"part of a Secret name": {query{secret: "othe"}, nil},
		"ConfigMap": {query{configMap: "c"}, []Match{
			{"ConfigMap c", pod + "containers[main].env[B].valueFrom.configMapKeyRef.name"}, {"ConfigMap c", pod + "containers[main].envFrom[1].configMapRef.name"},
			{"ConfigMap c", pod + "volumes[c].configMap.name"}, {"ConfigMap c", pod + "volumes[p].projected.sources[1].configMap.name"}}},
		"image and Secret":       {query{image: ":2", secret: "other"}, []Match{{"registry.example.com/shop/web:2", pod + "initContainers[first].image"}, {"Secret other", pod + "imagePullSecrets[other].name"}}},
		"only the image matches": {query{image: ":2", secret: "unused"}, nil},
		"node":                   {query{node: "n"}, []Match{{"Node n", "spec.nodeName"}}},
		"labels only":            {query{labels: "a=b"}, []Match{{"a=b", "metadata.labels"}}},
	}
	var object map[string]any
	if err := yaml.UnmarshalStrict([]byte(allReferences), &object); err != nil {
		t.Fatal(err)
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, ok := tc.query.match(object)
			sorted := cmp.Transformer("set", func(in []Match) map[Match]int {
				out := map[Match]int{}
				for _, f := range in {
					out[f]++
				}
				return out
			})
			if diff := cmp.Diff(tc.want, got, sorted); diff != "" || ok != (tc.want != nil) {
				t.Errorf("matches: %t (-want +got):\n%s", ok, diff)
			}
		})
	}
}
