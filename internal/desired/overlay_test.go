package desired

import (
	"strings"
	"testing"
)

// TestInvalidPodSettings are specs that the API server takes and no pods can be made of.
func TestInvalidPodSettings(t *testing.T) {
	overlay := func(text string) string { return "{image: a, podTemplateOverlay: " + text + "}" }
	for spec, want := range map[string]string{
		`{image: a}`: "",
		`{image: a, config: {files: [{path: /a/b, content: x}]}, volumes: [{name: v, mountPath: /a, emptyDir: {}}]}`: "",
		`{image: a, config: {files: [{path: /a, content: x}]}, volumes: [{name: v, mountPath: /a, emptyDir: {}}]}`:   `config.files has /a, where volume "v" is mounted; choose another path for one of them`,
		`{image: a, config: {files: [{path: /a/b/c, content: x}, {path: /a, content: x}]}}`:                          "config.files has /a and /a/b/c, so /a would have to be a file and a folder; choose another path for one of them",
		overlay(`{}`): "",
		overlay(`{spec: {containers: [{name: proxy, image: p}]}}`):                                         "",
		overlay(`{spec: {nodeSelector: {hostname: a}}}`):                                                   "",
		overlay(`{spec: {hostNetwork: true}}`):                                                             "podTemplateOverlay sets spec.hostNetwork, which it may not",
		overlay(`{spec: {containers: [{name: app}, {name: proxy, securityContext: {privileged: true}}]}}`): "podTemplateOverlay sets spec.containers[1].securityContext, which it may not",
		overlay(`{spec: {containers: [{name: proxy, ports: [{containerPort: 1, hostPort: 1}]}]}}`):         "podTemplateOverlay sets spec.containers[0].ports[0].hostPort, which it may not",
		overlay(`{spec: {volumes: [{name: v, hostPath: {path: /}}]}}`):                                     "podTemplateOverlay sets spec.volumes[0].hostPath, which it may not",
		overlay(`{spec: {serviceAccountName: admin}}`):                                                     "podTemplateOverlay sets spec.serviceAccountName, which it may not",
		overlay(`{spec: {automountServiceAccountToken: true}}`):                                            "podTemplateOverlay sets spec.automountServiceAccountToken, which it may not",
		overlay(`{spec: {contaners: []}}`):                                                                 `podTemplateOverlay is not part of a pod template: unknown field "spec.contaners"`,
		overlay(`{containers: []}`):                                                                        `podTemplateOverlay is not part of a pod template: unknown field "containers"`,
		overlay(`{spec: {containers: {name: app}}}`):                                                       "podTemplateOverlay is not part of a pod template",
		overlay(`{spec: {containers: [{image: p}]}}`):                                                      "podTemplateOverlay cannot be merged: an entry of a list has no name, by which it is found",
		overlay(`{spec: {containers: [{name: app, $patch: drop}]}}`):                                       "podTemplateOverlay cannot be merged: unknown patch type: drop; $patch is replace, merge or delete",
		overlay(`{spec: {containers: [{name: app, image: 5}]}}`):                                           "podTemplateOverlay is not part of a pod template: spec.containers.image is a number and has to be a string; correct it",
		overlay(`{spec: {containers: [{name: app, $patch: delete}]}}`):                                     `podTemplateOverlay takes away or changes the container "app"`,
		overlay(`{spec: {containers: [{name: app, image: a, $patch: replace}]}}`):                          `podTemplateOverlay takes away or changes the container "app"`,
		overlay(`{spec: {$patch: replace, containers: [{name: app, image: a}]}}`):                          "podTemplateOverlay takes away or changes spec.securityContext",
		overlay(`{metadata: {labels: {app.kubernetes.io/managed-by: me}}}`):                                "podTemplateOverlay takes away or changes the label app.kubernetes.io/managed-by",
		overlay(`{metadata: {labels: {$patch: replace}}}`):                                                 "podTemplateOverlay takes away or changes the label",
		overlay(`{metadata: {annotations: {apps.holdfast.dev/config-hash: null}}}`):                        "podTemplateOverlay takes away or changes the annotation apps.holdfast.dev/config-hash",
		overlay(`{metadata: {annotations: {apps.holdfast.dev/restarted-at: now}}}`):                        "podTemplateOverlay takes away or changes the annotation apps.holdfast.dev/restarted-at",
	} {
		t.Run(spec, func(t *testing.T) {
			got := singleComponent(component(t, spec)).InvalidMessage
			if !strings.HasPrefix(got, want) || got != "" && want == "" {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// TestOverlayOfStatefulComponent: its volumes are the StatefulSet's, so the template does not have
// them, and a container beside the main one may use them as well.
func TestOverlayOfStatefulComponent(t *testing.T) {
	for overlay, want := range map[string]string{
		`{spec: {dnsPolicy: Default}}`: "",
		`{spec: {containers: [{name: backup, image: b, volumeMounts: [{name: data, mountPath: /data}]}]}}`: "",
		`{spec: {containers: [{name: backup, image: b, volumeMounts: [{name: dta, mountPath: /data}]}]}}`:  `podTemplateOverlay: container "backup" mounts volume "dta", which does not exist`,
	} {
		spec := `[{name: db, stateful: {image: a, storage: [{name: data, mountPath: /data, size: 1Gi}], podTemplateOverlay: ` + overlay + `}}]`
		got := singleComponent(components(t, spec)[0])
		if _, err := got.Children[0].Render(nil); err != nil && got.InvalidMessage == "" {
			got.InvalidMessage = err.Error()
		}
		if !strings.HasPrefix(got.InvalidMessage, want) || got.InvalidMessage != "" && want == "" {
			t.Errorf("%s: got %q, want %q", overlay, got.InvalidMessage, want)
		}
	}
}

// TestOverlayMessages compares whole messages: they name the field and the correction.
func TestOverlayMessages(t *testing.T) {
	const protected = "podTemplateOverlay takes away or changes "
	const wrongType = "podTemplateOverlay is not part of a pod template: "
	invalidMessages(t, map[string]string{
		`podTemplateOverlay: {spec: {$retainKeys: [containers, securityContext]}}`: protected +
			"spec.serviceAccountName or spec.automountServiceAccountToken, which Holdfast sets; leave it as it is",
		`podTemplateOverlay: {spec: {containers: [{name: app, $retainKeys: [name, image]}]}}`: protected +
			`the securityContext of the container "app", which Holdfast sets; leave it as it is`,
		`podTemplateOverlay: {spec: {containers: [{name: My_Proxy, image: p}]}}`: `podTemplateOverlay has a container called "My_Proxy"; ` +
			`the name of a container is made of a-z, 0-9 and -`,
		`podTemplateOverlay: {spec: {terminationGracePeriodSeconds: soon}}`: wrongType +
			"spec.terminationGracePeriodSeconds is a string and has to be a number; correct it",
		`podTemplateOverlay: {spec: {dnsConfig: none}}`: wrongType + "spec.dnsConfig is a string and has to be a map; correct it",
		`podTemplateOverlay: {spec: {$setElementOrder/containers: app}}`: "podTemplateOverlay cannot be merged: " +
			"expected a []interface {}, but received a string; it has the form of a pod template, {metadata: {...}, spec: {...}}",
		`podTemplateOverlay: []`: "podTemplateOverlay: json: cannot unmarshal array into Go value of type map[string]interface {}",
	})
}
