package appkind

import (
	corev1 "k8s.io/api/core/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/mariadb"
)

// CloudManagerComponents returns a database, an identity service that depends on it, and a front that
// depends on the identity service. The reasons for the order are in
// docs/adr/0010-order-of-cloudmanager.md.
func CloudManagerComponents(cm *appsapi.CloudManager) []appsapi.Component {
	db, identity, front := cm.Spec.DB, cm.Spec.Identity.Deployment, cm.Spec.Front.Deployment
	if len(front.Ports) == 0 {
		front.Ports = []appsapi.Port{{Port: 80, Protocol: corev1.ProtocolTCP}}
	}
	frontComponent := appsapi.Component{Name: "front", ResourceName: front.Name, Service: serviceComponent(front)}
	if len(identity.Ports) > 0 {
		frontComponent.Bindings = []appsapi.Binding{{Component: "identity", EnvPrefix: "IDENTITY"}}
	} else {
		frontComponent.DependsOn = []string{"identity"} // without a port it has no address to bind to
	}
	return []appsapi.Component{
		{Name: "db", ResourceName: db.StatefulSet.Name, Database: databaseComponent(db)},
		{Name: "identity", ResourceName: identity.Name, Service: serviceComponent(identity),
			Bindings: []appsapi.Binding{{Component: "db", EnvPrefix: "DB"}}},
		frontComponent,
	}
}

// CloudManagerPasswords returns the root password if the spec contains it.
func CloudManagerPasswords(cm *appsapi.CloudManager) []desired.PlainPassword {
	if cm.Spec.DB.RootPass == "" {
		return nil
	}
	return []desired.PlainPassword{{Component: "db", Key: mariadb.KeyRootPassword, Value: cm.Spec.DB.RootPass}}
}

func serviceComponent(d appsapi.CloudManagerDeployment) *appsapi.ServiceComponent {
	return &appsapi.ServiceComponent{ServerSpec: appsapi.ServerSpec{
		ContainerSpec: appsapi.ContainerSpec{Image: d.Image, Command: d.Command, Env: d.Env, Resources: d.Resources},
		Replicas:      d.Replicas,
		Ports:         d.Ports,
	}}
}

// databaseComponent returns the database component with the fields that this kind has.
func databaseComponent(db appsapi.CloudManagerDatabase) *appsapi.DatabaseComponent {
	return &appsapi.DatabaseComponent{
		Image: db.StatefulSet.Image, Resources: db.StatefulSet.Resources,
		Storage: appsapi.DatabaseStorage{
			ClassName: db.StatefulSet.Storage.Class, AccessMode: db.StatefulSet.Storage.AccessModes, Size: db.StatefulSet.Storage.Size,
		},
		RootPasswordSecretRef: db.RootPasswordSecretRef, Rotation: db.Rotation, RequireTLS: db.RequireTLS,
	}
}
