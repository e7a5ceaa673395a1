package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// packetCapture records the packets of the node and of all pods.
type packetCapture struct {
	file string
	stop func()
}

// startPacketCapture records the packets to and from a TCP port.
func startPacketCapture(t *testing.T, port string) *packetCapture {
	t.Helper()
	c := &packetCapture{file: filepath.Join(t.TempDir(), "packets")}
	cmd := exec.Command("nsenter", fmt.Sprintf("--net=/proc/%d/ns/net", clusterProcess(t, "kubelet")),
		"tcpdump", "-i", "any", "-Z", "root", "-U", "-w", c.file, "tcp", "port", port)
	var log bytes.Buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stopped := false
	c.stop = func() {
		if stopped {
			return
		}
		stopped = true
		_ = cmd.Process.Signal(syscall.SIGINT) // writes buffered packets
		if err := cmd.Wait(); err != nil {
			t.Errorf("tcpdump: %v: %s", err, log.String())
		}
	}
	t.Cleanup(c.stop)
	for deadline := time.Now().Add(10 * time.Second); ; {
		if _, err := os.Stat(c.file); err == nil {
			return c
		}
		if time.Now().After(deadline) {
			t.Fatalf("tcpdump does not record: %s", log.String())
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// verifyEncrypted ends the recording. It fails if a packet contains a password or SQL in clear text.
func (c *packetCapture) verifyEncrypted(t *testing.T, passwords []string) {
	t.Helper()
	c.stop()
	packets, err := os.ReadFile(c.file)
	if err != nil {
		t.Fatal(err)
	}
	// Servers greet clients before TLS starts.
	greetings := bytes.Count(packets, []byte("mysql_native_password"))
	if greetings < 100 {
		t.Errorf("recorded only %d greetings of servers in %d bytes", greetings, len(packets))
	}
	for _, text := range append(passwords, "SELECT", "INSERT INTO", "ALTER USER", "SET sql_mode", "FLUSH") {
		if n := bytes.Count(packets, []byte(text)); n > 0 {
			t.Errorf("%d packets contain %q in clear text", n, text)
		}
	}
	t.Logf("no password and no SQL in %d connections, %d MiB", greetings, len(packets)>>20)
}
