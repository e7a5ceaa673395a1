// Package kro pins contender C4: kro as released, the unchanged program, built with the versions of its release. It is
// therefore a separate module without dependencies on Holdfast. Package test/bench/contender starts it.
//
// web.yaml is the equivalent of an AppService for kro. The CRDs of kro come from the chart in its module.
package kro
