// Package kro pins contender C4: kro as it was released, its program unchanged, built with the
// versions of its release and of nothing else. That is why this is a module of its own, which
// depends on nothing of ours. Package test/bench/contender says how it is started.
//
// web.yaml is what a user of kro would write to get what an AppService is to us. Its CRDs come
// from the chart in its module.
package kro
