package faults

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/mariadb"
	"github.com/holdfast-dev/holdfast/internal/mariadb/session"
	"github.com/holdfast-dev/holdfast/internal/testutil/sqlsim"
	"github.com/holdfast-dev/holdfast/internal/testutil/volsim"
	"github.com/holdfast-dev/holdfast/internal/testutil/watcher"
)

var (
	shelfReady    = shelfStatus(readyStatus, present, present)
	shelfRetained = shelfStatus(absent, present, absent)
	shelfDeleted  = shelfStatus(absent, absent, absent)
)

// shelfStatus returns the expected state of the application, its data and its binding.
func shelfStatus(app, data, binding string) map[string]string {
	return map[string]string{"AppStack/shelf": app, "Secret/shelf-db-auth": data, "PersistentVolumeClaim/data-shelf-db-0": data,
		"Secret/shelf-db-binding": binding, "StatefulSet/shelf-db": binding}
}

// databaseScenario rotates passwords in between other operations on a database.
var databaseScenario = []step{
	{"database-install", func(u *user, ctx context.Context) error { return u.create(ctx, u.shelfStack("db", "1Gi")) }, shelfReady},
	{"database-rotate", requestRotation("first"), shelfReady},
	{"database-grow", editShelf(func(s *appsapi.AppStackSpec) { s.Components[0].Database.Storage.Size = resource.MustParse("2Gi") }), shelfReady},
	{"database-rename", editShelf(func(s *appsapi.AppStackSpec) {
		s.Components[0].Name, s.Components[0].RenamedFrom = "database", "db"
		s.Components[1].Bindings[0] = appsapi.Binding{Component: "database", EnvPrefix: "DB"}
	}), shelfReady},
	{"database-rotate-again", requestRotation("second"), shelfReady},
	{"database-restart", editShelfOperations(func(o *appsapi.ComponentOperations) { o.RestartRequestedAt = "now" }), shelfReady},
	{"database-delete", (*user).deleteShelf, shelfRetained},
	{"database-create-again", func(u *user, ctx context.Context) error {
		app := u.shelfStack("database", "2Gi")
		app.Spec.DeletionPolicy = appsapi.DeletionDelete
		return u.create(ctx, app)
	}, shelfReady},
	{"database-delete-for-good", (*user).deleteShelf, shelfDeleted},
}

// shelfStack returns a database, and a service that uses it.
func (u *user) shelfStack(database, size string) *appsapi.AppStack {
	stack := &appsapi.AppStack{ObjectMeta: u.objectMeta("shelf")}
	stack.Spec.Components = []appsapi.Component{
		{Name: database, Database: &appsapi.DatabaseComponent{Version: "11.8", Storage: appsapi.DatabaseStorage{
			Size: resource.MustParse(size), ClassName: new(volsim.Standard),
		}}},
		{Name: "web", Bindings: []appsapi.Binding{{Component: database, EnvPrefix: "DB"}},
			Service: &appsapi.ServiceComponent{ServerSpec: appsapi.ServerSpec{ContainerSpec: containerSpec("shop/web:1")}}},
	}
	return stack
}

func editShelf(change func(*appsapi.AppStackSpec)) func(*user, context.Context) error {
	return func(u *user, ctx context.Context) error {
		app := &appsapi.AppStack{ObjectMeta: u.objectMeta("shelf")}
		if err := u.Get(ctx, client.ObjectKeyFromObject(app), app); err != nil {
			return err
		}
		before := app.DeepCopy()
		change(&app.Spec)
		return u.Patch(ctx, app, client.MergeFrom(before))
	}
}

func requestRotation(at string) func(*user, context.Context) error {
	return editShelfOperations(func(o *appsapi.ComponentOperations) { o.RotationRequestedAt = at })
}

// editShelfOperations changes the operations of the database.
func editShelfOperations(edit func(*appsapi.ComponentOperations)) func(*user, context.Context) error {
	return editShelf(func(s *appsapi.AppStackSpec) { s.EditOperations(s.Components[0].Name, edit) })
}

func (u *user) deleteShelf(ctx context.Context) error {
	return u.Delete(ctx, &appsapi.AppStack{ObjectMeta: u.objectMeta("shelf")})
}

// lockoutTolerance is the accepted time between a password change and the observation of it.
const lockoutTolerance = 250 * time.Millisecond

// findLockouts returns the times at which no stored password was valid for the database.
func findLockouts(events []watcher.Event, databases *sqlsim.Pods) []string {
	var secrets []watcher.Event
	var volumes []*sqlsim.Volume
	for _, e := range events {
		switch {
		case e.Object.GetKind() == "Secret" && strings.HasSuffix(e.Object.GetName(), "-db-auth"):
			secrets = append(secrets, e)
		case e.Object.GetKind() == "PersistentVolumeClaim" && e.Type == watch.Added:
			if v := databases.VolumeOfClaim(e.UID); v != nil {
				volumes = append(volumes, v)
			}
		}
	}
	var lines []string
	for i, e := range secrets {
		until := time.Now()
		if i+1 < len(secrets) {
			until = secrets[i+1].ObservedAt
		}
		if e.Type == watch.Deleted {
			continue
		}
		for _, v := range volumes {
			lines = append(lines, lockoutsOfVolume(e, until, v)...)
		}
	}
	return lines
}

// lockoutsOfVolume returns the times at which a volume accepted none of the passwords of a Secret.
func lockoutsOfVolume(e watcher.Event, until time.Time, v *sqlsim.Volume) []string {
	var secret corev1.Secret
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(e.Object.Object, &secret); err != nil {
		return []string{err.Error()}
	}
	var lines []string
	for key, user := range map[string]string{"root-password": session.Root, "password": "db"} { // user names do not change with the component
		for _, p := range v.PasswordPeriods(user) {
			from, to := laterTime(p.From, e.ObservedAt), earlierTime(p.To, until)
			if to.Sub(from) < lockoutTolerance || slices.ContainsFunc([]string{key, "pending-" + key}, func(k string) bool {
				return secret.Data[k] != nil && slices.Contains(p.Hashes, mariadb.Hash(string(secret.Data[k])))
			}) {
				continue
			}
			lines = append(lines, fmt.Sprintf("for %s no password in Secret %s at %s was valid for user %s", to.Sub(from).Round(time.Millisecond),
				e.Object.GetName(), e.ResourceVersion, user))
		}
	}
	return lines
}

func laterTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlierTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
