// Package configrefs hashes the ConfigMaps and Secrets that pods refer to, so that pods are replaced
// when their configuration changes. Content is never kept: only hashes are, keyed for Secrets.
package configrefs
