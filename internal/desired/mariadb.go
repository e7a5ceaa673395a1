package desired

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/mariadb"
)

// hasDatabase reports whether any component is a database. Applications without a database skip all database
// work.
func hasDatabase(components []ExpandedComponent) bool {
	return slices.ContainsFunc(components, func(c ExpandedComponent) bool { return c.Database != nil })
}

// mariaDBComponent returns the stateful component of a database: the official image with minimal privileges.
// Every line is part of the pod template: a change restarts the databases of all users on upgrade.
func mariaDBComponent(db *appsapi.DatabaseComponent) *appsapi.StatefulComponent {
	s := appsapi.StatefulComponent{
		Storage: []appsapi.StorageSpec{{
			Name: "data", MountPath: "/var/lib/mysql", ClassName: db.Storage.ClassName,
			AccessMode: db.Storage.AccessMode, Size: db.Storage.Size,
		}},
	}
	s.Image, s.Resources, s.Scheduling = db.Image, withDefaultRequests(db.Resources), db.Scheduling
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
	s.Replicas = new(int32(1)) // replication is not supported
	s.Probes = appsapi.Probes{Startup: mariaDBStartupProbe(), Readiness: mariaDBReadinessProbe(), Liveness: mariaDBLivenessProbe()}
	// InnoDB writes its buffers to disk on shutdown. A killed server recovers at its next start, and the next major
	// version may refuse to start.
	s.TerminationGracePeriodSeconds = new(int32(600))
	s.PreStopSleepSeconds = new(int32(0)) // no other pod takes over: a sleep would only extend the outage
	user := new(int64(999))               // user and group mysql in all versions of the image
	s.Security = appsapi.SecuritySettings{
		Level: appsapi.SecurityRestricted, RunAsUser: user, RunAsGroup: user, FSGroup: user, ReadOnlyRootFilesystem: new(true),
	}
	return &s
}

// defaultServerRequests are the default resource requests of a database server. Without requests, a server on a
// busy node gets little CPU, and is the first process to be killed when memory runs out.
var defaultServerRequests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("256Mi")}

// withDefaultRequests adds default requests for resources without a request or limit. If only the limit is set,
// Kubernetes uses the limit as the request.
func withDefaultRequests(r corev1.ResourceRequirements) corev1.ResourceRequirements {
	requests := maps.Clone(defaultServerRequests)
	for name := range r.Limits {
		delete(requests, name)
	}
	maps.Copy(requests, r.Requests)
	r.Requests = requests
	return r
}

// serverArgs returns the options that the server always needs. The entrypoint of the image adds the program
// name.
func serverArgs(db *appsapi.DatabaseComponent) []string {
	args := []string{
		// Many file systems create this directory. A server that treats it as a database cannot be dumped or upgraded.
		"--ignore-db-dirs=lost+found",
		// Reserves connections for the operator when applications use all other connections.
		fmt.Sprintf("--extra-port=%d", mariadb.AdminPort), "--extra-max-connections=3",
		// The server must not block a host after repeated failed connections, such as checks of the port, and must not
		// resolve the names of pods.
		"--skip-name-resolve", "--host-cache-size=0",
		// Writes committed transactions to disk.
		"--innodb-flush-log-at-trx-commit=1",
		"--ssl-cert=" + credentialPath(mariadb.KeyCertificate), "--ssl-key=" + credentialPath(mariadb.KeyPrivateKey),
		"--loose-tls-version=TLSv1.2,TLSv1.3", // since 10.4
	}
	if db.RequireTLS {
		args = append(args, "--require-secure-transport=ON")
	}
	limit, limited := db.Resources.Limits[corev1.ResourceMemory]
	if limited && !strings.Contains(strings.ReplaceAll(db.Config, "-", "_"), "innodb_buffer_pool_size") {
		args = append(args, fmt.Sprintf("--innodb-buffer-pool-size=%d", limit.Value()/2))
	}
	return args
}

// serverEnv returns the environment variables of the image. The image uses them to initialize an empty volume;
// only MARIADB_AUTO_UPGRADE also affects later starts.
func serverEnv(db *appsapi.DatabaseComponent) []corev1.EnvVar {
	suffix := "_HASH_FILE"
	if !supportsPasswordHash(db) {
		suffix = "_FILE"
	}
	return []corev1.EnvVar{
		{Name: "MARIADB_ROOT_PASSWORD" + suffix, Value: credentialPath(rootFile)},
		{Name: "MARIADB_ROOT_HOST", Value: "%"}, // the operator connects as root over the network
		{Name: "MARIADB_PASSWORD" + suffix, Value: credentialPath(userFile)},
		// Upgrades the system tables to the version of a newer image; images without support ignore the
		// variable.
		{Name: "MARIADB_AUTO_UPGRADE", Value: "1"},
	}
}

// Names of the files with the passwords or their hashes.
const (
	rootFile = "root"
	userFile = "user"
)

func credentialPath(file string) string { return path.Join(appsapi.CredentialsPath, file) }

// serverCredentials returns the credentials of the root account and of the application account.
func serverCredentials(db *appsapi.DatabaseComponent) []appsapi.Credential {
	return []appsapi.Credential{
		{Key: mariadb.KeyRootPassword, SecretRef: db.RootPasswordSecretRef},
		{Key: mariadb.KeyPassword, SecretRef: db.PasswordSecretRef},
	}
}

// firstPatchWithPasswordHash is the first patch number of each series whose image accepts password hashes. All
// images of later series accept hashes. Older images get the password in a file.
var firstPatchWithPasswordHash = map[string]int{"10.3": 36, "10.4": 26, "10.5": 17, "10.6": 10, "10.7": 6, "10.8": 5, "10.9": 3}

func supportsPasswordHash(db *appsapi.DatabaseComponent) bool {
	v, err := mariadb.ImageVersion(db.Image, db.Version)
	if err != nil {
		return true // custom images are assumed to be recent
	}
	first, known := firstPatchWithPasswordHash[v.Series()]
	switch {
	case !known:
		return v.Major > 10 || v.Major == 10 && v.Minor > 9
	case !v.HasPatch:
		return true // a tag without a patch number is the newest patch
	}
	return v.Patch >= first
}

// mariaDBReadinessProbe checks that the port is open: while the image initializes an empty volume or upgrades
// tables, its server only listens on a socket. A server without free connections stays ready. The probe reads
// /proc instead of connecting, because every connection without a login adds a line to the log of the server.
func mariaDBReadinessProbe() *corev1.Probe {
	const script = serverListens
	return &corev1.Probe{
		ProbeHandler:   corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"sh", "-c", script}}},
		PeriodSeconds:  5,
		TimeoutSeconds: 5, // a slow response on a busy node must not remove the only pod from the Service
	}
}

// mariaDBStartupProbe allows one hour for the first start, an upgrade or crash recovery. If the server is
// killed earlier, it must repeat this work, or the database stays partially initialized.
func mariaDBStartupProbe() *corev1.Probe {
	p := mariaDBReadinessProbe()
	p.PeriodSeconds, p.FailureThreshold = 2, 1800
	return p
}

// serverListens is a shell command that succeeds if a process listens on port 3306.
const serverListens = `cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | grep -qE ':0CEA 0+:0000 0A'`

// serverResponds is a shell function that succeeds if the server responds to a login. Any response counts, including an
// error about connections or passwords. It uses the health check account of the image, so that the log does not grow. It
// succeeds for images without a client program.
const serverResponds = `responds() {
  f=/var/lib/mysql/.my-healthcheck.cnf
  [ -r $f ] && set -- --defaults-extra-file=$f
  for c in mariadb mysql; do
    command -v $c >/dev/null || continue
    said=$($c "$@" --protocol=tcp --host=127.0.0.1 --port=3306 --connect-timeout=5 -e 'DO 1' 2>&1) && return 0
    case "$said" in *"ERROR 2002"*|*"ERROR 2003"*|*"ERROR 2013"*) return 1;; esac
    return 0
  done
}
`

// mariaDBLivenessProbe fails when the server accepts connections but does not respond within five seconds, six
// times in a row.
func mariaDBLivenessProbe() *corev1.Probe {
	const script = serverResponds + `responds || { echo "$said"; exit 1; }`
	return &corev1.Probe{
		ProbeHandler:   corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"sh", "-c", script}}},
		PeriodSeconds:  10,
		TimeoutSeconds: 10,
		// One minute: a full disk or a stopped node is detected earlier by other means.
		FailureThreshold: 6,
		// A server that hangs does not react to SIGTERM, so a longer grace period would only delay the restart.
		TerminationGracePeriodSeconds: new(int64(30)),
	}
}

// waitUntilServerRuns delays SIGTERM until the server has started. The signal would be lost before:
//   - While the entrypoint of the image initializes or upgrades the volume, it is a shell script with process ID 1. The
//     kernel delivers only signals that such a process handles.
//   - A server that receives SIGTERM after it has opened its sockets and before it accepts connections never ends
//     (seen with 10.11).
//
// In both cases the server would run until the end of the grace period. Once the server runs, the hook ends at once. For
// a server that listens and hangs, it ends after three attempts to log in.
func waitUntilServerRuns(main *corev1ac.ContainerApplyConfiguration) {
	const handlesSignal = `grep -qE '^Sig(Blk|Cgt):.*[4-7c-f][0-9a-f]{3}$' /proc/1/status` // bit 14
	const script = serverResponds + "n=0\nuntil " + handlesSignal + ` && { responds || [ $n -ge 3 ]; }; do
  ` + serverListens + ` && n=$((n+1))
  sleep 0.2
done`
	main.WithLifecycle(corev1ac.Lifecycle().WithPreStop(corev1ac.LifecycleHandler().
		WithExec(corev1ac.ExecAction().WithCommand("sh", "-c", script))))
}
