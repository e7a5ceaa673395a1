package explain

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

func missingRefCases() map[string]podCase {
	const path = "status.containerStatuses[0].state.waiting"
	missing := func(code Code, kind, name, evidenceText string) []Cause {
		return []Cause{{
			Code: code, Object: testPodRef("web-1"), Path: path, Value: name, Since: testNow.Add(-unreadyFor),
			Message:  "Container app of Pod web-1 needs " + kind + ` "` + name + `", which does not exist in namespace shop`,
			Fix:      "Create " + kind + ` "` + name + `" in namespace shop, or correct spec.env and spec.envFrom of the application.`,
			Evidence: []string{"1 of 1 pods", evidenceText},
		}}
	}
	configErrorPod := func(message string) []*corev1.Pod {
		return []*corev1.Pod{pod("web-1", waiting("CreateContainerConfigError", message))}
	}
	inInit := missing("MissingSecret", "Secret", "seed", `secret "seed" not found`)
	inInit[0].Path = "status.initContainerStatuses[0].state.waiting"
	inInit[0].Message = `Init container migrate of Pod web-1 needs Secret "seed", which does not exist in namespace shop`
	return map[string]podCase{
		"missing Secret": {
			pods: configErrorPod(`secret "web-token" not found`),
			want: missing("MissingSecret", "Secret", "web-token", `secret "web-token" not found`),
		},
		"missing ConfigMap": {
			pods: configErrorPod(`configmap "web.settings" not found`),
			want: missing("MissingConfigMap", "ConfigMap", "web.settings", `configmap "web.settings" not found`),
		},
		"missing Secret, as the API server reports it": {
			pods: configErrorPod(`failed to sync: secrets "web-token" not found`),
			want: missing("MissingSecret", "Secret", "web-token", `failed to sync: secrets "web-token" not found`),
		},
		"missing Secret of an init container": {
			pods: []*corev1.Pod{pod("web-1", waiting("PodInitializing", ""), withInitContainer("migrate", corev1.ContainerStatus{
				State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CreateContainerConfigError", Message: `secret "seed" not found`}},
			}))},
			want: inInit,
		},
		"missing key": {
			pods: configErrorPod("couldn't find key PASS_word.1 in ConfigMap shop/web.settings"),
			want: []Cause{{
				Code: "MissingKey", Object: testPodRef("web-1"), Path: path, Value: "web.settings/PASS_word.1", Since: testNow.Add(-unreadyFor),
				Message:  `Container app of Pod web-1 needs key "PASS_word.1" of ConfigMap "web.settings" in namespace shop, which has no such key`,
				Fix:      `Add key "PASS_word.1" to ConfigMap "web.settings" in namespace shop, or correct spec.env of the application.`,
				Evidence: []string{"1 of 1 pods", "couldn't find key PASS_word.1 in ConfigMap shop/web.settings"},
			}},
		},
		"invalid image name": {
			pods: []*corev1.Pod{pod("web-1", waiting("InvalidImageName", `Failed to apply default image tag "Shop": invalid reference format`))},
			want: []Cause{{
				Code: "InvalidImageName", Object: testPodRef("web-1"), Path: path, Value: "shop/web:2", Since: testNow.Add(-unreadyFor),
				Message:  `Image "shop/web:2" is not a valid image name (container app of Pod web-1)`,
				Fix:      "Correct spec.image of the application: use a lower-case name with a tag, for example registry.example.com/shop/web:1.",
				Evidence: []string{"1 of 1 pods", `Failed to apply default image tag "Shop": invalid reference format`},
			}},
		},
		"other configuration error":      {pods: configErrorPod("couldn't find key a b in Secret shop/web-token")},
		"invalid object name is ignored": {pods: configErrorPod(`secret "Web Token" not found`)},
		"configuration error after a crash": {
			pods: []*corev1.Pod{pod("web-1", waiting("CreateContainerConfigError", ""), restarted(1, termination(1, "Error", "", time.Minute)))},
		},
	}
}
