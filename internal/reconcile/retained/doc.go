// Package retained finds the claims and credentials of an application, including those that
// outlived their component.
//
// A cache may be behind the API server. Where outdated state could lose data (a component that starts
// with an empty volume although it has data, a volume that is deleted while a pod uses it), the API
// server is read.
package retained
