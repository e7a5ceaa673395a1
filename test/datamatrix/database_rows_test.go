package datamatrix

import (
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/mariadb"
	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
	"github.com/holdfast-dev/holdfast/internal/testutil/sqlsim"
	"github.com/holdfast-dev/holdfast/internal/testutil/watcher"
)

func (p *stackDriver) databaseSpec() appsapi.Component {
	db := &appsapi.DatabaseComponent{Version: "11.8", Storage: appsapi.DatabaseStorage{
		ClassName: &p.class, Size: *resource.NewQuantity(p.size<<20, resource.BinarySI),
	}}
	return appsapi.Component{Name: p.name, RenamedFrom: p.renamedFrom, Database: db}
}

// bindingIn returns the binding Secret of the component that is bound to the database.
func (p *stackDriver) bindingIn(s watcher.State) *corev1.Secret {
	set := setIn(s)
	if set == nil {
		return nil
	}
	return fromUnstructured[corev1.Secret](s.Get(secretResource, p.NS+"/"+set.Name+"-binding"))
}

// writeRows adds rows with the account of the binding.
func (p *stackDriver) writeRows() {
	p.Helper()
	if !p.database || !p.present {
		return
	}
	binding := p.bindingIn(p.watcher.State())
	p.Expect(binding).NotTo(BeNil(), "no binding Secret")
	p.databaseVolume().AddRows(string(binding.Data["database"]), 17)
	p.rows = 17
}

func (p *stackDriver) databaseVolume() *sqlsim.Volume {
	p.Helper()
	set := setIn(p.watcher.State())
	p.Expect(set).NotTo(BeNil())
	pod := harness.Find(p.World, &corev1.Pod{ObjectMeta: p.objectMeta(set.Name + "-0")})
	p.Expect(pod).NotTo(BeNil())
	volume := p.Databases.Volume(p.Context(), pod)
	p.Expect(volume).NotTo(BeNil())
	return volume
}

// expectSameRows checks that the rows exist and that the passwords in the binding and the credentials are valid. While a
// change is rejected there is nothing to check.
func (p *stackDriver) expectSameRows() {
	p.Helper()
	if !p.database || !p.present || p.lostPassword != "" {
		return
	}
	binding := p.bindingIn(p.watcher.State())
	p.Expect(binding).NotTo(BeNil(), "no binding Secret")
	user, schema := string(binding.Data["username"]), string(binding.Data["database"])
	volume := p.databaseVolume()
	p.Expect(volume.Rows(schema)).To(Equal(p.rows), "rows of %s", schema)
	p.Expect(volume.Hashes(user)).To(Equal([]string{mariadb.Hash(string(binding.Data["password"]))}), "the password of %s", user)
	stored := harness.Find(p.World, &corev1.Secret{ObjectMeta: p.objectMeta(setIn(p.watcher.State()).Name + "-auth")})
	p.Expect(volume.Hashes("root")).To(Equal([]string{mariadb.Hash(string(stored.Data["root-password"]))}), "the password of root")
}
