// Package authz authenticates the callers of the application center and reviews their access. The
// center itself can watch nearly all resources, so only this package prevents a user from seeing objects
// without permission.
//
//	Authorization: Bearer ──► TokenReview ──► User ──► SubjectAccessReview ──► Scope: allowed | denied
//	                            └──────────────── cached ────────────────────┘
//	open stream ──► Viewer ──► re-checked every 30 s ──► Changed | Revoked
//
// # Scopes
//
// A [Scope] is a resource in a namespace. A user sees the scope if the user is allowed to list the resource
// there. Permission to list a resource in all namespaces includes each namespace with any authorizer, so the
// cluster-wide scope is reviewed first and, if allowed, replaces the reviews per namespace. No other
// conclusion is drawn: a rule on "*" means all resources for one authorizer and not for another.
//
// SelfSubjectRulesReview returns all rules of a namespace at once, but only for the client itself, and is
// documented as incomplete and unsuited for decisions. So there is one review per scope: n namespaces and
// k kinds take k reviews for users with cluster-wide permissions and at most k+n*k for others, once in 30 s
// for all requests of a user together. With many namespaces, prefetch the kinds of applications first and
// the other kinds only in the namespaces that the user sees.
//
// A re-check of an open stream reviews every allowed scope, because the access may have been
// revoked. It reviews at most Options.DeniedPerRecheck denied scopes, oldest first: a delay is acceptable
// for granted access, not for revoked access.
//
// # Delay of revoked access
//
// A single request uses results of at most 30 s of age (TokenTTL, AccessTTL), counted from the
// start of the review.
//
//	open stream:   10 s  MaxSharedAge: maximum age of a result when a Viewer takes it
//	             + 30 s  RecheckInterval: the next re-check starts
//	             + 20 s  the rest of StaleAfter, for the re-check
//	             = 60 s  StaleAfter: an allowed result of this age expires, and the Viewer ends
//
// The last line does not depend on the others: [Viewer.Allows] checks the age. The delay is usually 30 to
// 40 s plus the duration of the reviews. The API server has its own caches, which add to the delay: 10 s for
// a valid token, nothing for RBAC, and the configured TTL for an authorization webhook.
//
// # Permissions of the center
//
// create on tokenreviews.authentication.k8s.io and subjectaccessreviews.authorization.k8s.io, as granted by
// the ClusterRole system:auth-delegator. Without them every request is denied. The manifests of the center
// bind the ClusterRole; there are no RBAC markers here, because the markers of this repository generate the
// role of the operator.
//
// Safety rule: a failed review denies access. An error never counts as allowed and is never cached, and no
// allowed result is older than StaleAfter. A token is stored as a hash, and no error, log line or formatted
// value contains it.
package authz
