// Package configrefs hashes the ConfigMaps and Secrets that pods reference, so that pods are replaced when
// their configuration changes. It stores only hashes, and HMACs for Secrets, never content.
package configrefs
