package main

import (
	"bufio"
	"crypto/sha1"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestNode checks that the node provides everything that the end-to-end tests need.
func TestNode(t *testing.T) {
	c := newCluster(t, "node", 26443)
	before := machineState(t)
	start := time.Now()
	t.Logf("cluster ready after %.1f s", c.up(t).Seconds())
	c.apply(t, readTestdata(t, "web.yaml"))
	c.waitForOutput(t, time.Minute, "Running", "get", "pod", "client")
	t.Logf("first user pod running after %.1f s", time.Since(start).Seconds())

	t.Run("group", func(t *testing.T) {
		t.Run("Network", func(t *testing.T) { t.Parallel(); testNetwork(t, c) })
		t.Run("Access", func(t *testing.T) { t.Parallel(); testKubeletAccess(t, c) })
		t.Run("Claim", func(t *testing.T) { t.Parallel(); testVolumeExpansion(t, c.inNamespace(t, "claim")) })
		t.Run("MariaDB10.11", func(t *testing.T) {
			t.Parallel()
			testMariaDB(t, c.inNamespace(t, "mariadb-10-11"), "mariadb:10.11",
				`[{name: MARIADB_ROOT_PASSWORD_HASH_FILE, value: /auth/root-password-hash}]`)
		})
		t.Run("MariaDB11.8", func(t *testing.T) {
			t.Parallel()
			testMariaDB(t, c.inNamespace(t, "mariadb-11-8"), "mariadb:11.8",
				`[{name: MARIADB_ROOT_PASSWORD, value: "it's a $ecret"}, {name: MARIADB_DATABASE, value: my_shop},
				  {name: MARIADB_USER, value: clerk}, {name: MARIADB_PASSWORD_FILE, value: /auth/password}]`)
		})
		t.Run("MariaDBRefuses", func(t *testing.T) {
			t.Parallel()
			testMariaDBRejectsMissingPasswords(t, c.inNamespace(t, "mariadb-refuses"))
		})
		t.Run("Simulator", func(t *testing.T) { t.Parallel(); testSimulator(t, c.inNamespace(t, "simulator")) })
		t.Run("StorageFaults", func(t *testing.T) { t.Parallel(); testStorageFaults(t, c) })
	})

	c.down(t)
	verifyMachineUnchanged(t, before)
}

func testNetwork(t *testing.T, c *testCluster) {
	c.kubectl(t, "rollout", "status", "deployment/web", "--timeout=60s")
	address := c.kubectl(t, "get", "service", "web", "--output=jsonpath={.spec.clusterIP}")
	for what, url := range map[string]string{
		"cluster IP": "http://" + address,
		"short name": "http://web",
		"full name":  "http://web.default.svc.cluster.local",
	} {
		if out := c.kubectl(t, "exec", "client", "--", "timeout", "5", "wget", "-q", "-O-", url); !strings.HasPrefix(out, "hello from web-") {
			t.Errorf("Service by %s: got %q", what, out)
		}
	}
	if out := c.kubectl(t, "exec", "client", "--", "nslookup", "web.default.svc.cluster.local"); !strings.Contains(out, address) {
		t.Errorf("DNS: got %q, want %s", out, address)
	}
	if out, err := c.tryKubectl("exec", "client", "--", "nslookup", "example.com."); err == nil || !strings.Contains(err.Error(), "NXDOMAIN") {
		t.Errorf("external name: got %q, %v, want NXDOMAIN at once", out, err)
	}
}

// testKubeletAccess tests logs, exec and port-forward.
func testKubeletAccess(t *testing.T, c *testCluster) {
	c.kubectl(t, "rollout", "status", "deployment/web", "--timeout=60s")
	if out := c.kubectl(t, "logs", "deployment/web"); !strings.Contains(out, "listening on :8080") {
		t.Errorf("logs: got %q", out)
	}
	if out := c.kubectl(t, "exec", "client", "--", "cat", "/etc/hostname"); out != "client" {
		t.Errorf("exec: got %q", out)
	}
	forward := c.kubectlCommand(t.Context(), "port-forward", "service/web", ":80")
	stdout, err := forward.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := forward.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = forward.Process.Kill()
		_ = forward.Wait()
	}()
	line, err := bufio.NewReader(stdout).ReadString('\n') // Forwarding from 127.0.0.1:40000 -> 8080
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.Get("http://" + strings.Fields(line)[2])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if body, err := io.ReadAll(response.Body); err != nil || !strings.HasPrefix(string(body), "hello from web-") {
		t.Errorf("port-forward: got %q, %v", body, err)
	}
}

// testVolumeExpansion expands a volume of a running non-root pod.
func testVolumeExpansion(t *testing.T, c *testCluster) {
	c.apply(t, readTestdata(t, "claim.yaml"))
	c.waitForOutput(t, time.Minute, "Running", "get", "pod", "writer")
	c.waitForOutput(t, 10*time.Second, "999", "exec", "writer", "--", "cat", "/data/who")
	size := func() int {
		fields := strings.Fields(c.kubectl(t, "exec", "writer", "--", "df", "-m", "/data"))
		mebibytes, err := strconv.Atoi(fields[len(fields)-5])
		if err != nil {
			t.Fatal(err)
		}
		return mebibytes
	}
	before := size()
	c.kubectl(t, "patch", "pvc", "data", "--patch", `{"spec":{"resources":{"requests":{"storage":"600Mi"}}}}`)
	start := time.Now()
	c.waitForOutput(t, 90*time.Second, "600Mi", "get", "pvc", "data", "--output=jsonpath={.status.capacity.storage}")
	if after := size(); after < before+150 {
		t.Errorf("expanded volume: got %d MiB, before %d", after, before)
	}
	if restarts := c.kubectl(t, "get", "pod", "writer", "--output=jsonpath={.status.containerStatuses[0].restartCount}"); restarts != "0" {
		t.Errorf("expansion restarted the pod %s times", restarts)
	}
	t.Logf("expanded from %d MiB in %.1f s", before, time.Since(start).Seconds())
}

// testMariaDB checks that rows survive a restart. The password contains quotes and special characters.
func testMariaDB(t *testing.T, c *testCluster, image, env string) {
	const password = "it's a $ecret"
	inner := sha1.Sum([]byte(password))
	hash := fmt.Sprintf("*%X", sha1.Sum(inner[:]))
	c.apply(t, strings.NewReplacer("{{.Hash}}", hash, "{{.Password}}", password, "{{.Image}}", image, "{{.Env}}", env).
		Replace(readTestdata(t, "mariadb.yaml")))
	c.kubectl(t, "rollout", "status", "statefulset/db", "--timeout=90s")
	queryAs := func(user, statement string) string {
		t.Helper()
		return c.kubectl(t, "exec", "--container=mariadb", "db-0", "--", "mariadb", "--host=127.0.0.1", "--user="+user,
			"--password="+password, "--skip-column-names", "--batch", "--execute="+statement)
	}
	sql := func(statement string) string { return queryAs("root", statement) }
	_, version, _ := strings.Cut(image, ":")
	if got := sql("SELECT VERSION()"); !strings.HasPrefix(got, version+".") {
		t.Errorf("%s runs %s", image, got)
	}
	if strings.Contains(env, "MARIADB_USER") {
		queryAs("clerk", "CREATE TABLE my_shop.own (id INT)")
	}
	sql("CREATE DATABASE shop; CREATE TABLE shop.orders (id INT PRIMARY KEY); INSERT INTO shop.orders VALUES (1), (2), (3)")
	uid := c.kubectl(t, "get", "pod", "db-0", "--output=jsonpath={.metadata.uid}")
	c.kubectl(t, "delete", "pod", "db-0")
	eventually(t, time.Minute, func() error {
		now, err := c.tryKubectl("get", "pod", "db-0", "--output=jsonpath={.metadata.uid} {.status.containerStatuses[0].ready}")
		if err != nil || strings.HasPrefix(now, uid) || !strings.HasSuffix(now, " true") {
			return fmt.Errorf("new pod not ready: %q, %w", now, err)
		}
		return nil
	})
	if got := sql("SELECT SUM(id) FROM shop.orders"); got != "6" {
		t.Errorf("sum of IDs after a restart: got %q, want 6", got)
	}
	if out := c.kubectl(t, "logs", "db-0", "--container=mariadb"); !strings.Contains(out, "data found") {
		t.Errorf("the second start did not use the data:\n%s", out)
	}
}

// testMariaDBRejectsMissingPasswords checks that no server starts with an account without a password.
func testMariaDBRejectsMissingPasswords(t *testing.T, c *testCluster) {
	for name, args := range map[string][]string{
		"no-root":  {"--env=MARIADB_DATABASE=x"},
		"no-user":  {"--env=MARIADB_ROOT_PASSWORD=x", "--env=MARIADB_USER=clerk"},
		"bad-hash": {"--env=MARIADB_ROOT_PASSWORD=x", "--env=MARIADB_USER=clerk", "--env=MARIADB_PASSWORD_HASH=*12"},
	} {
		c.kubectl(t, append([]string{"run", name, "--image=mariadb:11.8", "--restart=Never"}, args...)...)
		c.waitForOutput(t, time.Minute, "Failed", "get", "pod", name, "--output=jsonpath={.status.phase}")
		if out := c.kubectl(t, "logs", name); !strings.Contains(out, "[entrypoint] ERROR: ") || !strings.Contains(strings.ToLower(out), "password") {
			t.Errorf("%s: the log does not name the problem:\n%s", name, out)
		}
	}
}
