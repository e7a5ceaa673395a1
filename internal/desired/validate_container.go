package desired

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
)

// validateContainer validates a container in the order of its fields.
func validateContainer(c *corev1.Container) error {
	var all []error
	for _, e := range c.Env {
		if err := validateEnvVar(e); err != nil {
			all = append(all, fmt.Errorf("env[%s] %w", e.Name, err))
		}
	}
	for i, e := range c.EnvFrom {
		if err := validateEnvFrom(e); err != nil {
			all = append(all, fmt.Errorf("envFrom[%d] %w", i, err))
		}
	}
	all = append(all, validateResources(c.Resources))
	for i, p := range []*corev1.Probe{c.ReadinessProbe, c.LivenessProbe, c.StartupProbe} {
		if p == nil {
			continue
		}
		if err := validateProbe(p, c.Ports, i == 0); err != nil {
			all = append(all, fmt.Errorf("probes.%s %w", []string{"readiness", "liveness", "startup"}[i], err))
		}
	}
	return joinErrors(all...)
}

func validateEnvVar(e corev1.EnvVar) error {
	from := e.ValueFrom
	switch {
	case e.Name == "":
		return errors.New("has no name; set the name of the variable")
	case len(validation.IsRelaxedEnvVarName(e.Name)) > 0:
		return errors.New("is not a valid variable name: it must not contain = or non-printable characters; " +
			"put only the name in name, and the value in value")
	case from == nil:
		return nil
	case e.Value != "":
		return errors.New("has value and valueFrom; remove one of them")
	}
	sources := 0
	for _, set := range []bool{from.ConfigMapKeyRef != nil, from.SecretKeyRef != nil, from.FieldRef != nil, from.ResourceFieldRef != nil, from.FileKeyRef != nil} {
		if set {
			sources++
		}
	}
	if sources != 1 {
		return errors.New("needs exactly one of configMapKeyRef, secretKeyRef, fieldRef and resourceFieldRef in valueFrom")
	}
	if r := from.ConfigMapKeyRef; r != nil && !isOptional(r.Optional) && !isValidName(r.Name) {
		return invalidReference("ConfigMap", r.Name)
	}
	if r := from.SecretKeyRef; r != nil && !isOptional(r.Optional) && !isValidName(r.Name) {
		return invalidReference("Secret", r.Name)
	}
	if r := from.FieldRef; r != nil && !isPodFieldPath(r.FieldPath) {
		return fmt.Errorf("has fieldPath %q, which is not available to environment variables; "+
			"use one of %s, metadata.labels['<name>'] and metadata.annotations['<name>']",
			r.FieldPath, strings.Join(podFieldPaths, ", "))
	}
	return nil
}

func isOptional(o *bool) bool { return o != nil && *o }

// podFieldPaths are the pod fields that are available to environment variables.
var podFieldPaths = []string{
	"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
	"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
}

func isPodFieldPath(path string) bool {
	return slices.Contains(podFieldPaths, path) || strings.HasPrefix(path, "metadata.labels[") || strings.HasPrefix(path, "metadata.annotations[")
}

func validateEnvFrom(e corev1.EnvFromSource) error {
	switch {
	case (e.ConfigMapRef != nil) == (e.SecretRef != nil):
		return errors.New("needs exactly one of configMapRef and secretRef")
	case e.ConfigMapRef != nil && !isOptional(e.ConfigMapRef.Optional) && !isValidName(e.ConfigMapRef.Name):
		return invalidReference("ConfigMap", e.ConfigMapRef.Name)
	case e.SecretRef != nil && !isOptional(e.SecretRef.Optional) && !isValidName(e.SecretRef.Name):
		return invalidReference("Secret", e.SecretRef.Name)
	}
	return nil
}

func validateResources(r corev1.ResourceRequirements) error {
	for _, list := range []struct {
		name   string
		values corev1.ResourceList
	}{{"requests", r.Requests}, {"limits", r.Limits}} {
		for _, name := range slices.Sorted(maps.Keys(list.values)) {
			if err := validateQuantity(name, list.values[name]); err != nil {
				return fmt.Errorf("resources.%s.%s %w", list.name, name, err)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Requests)) {
		request := r.Requests[name]
		limit, limited := r.Limits[name]
		switch {
		case limited && request.Cmp(limit) > 0:
			return fmt.Errorf("resources.requests.%s (%s) exceeds resources.limits.%s (%s); "+
				"lower the request or raise the limit", name, request.String(), name, limit.String())
		case isExtendedResource(name) && (!limited || request.Cmp(limit) != 0):
			return fmt.Errorf("resources.requests.%s is an extended resource and requires an equal limit; "+
				"set resources.limits.%s to %s", name, name, request.String())
		}
	}
	return nil
}

// validateResourceClaims rejects resource claims without an overlay, because only an overlay can declare them.
func validateResourceClaims(r corev1.ResourceRequirements) error {
	if len(r.Claims) == 0 {
		return nil
	}
	return fmt.Errorf("resources.claims references %q, which the pod does not declare; "+
		"declare it in spec.resourceClaims of podTemplateOverlay, or remove it", r.Claims[0].Name)
}

// isExtendedResource reports whether a resource is an extended resource, which cannot be divided.
func isExtendedResource(name corev1.ResourceName) bool {
	domain, _, qualified := strings.Cut(string(name), "/")
	return qualified && !strings.HasSuffix(domain, "kubernetes.io")
}

func validateQuantity(name corev1.ResourceName, q resource.Quantity) error {
	known := []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage}
	switch {
	case !slices.Contains(known, name) && !strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) && !strings.Contains(string(name), "/"):
		return errors.New("is not a known resource; use cpu, memory, ephemeral-storage, or an extended resource such as example.com/gpu")
	case q.Sign() < 0:
		return fmt.Errorf("is %s; it must not be negative", q.String())
	case isExtendedResource(name) && q.MilliValue()%1000 != 0:
		return fmt.Errorf("is %s; an extended resource must be a whole number", q.String())
	}
	return nil
}

func validateProbe(p *corev1.Probe, ports []corev1.ContainerPort, readiness bool) error {
	for _, n := range []struct {
		name  string
		value int32
	}{
		{"initialDelaySeconds", p.InitialDelaySeconds}, {"timeoutSeconds", p.TimeoutSeconds}, {"periodSeconds", p.PeriodSeconds},
		{"successThreshold", p.SuccessThreshold}, {"failureThreshold", p.FailureThreshold},
	} {
		if n.value < 0 {
			return fmt.Errorf("has %s %d; it must not be negative", n.name, n.value)
		}
	}
	switch {
	case !readiness && p.SuccessThreshold > 1:
		return fmt.Errorf("has successThreshold %d; only a readiness probe can have more than 1", p.SuccessThreshold)
	case p.Exec != nil && len(p.Exec.Command) == 0:
		return errors.New("has exec without a command; set the command, for example exec: {command: [test, -e, /ready]}")
	case p.HTTPGet != nil:
		return validateProbePort(p.HTTPGet.Port, ports)
	case p.TCPSocket != nil:
		return validateProbePort(p.TCPSocket.Port, ports)
	case p.GRPC != nil:
		return validateProbePort(intstr.FromInt32(p.GRPC.Port), ports)
	}
	return nil
}

func validateProbePort(port intstr.IntOrString, ports []corev1.ContainerPort) error {
	if port.Type == intstr.Int {
		if port.IntVal < 1 || port.IntVal > 65535 {
			return fmt.Errorf("has port %d; a port must be from 1 to 65535", port.IntVal)
		}
		return nil
	}
	var names []string
	for _, p := range ports {
		if p.Name == port.StrVal {
			return nil
		}
		if p.Name != "" {
			names = append(names, p.Name)
		}
	}
	if len(names) == 0 {
		return fmt.Errorf("has port %q, but no port has a name; use the port number, or name the port in ports", port.StrVal)
	}
	return fmt.Errorf("has port %q, which is not in ports (%s); "+
		"correct the name, or use the port number", port.StrVal, strings.Join(names, ", "))
}
