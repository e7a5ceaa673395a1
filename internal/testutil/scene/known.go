package scene

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// shop is a stack of a job, a database and what needs it.
const shop = `
components:
- {name: migrate, job: {image: "shop/migrate:1"}}
- {name: db, stateful: {image: "mariadb:11", ports: [{port: 3306}], storage: [{name: data, mountPath: /data, size: 1Gi}]}}
- {name: web, dependsOn: [db], service: {image: "shop/web:1", replicas: 2, ports: [{port: 80}]}}
- {name: nightly, job: {image: "shop/nightly:1", schedule: "0 3 * * *"}}
`

func newShop() *Scene {
	s := New("appstack", "shop", shop)
	s.RunAll()
	s.Stack().ComponentsReady = "4/4"
	return s
}

func service() *Scene {
	s := New("appservice", "site", `{image: "nginx:1.27", replicas: 2, ports: [{port: 80}]}`)
	s.RunAll()
	return s
}

// Known are the scenes whose pictures are kept, by name.
var Known = map[string]func() *Scene{
	"healthy":   newShop,
	"service":   service,
	"broken-db": brokenDatabase,
	"crash":     crashes,
	"two":       twoBroken,
	"suspended": suspended,
	"deleting":  deleting,
	"unseen":    unseen,
	"forbidden": forbidden,
}

// brokenDatabase is a CloudManager whose database asks for a StorageClass that is not there.
func brokenDatabase() *Scene {
	s := New("cloudmanager", "cm", `
front: {deployment: {image: "nginx:1.20", name: ake-front, ports: [{port: 80}]}}
identity: {deployment: {image: "busybox:1.32.1", name: cm-identity}}
db: {statefulSet: {image: "mariadb:10.3.35", name: cm-db, storage: {class: local-path, size: 20Gi}}, rootPass: "123456"}`)
	s.Runs("db")
	s.LacksVolumes("db", "local-path")
	s.Happened(s.Pods("db")[0], "FailedScheduling", "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.", 3)
	s.Waits("identity", "db")
	s.Waits("front", "identity")
	s.Says("False", "ComponentDegraded", `Component "db": PersistentVolumeClaim data-cm-db-0 asks for StorageClass "local-path", which does not exist; "identity" waits for it`)
	s.Stack().ComponentsReady = "0/3"
	s.Changed(s.App, "kubectl-edit", 12*time.Minute)
	s.App.ApplicationStatus().Causes = []appsapi.Cause{{Code: "StorageClassMissing", Since: Before(10 * time.Minute),
		Message: `PersistentVolumeClaim data-cm-db-0 asks for StorageClass "local-path", which does not exist`, Object: appsapi.ObjectReference{Kind: "PersistentVolumeClaim", Name: "data-cm-db-0"}}}
	return s
}

func crashes() *Scene {
	s := newShop()
	s.Crashes("web", 3, "reading /etc/shop/config.yaml\npanic: no such file or directory")
	s.Happened(s.Pods("web")[0], "BackOff", "Back-off restarting failed container app in pod shop-web-6d5f7c8b9-x0k4z_demo", 42)
	s.Says("False", "ComponentDegraded", `Component "web": Container app of pod shop-web-6d5f7c8b9-x0k4z crashes: it exited with code 3`)
	s.Stack().ComponentsReady = "3/4"
	s.Changed(s.App, "kubectl-client-side-apply", 11*time.Minute)
	s.Changed(Get[*appsv1.Deployment](s, "shop-web"), "kubectl-set", 6*time.Minute)
	return s
}

// twoBroken have nothing to do with each other.
func twoBroken() *Scene {
	s := New("appstack", "shop", `
components:
- {name: mail, service: {image: "shop/mail:1"}}
- {name: search, service: {image: "shop/search:2", replicas: 3}}
- {name: web, dependsOn: [mail, search], service: {image: "shop/web:1"}}`)
	s.RunAll()
	s.LacksImage("search")
	s.Crashes("mail", 1, "")
	s.Waits("web", "mail")
	s.Says("False", "ComponentDegraded", `Component "mail": Container app of pod shop-mail-6d5f7c8b9-x0k4z crashes: it exited with code 1; "web" waits for it`)
	s.Stack().ComponentsReady = "0/3"
	return s
}

func suspended() *Scene {
	s := New("appstack", "shop", "suspend: true"+shop)
	s.RunAll()
	s.Stack().ComponentsReady = "4/4"
	s.Says("True", "Suspended", "Everything runs; suspended, so nothing is repaired or updated")
	return s
}

func deleting() *Scene {
	s := newShop()
	s.Deletes("example.com/backup")
	s.Objects = nil
	s.Says("False", "Deleting", "Everything of it is gone; waits for finalizer example.com/backup")
	return s
}

func unseen() *Scene {
	s := newShop()
	s.Objects = nil
	*s.App.ApplicationStatus() = appsapi.ApplicationStatus{}
	s.Stack().ComponentsReady = ""
	return s
}

// forbidden is for a reader who may see the application and its Services.
func forbidden() *Scene {
	s := crashes()
	s.Unread = []string{"Deployment", "StatefulSet", "Job", "CronJob", "Pod", "ReplicaSet", "PersistentVolumeClaim", "Node"}
	s.App.ApplicationStatus().Causes = []appsapi.Cause{{Code: "CrashLoop", Since: Before(10 * time.Minute),
		Message: "Container app of pod shop-web-6d5f7c8b9-x0k4z crashes: it exited with code 3", Object: appsapi.ObjectReference{Kind: "Pod", Name: "shop-web-6d5f7c8b9-x0k4z"}}}
	return s
}
