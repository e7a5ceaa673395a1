package desired

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/mariadb"
)

// bindingEnv returns the environment variables with the addresses of bound components.
func (rc renderContext) bindingEnv(c ExpandedComponent) []corev1.EnvVar {
	var out []corev1.EnvVar
	for _, b := range c.Bindings {
		i := slices.IndexFunc(rc.components, func(o ExpandedComponent) bool { return o.Name == b.Component })
		if i < 0 {
			continue // rollout.Validate rejects unknown components
		}
		server := longRunningSpec(rc.components[i])
		if server == nil || len(server.Ports) == 0 {
			continue // rollout.Validate rejects bindings to components without ports
		}
		host, port := rc.address(rc.components[i])
		out = append(out,
			corev1.EnvVar{Name: envPrefix(b) + "_HOST", Value: host},
			corev1.EnvVar{Name: envPrefix(b) + "_PORT", Value: port})
		if secret := c.BindingSecrets[b.Component]; secret != "" {
			out = append(out, bindingSecretEnv(b, secret)...)
		}
	}
	return out
}

// bindingSecretEnv returns the variables whose values come from the binding Secret.
func bindingSecretEnv(b appsapi.Binding, secret string) []corev1.EnvVar {
	var out []corev1.EnvVar
	for _, v := range []struct{ suffix, key string }{
		{"USERNAME", "username"}, {"PASSWORD", "password"}, {"DATABASE", "database"}, {"URI", "uri"}, {"CA_CERT", mariadb.KeyCA},
	} {
		from := &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: secret}, Key: v.key}
		out = append(out, corev1.EnvVar{Name: envPrefix(b) + "_" + v.suffix, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: from}})
	}
	return out
}

// address returns the DNS name and the first port of a service with ports.
func (rc renderContext) address(c ExpandedComponent) (host, port string) {
	return fmt.Sprintf("%s.%s.svc", DeclaredName(rc.Owner, c), rc.Namespace), strconv.Itoa(int(longRunningSpec(c).Ports[0].Port))
}

func envPrefix(b appsapi.Binding) string {
	if b.EnvPrefix != "" {
		return b.EnvPrefix
	}
	return strings.ToUpper(strings.ReplaceAll(b.Component, "-", "_"))
}

// mergeBindingEnv puts the variables of bindings first, so that variables of the spec can reference them.
// Variables of the spec take precedence.
func mergeBindingEnv(bindings, specEnv []corev1.EnvVar) []corev1.EnvVar {
	out := slices.DeleteFunc(bindings, func(b corev1.EnvVar) bool {
		return slices.ContainsFunc(specEnv, func(o corev1.EnvVar) bool { return o.Name == b.Name })
	})
	return append(out, specEnv...)
}
