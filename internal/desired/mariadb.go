package desired

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/mariadb"
)

// ExpandDatabases adds to databases what they are run with, and leaves everything else as it is. Every line of
// it is part of the pod: changing one restarts the database of everybody who upgrades the operator.
func ExpandDatabases(components []appsapi.Component) []appsapi.Component {
	if !hasDatabase(components) {
		return components
	}
	out := slices.Clone(components)
	for i, c := range out {
		if c.Database == nil {
			continue
		}
		db := *c.Database
		if db.Image == "" {
			db.Image = "mariadb:" + db.Version
		}
		out[i].Database, out[i].Stateful = &db, mariaDBComponent(&db)
	}
	return out
}

// hasDatabase says whether one of them is a database; most applications have none, and pay nothing for them.
func hasDatabase(components []appsapi.Component) bool {
	return slices.ContainsFunc(components, func(c appsapi.Component) bool { return c.Database != nil })
}

// mariaDBComponent is the official image, in a pod that may do as little as possible.
func mariaDBComponent(db *appsapi.DatabaseComponent) *appsapi.StatefulComponent {
	s := appsapi.StatefulComponent{
		Storage: []appsapi.StorageSpec{{
			Name: "data", MountPath: "/var/lib/mysql", ClassName: db.Storage.ClassName,
			AccessMode: db.Storage.AccessMode, Size: db.Storage.Size,
		}},
	}
	s.Image, s.Resources, s.Scheduling = db.Image, withDefaultRequests(db.Resources), db.Scheduling
	s.Update.RestartedAt = db.Update.RestartedAt
	s.Args = serverArgs(db)
	s.Env = serverEnv(db)
	s.Credentials = serverCredentials(db)
	if db.Config != "" {
		s.Config.Files = []appsapi.ConfigFile{{Path: "/etc/mysql/conf.d/zz-holdfast.cnf", Content: db.Config}}
	}
	s.Volumes = []appsapi.Volume{
		{Name: "run", MountPath: "/run/mysqld", EmptyDir: &appsapi.EmptyDirVolume{}},
		{Name: "tmp", MountPath: "/tmp", EmptyDir: &appsapi.EmptyDirVolume{}},
	}
	s.Ports = []appsapi.Port{{Name: "mysql", Port: mariadb.Port, Protocol: corev1.ProtocolTCP}}
	s.Replicas = new(int32(1)) // more would be databases that know nothing of each other
	s.Probes = appsapi.Probes{Startup: mariaDBStartupProbe(), Readiness: mariaDBReadinessProbe(), Liveness: mariaDBLivenessProbe()}
	// InnoDB has to write out what it has in memory. A server that is killed instead recovers
	// at its next start, and the next major version may refuse to start at all.
	s.TerminationGracePeriodSeconds = new(int32(600))
	s.PreStopSleepSeconds = new(int32(0)) // nobody takes over meanwhile: it would only add to the outage
	user := new(int64(999))               // user and group mysql in every version of the image
	s.Security = appsapi.SecuritySettings{
		Level: appsapi.SecurityRestricted, RunAsUser: user, RunAsGroup: user, FSGroup: user, ReadOnlyRootFilesystem: new(true),
	}
	return &s
}

// defaultServerRequests is what a server is promised of what nobody says anything about. Without, it would get a fiftieth of what others get
// of a busy node, those who use it would wait for seconds, and it would be the first to be killed when memory runs out.
var defaultServerRequests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("256Mi")}

// withDefaultRequests are the resources of a server. Whoever has a limit alone is promised just that, by Kubernetes.
func withDefaultRequests(r corev1.ResourceRequirements) corev1.ResourceRequirements {
	requests := maps.Clone(defaultServerRequests)
	for name := range r.Limits {
		delete(requests, name)
	}
	maps.Copy(requests, r.Requests)
	r.Requests = requests
	return r
}

// serverArgs are what the server must be told whatever else it is told; the image puts the
// program before options.
func serverArgs(db *appsapi.DatabaseComponent) []string {
	args := []string{
		// Many file systems have this folder at the top, and a server that takes it for a
		// database cannot be dumped or upgraded.
		"--ignore-db-dirs=lost+found",
		// A way in for the operator when others have taken all connections.
		fmt.Sprintf("--extra-port=%d", mariadb.AdminPort), "--extra-max-connections=3",
		// Whoever looks whether the port is open, as probes do, is not somebody to be shut out, and names
		// of pods are not to be looked up.
		"--skip-name-resolve", "--host-cache-size=0",
		// What was acknowledged is on the disk.
		"--innodb-flush-log-at-trx-commit=1",
	}
	limit, limited := db.Resources.Limits[corev1.ResourceMemory]
	if limited && !strings.Contains(strings.ReplaceAll(db.Config, "-", "_"), "innodb_buffer_pool_size") {
		args = append(args, fmt.Sprintf("--innodb-buffer-pool-size=%d", limit.Value()/2))
	}
	return args
}

// serverEnv is read once, while the volume is empty, apart from the last one.
func serverEnv(db *appsapi.DatabaseComponent) []corev1.EnvVar {
	suffix := "_HASH_FILE"
	if !supportsPasswordHash(db) {
		suffix = "_FILE"
	}
	return []corev1.EnvVar{
		{Name: "MARIADB_ROOT_PASSWORD" + suffix, Value: credentialPath(rootFile)},
		{Name: "MARIADB_ROOT_HOST", Value: "%"}, // the operator is root, from afar
		{Name: "MARIADB_PASSWORD" + suffix, Value: credentialPath(userFile)},
		// Brings the system tables up to a newer image; images that do not know it ignore it.
		{Name: "MARIADB_AUTO_UPGRADE", Value: "1"},
	}
}

// The files that the passwords, or rather their hashes, are in.
const (
	rootFile = "root"
	userFile = "user"
)

func credentialPath(file string) string { return path.Join(appsapi.CredentialsPath, file) }

// serverCredentials are the two accounts.
func serverCredentials(db *appsapi.DatabaseComponent) []appsapi.Credential {
	root := appsapi.Credential{Key: mariadb.KeyRootPassword, SecretRef: db.RootPasswordSecretRef, Value: db.RootPassword, File: rootFile}
	user := appsapi.Credential{Key: mariadb.KeyPassword, SecretRef: db.PasswordSecretRef, File: userFile}
	root.Hashed = supportsPasswordHash(db)
	user.Hashed = root.Hashed
	return []appsapi.Credential{root, user}
}

// firstPatchWithPasswordHash are the first images of each series that take the hash of a password; those
// that are not named do from the beginning. Older ones get the password itself, in a file.
var firstPatchWithPasswordHash = map[string]int{"10.3": 36, "10.4": 26, "10.5": 17, "10.6": 10, "10.7": 6, "10.8": 5, "10.9": 3}

func supportsPasswordHash(db *appsapi.DatabaseComponent) bool {
	v, err := mariadb.ImageVersion(db.Image, db.Version)
	if err != nil {
		return true // who uses an image of his own can be expected to use a recent one
	}
	first, known := firstPatchWithPasswordHash[v.Series()]
	switch {
	case !known:
		return v.Major > 10 || v.Major == 10 && v.Minor > 9
	case !v.HasPatch:
		return true // a tag without the third number is that of the newest
	}
	return v.Patch >= first
}

// mariaDBReadinessProbe holds when the port is open: while the image sets up an empty volume or upgrades
// tables, its server listens on a socket only. A full server listens, and stays ready. The port is
// looked up, not tried: a connection that says nothing is a line in the server's log each time.
func mariaDBReadinessProbe() *corev1.Probe {
	const script = `cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | grep -qE ':0CEA 0+:0000 0A'` // 3306, listening
	return &corev1.Probe{
		ProbeHandler:   corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"sh", "-c", script}}},
		PeriodSeconds:  5,
		TimeoutSeconds: 5, // a busy node is no reason to take the only database out of its Service
	}
}

// mariaDBStartupProbe gives the first start, an upgrade and the recovery after a crash an hour: a server that
// is killed meanwhile begins again, or has half a database.
func mariaDBStartupProbe() *corev1.Probe {
	p := mariaDBReadinessProbe()
	p.PeriodSeconds, p.FailureThreshold = 2, 1800
	return p
}

// mariaDBLivenessProbe fails when the server hangs: it accepts connections, and says nothing for five seconds,
// six times in a row. Any answer will do, that it is full or that the password is wrong, too. It
// uses the account that the image makes for that, so that the log has no line each time. An image
// without a client cannot be asked, and is left alone.
func mariaDBLivenessProbe() *corev1.Probe {
	const script = `f=/var/lib/mysql/.my-healthcheck.cnf
[ -r $f ] && set -- --defaults-extra-file=$f
for c in mariadb mysql; do
  command -v $c >/dev/null || continue
  said=$($c "$@" --protocol=tcp --host=127.0.0.1 --port=3306 --connect-timeout=5 -e 'DO 1' 2>&1) && exit 0
  case "$said" in *"ERROR 2002"*|*"ERROR 2003"*|*"ERROR 2013"*) echo "$said"; exit 1;; esac
  exit 0
done
exit 0`
	return &corev1.Probe{
		ProbeHandler:   corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"sh", "-c", script}}},
		PeriodSeconds:  10,
		TimeoutSeconds: 10,
		// A minute: longer than what a full disk or a stopped node takes to be noticed otherwise.
		FailureThreshold: 6,
		// One that hangs does not stop when it is asked to, and has nothing to write out.
		TerminationGracePeriodSeconds: new(int64(30)),
	}
}
