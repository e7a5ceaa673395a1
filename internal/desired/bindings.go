package desired

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// bindings are the environment variables that tell a component where others are.
func (a application) bindings(c appsapi.Component) []corev1.EnvVar {
	var out []corev1.EnvVar
	for _, b := range c.Bindings {
		i := slices.IndexFunc(a.components, func(o appsapi.Component) bool { return o.Name == b.Component })
		if i < 0 {
			continue // refused before anything is applied
		}
		server := serverOf(a.components[i])
		if server == nil || len(server.Ports) == 0 {
			continue // refused, too
		}
		host, port := a.address(a.components[i])
		out = append(out,
			corev1.EnvVar{Name: prefix(b) + "_HOST", Value: host},
			corev1.EnvVar{Name: prefix(b) + "_PORT", Value: port})
		if b.Secret != "" {
			out = append(out, secrets(b)...)
		}
	}
	return out
}

// secrets are the variables that only those see who may see the Secret.
func secrets(b appsapi.Binding) []corev1.EnvVar {
	var out []corev1.EnvVar
	for _, key := range []string{"username", "password", "database", "uri"} {
		from := &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: b.Secret}, Key: key}
		out = append(out, corev1.EnvVar{Name: prefix(b) + "_" + strings.ToUpper(key), ValueFrom: &corev1.EnvVarSource{SecretKeyRef: from}})
	}
	return out
}

// address is where a service with ports is reached.
func (a application) address(c appsapi.Component) (host, port string) {
	return fmt.Sprintf("%s.%s.svc", Name(a.Owner, c), a.Namespace), strconv.Itoa(int(serverOf(c).Ports[0].Port))
}

func prefix(b appsapi.Binding) string {
	if b.EnvPrefix != "" {
		return b.EnvPrefix
	}
	return strings.ToUpper(strings.ReplaceAll(b.Component, "-", "_"))
}

// withBindings puts the variables of bindings first, so that others can be made of them.
// One that the spec sets itself stays as it is set.
func withBindings(bindings, own []corev1.EnvVar) []corev1.EnvVar {
	out := slices.DeleteFunc(bindings, func(b corev1.EnvVar) bool {
		return slices.ContainsFunc(own, func(o corev1.EnvVar) bool { return o.Name == b.Name })
	})
	return append(out, own...)
}
