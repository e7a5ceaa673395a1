// Package authz answers two questions for the application center: who is asking, and what
// may they see. The center itself may watch nearly everything, so this package is all that
// keeps one user from seeing what only another one may.
//
//	Authorization: Bearer ──► TokenReview ──► User ──► SubjectAccessReview ──► Scope: yes | no
//	                            └────────── kept for a short time ───────────────┘
//	open stream ──► Sight ──► asked again every 30 s ──► Changed | Revoked
//
// # What a user sees
//
// A [Scope] is a resource in a namespace, and seeing it means being allowed to list it there.
// Who may list a resource in all namespaces gets each of them by one request to the API server,
// whatever authorizer is in use, so this is asked first and a yes makes the questions per
// namespace needless. Nothing else is concluded from an answer: a right on "*" may mean all
// resources to one authorizer and something else to another.
//
// SelfSubjectRulesReview lists all rights in a namespace at once, but only those of whoever asks,
// and it is documented as incomplete and not meant for decisions. So there is one review per
// question, and the cost is kept down otherwise: n namespaces and k kinds cost k reviews for who
// may list everywhere and at most k+n*k for others, once in 30 s for all requests of a user
// together. A caller with many namespaces should prefetch the kinds of applications first, and
// the kinds below them only in the namespaces that turned out to be seen.
//
// On an open stream every yes is asked again in every round, because it may have been taken
// away. A no is asked again too, but at most Options.DeniedPerRecheck of them in a round, oldest
// first: a right that was given may be noticed late, one that was taken away may not.
//
// # How long a right that was taken away still works
//
// A single request uses answers of at most 30 s of age (TokenTTL, AccessTTL), counted from the
// moment the API server was asked.
//
//	open stream:   10 s  MaxSharedAge: an answer is at most this old when a Sight takes it
//	             + 30 s  RecheckInterval: the next round begins
//	             + 20 s  what is left of StaleAfter for the round: the answer is replaced by then
//	             = 60 s  StaleAfter: a yes of this age is none, and the Sight closes
//
// The last line does not depend on the others: [Sight.Sees] looks at the age itself. The usual
// case is 30 to 40 s and the time that the reviews take. The API server adds what it keeps
// itself, which this package cannot shorten: 10 s for a token that it has found valid, nothing
// for RBAC, and for an authorization webhook what its configuration says.
//
// # Rights that the center needs
//
// create on tokenreviews.authentication.k8s.io and subjectaccessreviews.authorization.k8s.io,
// as the ClusterRole system:auth-delegator gives them. Without them nobody sees anything. The
// manifests of the center carry the role, there are no markers here: those of this repository
// belong to the operator.
//
// Safety rule: what cannot be checked is not shown. An error is never a yes, is never kept, and
// a yes is never older than StaleAfter. A token is kept as a hash, and no error, log line or
// formatted value has it.
package authz
