package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// readAdmission returns the messages of validation rules of the CRDs and of the admission policies.
func readAdmission(root string) ([]message, error) {
	var out []message
	files, err := filepath.Glob(filepath.Join(root, "config/crd/*.yaml"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(source, &crd); err != nil {
			return nil, err
		}
		for _, v := range crd.Spec.Versions {
			if v.Schema == nil {
				continue
			}
			found, err := schemaMessages(crd.Spec.Names.Kind, "", *v.Schema.OpenAPIV3Schema)
			if err != nil {
				return nil, err
			}
			out = append(out, found...)
		}
	}
	policies, err := policyMessages(root)
	return append(mergeWhere(out), policies...), err
}

func schemaMessages(kind, path string, s apiextensionsv1.JSONSchemaProps) ([]message, error) {
	var out []message
	for _, rule := range s.XValidations {
		texts, err := []string{rule.Message}, error(nil)
		if rule.MessageExpression != "" {
			if texts, err = expressionTexts(rule.MessageExpression, nil); err != nil {
				return nil, err
			}
		}
		for _, text := range texts {
			out = append(out, message{code: strings.TrimPrefix(path, "."), text: text, where: kind})
		}
	}
	children := map[string]apiextensionsv1.JSONSchemaProps{}
	for name, property := range s.Properties {
		children["."+name] = property
	}
	if s.Items != nil && s.Items.Schema != nil {
		children["[]"] = *s.Items.Schema
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		children["[]"] = *s.AdditionalProperties.Schema
	}
	for _, name := range slices.Sorted(maps.Keys(children)) {
		found, err := schemaMessages(kind, path+name, children[name])
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}

// mergeWhere lists a message once, with the first field that has it.
func mergeWhere(messages []message) []message {
	var out []message
	at := map[string]int{}
	for _, m := range messages {
		if i, ok := at[m.text]; ok {
			if !strings.Contains(out[i].where, m.where) {
				out[i].where += ", " + m.where
			}
			continue
		}
		at[m.text] = len(out)
		out = append(out, m)
	}
	return out
}

func policyMessages(root string) ([]message, error) {
	files, err := filepath.Glob(filepath.Join(root, "config/policy/*.yaml"))
	if err != nil {
		return nil, err
	}
	var out []message
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for document := range strings.SplitSeq(string(source), "\n---\n") {
			var policy admissionv1.ValidatingAdmissionPolicy
			if yaml.Unmarshal([]byte(document), &policy) != nil || policy.Kind != "ValidatingAdmissionPolicy" {
				continue
			}
			for _, v := range policy.Spec.Validations {
				texts := []string{v.Message}
				if v.Message == "" {
					if texts, err = expressionTexts(v.MessageExpression, policy.Spec.Variables); err != nil {
						return nil, err
					}
				}
				for _, text := range texts {
					m := message{code: policy.Name, text: text, where: "ValidatingAdmissionPolicy"}
					if !slices.Contains(out, m) {
						out = append(out, m)
					}
				}
			}
		}
	}
	return out, nil
}
