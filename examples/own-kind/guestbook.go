package main

import (
	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/engine"
)

// types are the component types below. The operator watches and needs permissions only for these.
var types = []engine.ComponentType{appsapi.ComponentService, appsapi.ComponentStateful}

// components maps a Guestbook to components: a Redis with a volume, and a page that is bound to it
// and waits for it. It is a pure function, so its test is a table.
func components(g *Guestbook) []engine.Component {
	var store appsapi.StatefulComponent
	store.Image, store.Args = "redis:7.2", []string{"--appendonly", "yes"}
	store.Replicas = new(int32(1))
	store.Ports = []appsapi.Port{{Name: "redis", Port: 6379}}
	store.Storage = []appsapi.StorageSpec{{Name: "data", MountPath: "/data", Size: g.Spec.Storage}}

	var web appsapi.ServiceComponent
	web.Image, web.Replicas = g.Spec.Image, g.Spec.Replicas
	web.Ports = []appsapi.Port{{Name: "http", Port: 80}}

	return []engine.Component{
		{Name: "store", Stateful: &store},
		{Name: "web", Service: &web, Bindings: []appsapi.Binding{{Component: "store", EnvPrefix: "REDIS"}}},
	}
}
