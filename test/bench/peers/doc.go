// Package peers contains the programs that the operator is compared with. Each reconciles AppServices into the same
// Deployment and Service with the same names, and sets the same condition, so that one driver can measure all of them:
//
//	sample        the sample-controller pattern, implemented for the benchmark
//	kubebuilder   the kubebuilder pattern on controller-runtime, implemented for the benchmark
//	fluxssa       the apply engine of Flux, the released module in a minimal controller
//	kro           kro, the released program unchanged; in a separate module
//
// Safety rule: where a pattern leaves a choice, the peer uses the faster option. No peer is slowed down by a rate
// limiter. The specs of their children are equal to those of the operator; each run verifies that.
package peers
