// Package client and the packages below it are how a Go program works with AppServices and
// AppStacks:
//
//	clientset/versioned          create, apply, get, list, watch, scale
//	applyconfiguration           what Apply takes: exactly the fields that you decide
//	informers/externalversions   a cache of all objects that follows the cluster
//	listers                      how to read that cache
//
// Make a clientset with versioned.NewForConfig, then
//
//	client.AppsV1alpha1().AppServices("shop").Get(ctx, "web", metav1.GetOptions{})
//
// docs/user/go-client.md shows more; examples/ has whole programs.
//
// Everything but this file and its test is generated from api/v1alpha1 by
// hack/update-codegen.sh.
//
// Safety rule: none of it is edited by hand.
package client
