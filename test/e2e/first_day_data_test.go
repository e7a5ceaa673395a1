package e2e

import (
	"strings"
	"time"

	. "github.com/onsi/gomega"
)

const databaseComponent = `{name: db, database: {version: "11.8", storage: {size: 1Gi}}}`

// wrongStorageClass corrects the StorageClass of a claim that was never bound.
func wrongStorageClass(d firstDay) {
	db := `{name: db, stateful: {image: "localhost/web:1", args: ["--healthy"], storage: [{name: data, mountPath: /data, size: 1Gi, className: CLASS}]}}`
	d.applyStack(strings.Replace(db, "CLASS", "nope", 1))
	d.eventually("60s", []string{"why", "shop"}, `StorageClassMissing`, `"nope", which does not exist`)
	start := time.Now()
	d.applyStack(strings.Replace(db, "CLASS", "local-path", 1))
	d.waitReady()
	d.Logf("ready %.1f s after the correction", time.Since(start).Seconds())
}

// restartThenApply applies the unchanged manifest after requests of the plugin: nothing restarts.
func restartThenApply(d firstDay) {
	manifest := []string{webComponent("web", ""), webComponent("api", "")}
	d.applyStack(manifest...)
	d.waitReady()
	d.plugin(0, "restart", "shop", "--component=web")
	d.plugin(0, "suspend", "shop", "--component=api")
	d.waitReady()
	before := d.pods()
	d.applyStack(manifest...)
	time.Sleep(3 * time.Second) // nothing must happen
	d.waitReady()
	d.Expect(d.pods()).To(Equal(before), "applying the same manifest replaced pods")
	d.Expect(d.plugin(0, "status", "shop")).To(MatchRegexp(`api .*Suspended`))
}

// rotateThenWait waits for the end of a password rotation.
func rotateThenWait(d firstDay) {
	d.applyStack(databaseComponent, webComponent("web", ", bindings: [{component: db}]"))
	d.waitReady()
	password := func() string { return d.kubectl("get", "secret", "shop-db-binding", "-o", "jsonpath={.data.password}") }
	before, pods := password(), d.pods()
	d.plugin(0, "rotate", "shop")
	d.waitReady()
	d.Expect(password()).NotTo(Equal(before), "wait returned before the password was rotated")
	d.Expect(d.pods()).NotTo(Equal(pods), "wait returned before the client used the new password")
}

// revertedRename reverts the rename of a database that has a client, as git revert does.
func revertedRename(d firstDay) {
	first := []string{databaseComponent, webComponent("web", ", bindings: [{component: db}]")}
	d.applyStack(first...)
	d.waitReady()
	d.applyStack(strings.Replace(databaseComponent, "name: db,", "name: sql, renamedFrom: db,", 1), webComponent("web", ", bindings: [{component: sql}]"))
	d.waitReady()
	d.applyStack(first...)
	d.waitReady()
	d.Expect(d.kubectl("get", "pvc", "-o", `jsonpath={.items[*].metadata.labels.app\.kubernetes\.io/component}`)).To(Equal("db"))
}

// revertedRenameWithoutBinding also deletes the stack and creates it again, which must find the data.
func revertedRenameWithoutBinding(d firstDay) {
	store := `{name: NAME, stateful: {image: "localhost/web:1", args: ["--healthy"], storage: [{name: data, mountPath: /data, size: 1Gi}]}}`
	first := strings.Replace(store, "NAME", "db", 1)
	d.applyStack(first)
	d.waitReady()
	d.applyStack(strings.Replace(store, "NAME", "store, renamedFrom: db", 1))
	d.waitReady()
	d.applyStack(first)
	d.waitReady()
	claim := d.kubectl("get", "pvc", "-o", "jsonpath={.items[*].metadata.uid}")
	d.kubectl("delete", "appstack", "shop")
	d.applyStack(first)
	d.waitReady()
	d.Expect(d.kubectl("get", "pvc", "-o", "jsonpath={.items[*].metadata.uid}")).To(Equal(claim))
}
