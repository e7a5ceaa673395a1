// Package desired says which child objects a component needs and what they look like,
// as apply configurations: exactly the fields we mean, and no others.
//
// Safety rule: names, labels, selectors and pod templates are contracts. A difference
// in a golden file inside a pod template restarts every user's pods on upgrade.
package desired
