// Package revision stores earlier specs of an application in ControllerRevisions: how a spec is encoded, which
// revisions are kept, and how two specs differ. It is pure. The sub-package reader has a client and knows the
// kinds, which the engine must not import.
//
// Safety rules: the applied spec and the last healthy one are never pruned. Differences never show passwords.
package revision
