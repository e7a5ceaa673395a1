package desired

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// bindingEnv are the environment variables that tell a component where others are.
func (rc renderContext) bindingEnv(c appsapi.Component) []corev1.EnvVar {
	var out []corev1.EnvVar
	for _, b := range c.Bindings {
		i := slices.IndexFunc(rc.components, func(o appsapi.Component) bool { return o.Name == b.Component })
		if i < 0 {
			continue // refused before anything is applied
		}
		server := serverSpec(rc.components[i])
		if server == nil || len(server.Ports) == 0 {
			continue // refused, too
		}
		host, port := rc.address(rc.components[i])
		out = append(out,
			corev1.EnvVar{Name: envPrefix(b) + "_HOST", Value: host},
			corev1.EnvVar{Name: envPrefix(b) + "_PORT", Value: port})
		if b.Secret != "" {
			out = append(out, bindingSecretEnv(b)...)
		}
	}
	return out
}

// bindingSecretEnv are the variables that only those see who may see the Secret.
func bindingSecretEnv(b appsapi.Binding) []corev1.EnvVar {
	var out []corev1.EnvVar
	for _, key := range []string{"username", "password", "database", "uri"} {
		from := &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: b.Secret}, Key: key}
		out = append(out, corev1.EnvVar{Name: envPrefix(b) + "_" + strings.ToUpper(key), ValueFrom: &corev1.EnvVarSource{SecretKeyRef: from}})
	}
	return out
}

// address is where a service with ports is reached.
func (rc renderContext) address(c appsapi.Component) (host, port string) {
	return fmt.Sprintf("%s.%s.svc", ResourceName(rc.Owner, c), rc.Namespace), strconv.Itoa(int(serverSpec(c).Ports[0].Port))
}

func envPrefix(b appsapi.Binding) string {
	if b.EnvPrefix != "" {
		return b.EnvPrefix
	}
	return strings.ToUpper(strings.ReplaceAll(b.Component, "-", "_"))
}

// mergeBindingEnv puts the variables of bindings first, so that others can be made of them.
// One that the spec sets itself stays as it is set.
func mergeBindingEnv(bindings, specEnv []corev1.EnvVar) []corev1.EnvVar {
	out := slices.DeleteFunc(bindings, func(b corev1.EnvVar) bool {
		return slices.ContainsFunc(specEnv, func(o corev1.EnvVar) bool { return o.Name == b.Name })
	})
	return append(out, specEnv...)
}
