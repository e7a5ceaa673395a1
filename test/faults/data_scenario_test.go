package faults

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/volsim"
)

const storageRefusedStatus = "False/StorageChangeRejected"

var (
	vaultReady    = vaultStatus(readyStatus, present)
	vaultRetained = vaultStatus(absent, present)
	vaultDeleted  = vaultStatus(absent, absent)
)

// vaultStatus returns the expected state of the application and of its data.
func vaultStatus(app, data string) map[string]string {
	return map[string]string{"AppStack/vault": app, "Secret/vault-db-auth": data,
		"PersistentVolumeClaim/data-vault-db-0": data, "PersistentVolumeClaim/data-vault-db-1": data}
}

// dataScenario contains common operations on components with data. Only the last step is allowed to delete data.
var dataScenario = []step{
	{"data-install", func(u *user, ctx context.Context) error { return u.create(ctx, u.vaultStack("db", "1Gi")) }, vaultReady},
	{"data-grow", resizeVault("2Gi"), vaultReady},
	{"data-shrink", resizeVault("1Gi"), vaultStatus(storageRefusedStatus, present)},
	{"data-undo", resizeVault("2Gi"), vaultReady},
	{"data-rename", editVault(func(s *appsapi.AppStackSpec) {
		s.Components[0].Name, s.Components[0].RenamedFrom = "database", "db"
		s.Components[1].Bindings[0] = appsapi.Binding{Component: "database", EnvPrefix: "DB"}
	}), vaultReady},
	{"data-scale-down", scaleVault(1), vaultReady},
	{"data-scale-up", scaleVault(2), vaultReady},
	{"data-remove", editVault(func(s *appsapi.AppStackSpec) {
		s.Components = s.Components[1:]
		s.Components[0].Bindings = nil
	}), vaultReady},
	{"data-add-again", func(u *user, ctx context.Context) error {
		return editVault(func(s *appsapi.AppStackSpec) { s.Components = u.vaultStack("database", "2Gi").Spec.Components })(u, ctx)
	}, vaultReady},
	{"data-set-taken", func(u *user, ctx context.Context) error {
		return u.Delete(ctx, &appsv1.StatefulSet{ObjectMeta: u.objectMeta("vault-db")}, client.PropagationPolicy(metav1.DeletePropagationOrphan))
	}, vaultReady},
	{"data-delete", (*user).deleteVault, vaultRetained},
	{"data-create-again", func(u *user, ctx context.Context) error { return u.create(ctx, u.vaultStack("database", "2Gi")) }, vaultReady},
	{"data-policy", editVault(func(s *appsapi.AppStackSpec) { s.DeletionPolicy = appsapi.DeletionDelete }), vaultReady},
	{"data-delete-for-good", (*user).deleteVault, vaultDeleted},
}

// vaultStack returns a database with two pods, and a service that uses it.
func (u *user) vaultStack(database, size string) *appsapi.AppStack {
	port := []appsapi.Port{{Name: "sql", Port: 3306}}
	stack := &appsapi.AppStack{ObjectMeta: u.objectMeta("vault")}
	stack.Spec.Components = []appsapi.Component{
		{Name: database, Stateful: &appsapi.StatefulComponent{
			ServerSpec:  appsapi.ServerSpec{ContainerSpec: containerSpec("shop/db:1"), Ports: port, Replicas: new(int32(2))},
			Storage:     []appsapi.StorageSpec{{Name: "data", MountPath: "/data", Size: resource.MustParse(size), ClassName: new(volsim.Standard)}},
			Credentials: []appsapi.Credential{{Key: "password", Env: "PASSWORD"}},
		}},
		{Name: "web", Bindings: []appsapi.Binding{{Component: database, EnvPrefix: "DB"}},
			Service: &appsapi.ServiceComponent{ServerSpec: appsapi.ServerSpec{ContainerSpec: containerSpec("shop/web:1")}}},
	}
	return stack
}

func editVault(change func(*appsapi.AppStackSpec)) func(*user, context.Context) error {
	return func(u *user, ctx context.Context) error {
		app := &appsapi.AppStack{ObjectMeta: u.objectMeta("vault")}
		if err := u.Get(ctx, client.ObjectKeyFromObject(app), app); err != nil {
			return err
		}
		before := app.DeepCopy()
		change(&app.Spec)
		return u.Patch(ctx, app, client.MergeFrom(before))
	}
}

func resizeVault(size string) func(*user, context.Context) error {
	return editVault(func(s *appsapi.AppStackSpec) { s.Components[0].Stateful.Storage[0].Size = resource.MustParse(size) })
}

func scaleVault(replicas int32) func(*user, context.Context) error {
	return editVault(func(s *appsapi.AppStackSpec) { s.Components[0].Stateful.Replicas = &replicas })
}

func (u *user) deleteVault(ctx context.Context) error {
	return u.Delete(ctx, &appsapi.AppStack{ObjectMeta: u.objectMeta("vault")})
}
