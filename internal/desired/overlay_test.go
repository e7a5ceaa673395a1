package desired

import (
	"strings"
	"testing"
)

// TestInvalidPodSettings has specs that the API server accepts although their pods are invalid.
func TestInvalidPodSettings(t *testing.T) {
	overlay := func(text string) string { return "{image: a, podTemplateOverlay: " + text + "}" }
	for spec, want := range map[string]string{
		`{image: a}`: "",
		`{image: a, config: {files: [{path: /a/b, content: x}]}, volumes: [{name: v, mountPath: /a, emptyDir: {}}]}`: "",
		`{image: a, config: {files: [{path: /a, content: x}]}, volumes: [{name: v, mountPath: /a, emptyDir: {}}]}`:   `config.files contains /a, where volume "v" is mounted; use another path for one of them`,
		`{image: a, config: {files: [{path: /a/b/c, content: x}, {path: /a, content: x}]}}`:                          "config.files contains /a and /a/b/c, but /a cannot be both a file and a directory; use another path for one of them",
		overlay(`{}`): "",
		overlay(`{spec: {containers: [{name: proxy, image: p}]}}`):                                                          "",
		overlay(`{spec: {nodeSelector: {hostname: a}}}`):                                                                    "",
		overlay(`{spec: {hostNetwork: true}}`):                                                                              "podTemplateOverlay sets spec.hostNetwork, which is not allowed",
		overlay(`{spec: {containers: [{name: app}, {name: proxy, securityContext: {privileged: true}}]}}`):                  "podTemplateOverlay sets spec.containers[1].securityContext, which is not allowed",
		overlay(`{spec: {containers: [{name: proxy, ports: [{containerPort: 1, hostPort: 1}]}]}}`):                          "podTemplateOverlay sets spec.containers[0].ports[0].hostPort, which is not allowed",
		overlay(`{spec: {volumes: [{name: v, hostPath: {path: /}}]}}`):                                                      "podTemplateOverlay sets spec.volumes[0].hostPath, which is not allowed",
		overlay(`{spec: {serviceAccountName: admin}}`):                                                                      "podTemplateOverlay sets spec.serviceAccountName, which is not allowed",
		overlay(`{spec: {automountServiceAccountToken: true}}`):                                                             "podTemplateOverlay sets spec.automountServiceAccountToken, which is not allowed",
		overlay(`{spec: {nodeName: control-plane}}`):                                                                        "podTemplateOverlay sets spec.nodeName, which is not allowed",
		overlay(`{spec: {priorityClassName: system-node-critical}}`):                                                        "podTemplateOverlay sets spec.priorityClassName to system-node-critical, which is reserved for pods of the cluster",
		overlay(`{spec: {priorityClassName: gold}}`):                                                                        "",
		overlay(`{spec: {volumes: [{name: v, nfs: {server: a, path: /}}]}}`):                                                "podTemplateOverlay sets spec.volumes[0].nfs, which is not allowed",
		overlay(`{spec: {volumes: [{name: v, csi: {driver: a}}]}}`):                                                         "podTemplateOverlay sets spec.volumes[0].csi, which is not allowed",
		overlay(`{spec: {volumes: [{name: v, flexVolume: {driver: a}}]}}`):                                                  "podTemplateOverlay sets spec.volumes[0].flexVolume, which is not allowed",
		overlay(`{spec: {volumes: [{name: v, projected: {sources: [{serviceAccountToken: {path: t}}]}}]}}`):                 "podTemplateOverlay sets spec.volumes[0].projected.sources[0].serviceAccountToken, which is not allowed",
		overlay(`{spec: {volumes: [{name: v, projected: {sources: [{configMap: {name: c}}]}}]}}`):                           "",
		overlay(`{spec: {volumes: [{name: v, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce]}}}}]}}`): "",
		overlay(`{spec: {containers: [{name: app, livenessProbe: {httpGet: {host: 169.254.169.254, port: 80}}}]}}`):         "podTemplateOverlay sets spec.containers[0].livenessProbe.httpGet.host, which is not allowed",
		overlay(`{spec: {containers: [{name: app, lifecycle: {preStop: {tcpSocket: {host: a, port: 80}}}}]}}`):              "podTemplateOverlay sets spec.containers[0].lifecycle.preStop.tcpSocket.host, which is not allowed",
		overlay(`{metadata: {annotations: {container.apparmor.security.beta.kubernetes.io/app: unconfined}}}`):              "podTemplateOverlay does not comply with security level Baseline: forbidden AppArmor profile",
		overlay(`{metadata: {finalizers: [example.com/keep]}}`):                                                             "podTemplateOverlay sets metadata.finalizers, which is not allowed",
		overlay(`{spec: {ephemeralContainers: [{name: debug, image: d}]}}`):                                                 "podTemplateOverlay sets spec.ephemeralContainers, which is not allowed",
		`{image: a, security: {level: Restricted}, podTemplateOverlay: {spec: {containers: [{name: proxy, image: p}]}}}`:    "",
		overlay(`{spec: {contaners: []}}`):                                                                                  `podTemplateOverlay is not a valid pod template: unknown field "spec.contaners"`,
		overlay(`{containers: []}`):                                                                                         `podTemplateOverlay is not a valid pod template: unknown field "containers"`,
		overlay(`{spec: {containers: {name: app}}}`):                                                                        "podTemplateOverlay is not a valid pod template",
		overlay(`{spec: {containers: [{image: p}]}}`):                                                                       "podTemplateOverlay cannot be merged: a list item has no name, which is the merge key",
		overlay(`{spec: {containers: [{name: app, $patch: drop}]}}`):                                                        "podTemplateOverlay cannot be merged: unknown patch type: drop; $patch must be replace, merge or delete",
		overlay(`{spec: {containers: [{name: app, image: 5}]}}`):                                                            "podTemplateOverlay is not a valid pod template: spec.containers.image is a number but must be a string; correct it",
		overlay(`{spec: {containers: [{name: app, $patch: delete}]}}`):                                                      `podTemplateOverlay removes or changes the container "app"`,
		overlay(`{spec: {containers: [{name: app, image: a, $patch: replace}]}}`):                                           `podTemplateOverlay removes or changes the container "app"`,
		overlay(`{spec: {$patch: replace, containers: [{name: app, image: a}]}}`):                                           "podTemplateOverlay removes or changes spec.securityContext",
		overlay(`{metadata: {labels: {app.kubernetes.io/managed-by: me}}}`):                                                 "podTemplateOverlay removes or changes the label app.kubernetes.io/managed-by",
		overlay(`{metadata: {labels: {$patch: replace}}}`):                                                                  "podTemplateOverlay removes or changes the label",
		overlay(`{metadata: {annotations: {apps.holdfast.dev/config-hash: null}}}`):                                         "podTemplateOverlay removes or changes the annotation apps.holdfast.dev/config-hash",
		overlay(`{metadata: {annotations: {apps.holdfast.dev/restarted-at: now}}}`):                                         "podTemplateOverlay removes or changes the annotation apps.holdfast.dev/restarted-at",
	} {
		t.Run(spec, func(t *testing.T) {
			got := singleComponent(component(t, spec)).InvalidMessage
			if !strings.HasPrefix(got, want) || got != "" && want == "" {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// TestOverlayOfStatefulComponent: the pod template does not contain the volumes of the StatefulSet, but sidecars can
// mount them.
func TestOverlayOfStatefulComponent(t *testing.T) {
	for overlay, want := range map[string]string{
		`{spec: {dnsPolicy: Default}}`: "",
		`{spec: {containers: [{name: backup, image: b, volumeMounts: [{name: data, mountPath: /data}]}]}}`: "",
		`{spec: {containers: [{name: backup, image: b, volumeMounts: [{name: dta, mountPath: /data}]}]}}`:  `podTemplateOverlay: container "backup" mounts volume "dta", which does not exist`,
	} {
		spec := `[{name: db, stateful: {image: a, storage: [{name: data, mountPath: /data, size: 1Gi}], podTemplateOverlay: ` + overlay + `}}]`
		got := singleComponent(components(t, spec)[0].Component)
		if _, err := got.Children[0].Render(nil); err != nil && got.InvalidMessage == "" {
			got.InvalidMessage = err.Error()
		}
		if !strings.HasPrefix(got.InvalidMessage, want) || got.InvalidMessage != "" && want == "" {
			t.Errorf("%s: got %q, want %q", overlay, got.InvalidMessage, want)
		}
	}
}

// TestOverlayMessages compares whole messages: they name the field and the fix.
func TestOverlayMessages(t *testing.T) {
	const protected = "podTemplateOverlay removes or changes "
	const wrongType = "podTemplateOverlay is not a valid pod template: "
	invalidMessages(t, map[string]string{
		`podTemplateOverlay: {spec: {$retainKeys: [containers, securityContext]}}`: protected +
			"spec.serviceAccountName or spec.automountServiceAccountToken, which Holdfast manages; remove this part of the overlay",
		`podTemplateOverlay: {spec: {containers: [{name: app, $retainKeys: [name, image]}]}}`: protected +
			`the securityContext of the container "app", which Holdfast manages; remove this part of the overlay`,
		`podTemplateOverlay: {spec: {containers: [{name: My_Proxy, image: p}]}}`: `podTemplateOverlay has a container named "My_Proxy"; ` +
			`a container name must consist of a-z, 0-9 and -`,
		`podTemplateOverlay: {spec: {terminationGracePeriodSeconds: soon}}`: wrongType +
			"spec.terminationGracePeriodSeconds is a string but must be a number; correct it",
		`podTemplateOverlay: {spec: {dnsConfig: none}}`: wrongType + "spec.dnsConfig is a string but must be a map; correct it",
		`podTemplateOverlay: {spec: {$setElementOrder/containers: app}}`: "podTemplateOverlay cannot be merged: " +
			"expected a []interface {}, but received a string; the overlay must have the form of a pod template: {metadata: {...}, spec: {...}}",
		`podTemplateOverlay: []`: "podTemplateOverlay: json: cannot unmarshal array into Go value of type map[string]interface {}",
	})
}
