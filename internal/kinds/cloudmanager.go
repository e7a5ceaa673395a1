package kinds

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// CloudManager is a database, an identity service that needs it, and a front that needs
// that one. Why in this order: docs/adr/0010-order-of-cloudmanager.md.
func CloudManager(cm *appsapi.CloudManager) []appsapi.Component {
	db, identity, front := cm.Spec.DB, cm.Spec.Identity.Deployment, cm.Spec.Front.Deployment
	if len(front.Ports) == 0 {
		front.Ports = []appsapi.Port{{Port: 80, Protocol: corev1.ProtocolTCP}}
	}
	last := appsapi.Component{Name: "front", ResourceName: front.Name, Service: deployed(front)}
	if len(identity.Ports) > 0 {
		last.Bindings = []appsapi.Binding{{Component: "identity", EnvPrefix: "IDENTITY"}}
	} else {
		last.DependsOn = []string{"identity"} // without a port it has no address to tell
	}
	return []appsapi.Component{
		{Name: "db", ResourceName: db.StatefulSet.Name, Stateful: mariaDB(db)},
		{Name: "identity", ResourceName: identity.Name, Service: deployed(identity),
			Bindings: []appsapi.Binding{{Component: "db", EnvPrefix: "DB"}}},
		last,
	}
}

func deployed(d appsapi.CloudManagerDeployment) *appsapi.ServiceComponent {
	return &appsapi.ServiceComponent{ServerSpec: appsapi.ServerSpec{
		ContainerSpec: appsapi.ContainerSpec{Image: d.Image, Command: d.Command, Env: d.Env, Resources: d.Resources},
		Replicas:      d.Replicas,
		Ports:         d.Ports,
	}}
}

const mariaDBPort = 3306

// mariaDB is the official image, as it comes. Every line below is part of the pod: changing
// one restarts the database of everybody who upgrades the operator.
func mariaDB(db appsapi.CloudManagerDatabase) *appsapi.StatefulComponent {
	s := appsapi.StatefulComponent{
		Storage: []appsapi.StorageSpec{{
			Name: "data", MountPath: "/var/lib/mysql", ClassName: db.StatefulSet.Storage.Class,
			AccessMode: db.StatefulSet.Storage.AccessModes, Size: db.StatefulSet.Storage.Size,
		}},
		// The server reads it once, when the volume is empty.
		Credentials: []appsapi.Credential{{
			Key: "root-password", Env: "MARIADB_ROOT_PASSWORD", Value: db.RootPass, SecretRef: db.RootPasswordSecretRef,
		}},
	}
	s.Image = db.StatefulSet.Image
	// Many file systems have this folder at the top, and a server that takes it for a
	// database cannot be dumped or upgraded. The image puts the program before options.
	s.Args = []string{"--ignore-db-dirs=lost+found"}
	// Brings the system tables up to a newer image; images that do not know it ignore it.
	s.Env = []corev1.EnvVar{{Name: "MARIADB_AUTO_UPGRADE", Value: "1"}}
	s.Ports = []appsapi.Port{{Name: "mysql", Port: mariaDBPort, Protocol: corev1.ProtocolTCP}}
	s.Replicas = new(int32(1)) // more would be databases that know nothing of each other
	s.Probes.Readiness = mariaDBReady()
	// InnoDB has to write out what it has in memory. A server that is killed instead recovers
	// at its next start, and the next major version may refuse to start at all.
	s.TerminationGracePeriodSeconds = new(int32(600))
	s.PreStopSleepSeconds = new(int32(0)) // nobody takes over meanwhile: it would only add to the outage
	user := new(int64(999))               // user and group mysql in every version of the image
	s.Security = appsapi.SecuritySettings{Level: appsapi.SecurityRestricted, RunAsUser: user, RunAsGroup: user, FSGroup: user}
	return &s
}

// mariaDBReady holds when the port is open: while the image sets up an empty volume or
// upgrades tables, its server listens on a socket only. A full server accepts connections
// and stays ready.
//
// It needs no program of the image: 10.3 has no mariadb-admin, 11 has no mysqladmin, and not
// every 10.3 has healthcheck.sh. That is also why there is no liveness probe: one that cannot
// run kills a database that works, and a server that dies ends its container anyway. And
// without it nothing needs a startup probe: however long recovery takes, it may.
func mariaDBReady() *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:   corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(mariaDBPort)}},
		PeriodSeconds:  5,
		TimeoutSeconds: 5, // a busy node is no reason to take the only database out of its Service
	}
}
