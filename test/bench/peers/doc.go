// Package peers holds the programs that the operator is measured against. Each reconciles
// AppServices into the same Deployment and Service, under the same names, and says so with
// the same condition, so that one driver can measure all of them:
//
//	sample        the sample-controller pattern, as the literature teaches it, written by us
//	kubebuilder   the kubebuilder pattern on controller-runtime, written by us
//	fluxssa       Flux's apply engine, the released module, with the least around it
//	kro           kro, the released program unchanged; a module of its own
//
// Safety rule: where a pattern leaves a choice, the peer gets what is faster. No peer is
// slowed down by a rate limiter. What they make is what the operator makes, to the last field
// of the spec; each run checks that.
package peers
