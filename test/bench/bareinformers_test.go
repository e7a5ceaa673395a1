package bench

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
)

const (
	// informersEnv makes the test binary run only informers.
	informersEnv = "BENCH_INFORMERS"
	// informersReady is printed when the caches are synced.
	informersReady = "in sync"
)

// startBareInformers starts a process that caches the same objects as the operator without using them.
func (p *population) startBareInformers() *controlplane.Process {
	p.Helper()
	dir := p.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	p.must(clientcmd.WriteToFile(controlplane.Kubeconfig(p.plane.Config), kubeconfig))
	self, err := os.Executable()
	p.must(err)
	process := &controlplane.Process{
		Name: "informers", Path: self, Log: filepath.Join(dir, "informers.log"),
		Args: []string{"-test.run=^TestBareInformers$", "-test.timeout=0"}, Env: []string{informersEnv + "=" + kubeconfig},
	}
	p.must(process.Start())
	p.Cleanup(func() { _ = process.Kill() })
	for deadline := time.Now().Add(waitTimeout); ; time.Sleep(sampleInterval) {
		log, err := os.ReadFile(process.Log)
		p.must(err)
		if bytes.Contains(log, []byte(informersReady)) {
			return process
		}
		if time.Now().After(deadline) || process.Pid() == 0 {
			p.Fatalf("bare informers are not ready: %s", log)
		}
	}
}

// TestBareInformers is that process. It runs until a signal.
func TestBareInformers(t *testing.T) {
	kubeconfig := os.Getenv(informersEnv)
	if kubeconfig == "" {
		t.Skip("part of P7, runs in a separate process")
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	must(err)
	scheme := runtime.NewScheme()
	must(clientgoscheme.AddToScheme(scheme))
	must(appsapi.AddToScheme(scheme))
	cache, err := ctrlcache.New(config, ctrlcache.Options{Scheme: scheme, DefaultTransform: ctrlcache.TransformStripManagedFields()})
	must(err)
	stopped := make(chan error, 1)
	go func() { stopped <- cache.Start(t.Context()) }()
	for _, kind := range []client.Object{&appsapi.AppService{}, &appsv1.Deployment{}, &corev1.Service{}} {
		_, err := cache.GetInformer(t.Context(), kind)
		must(err)
	}
	fmt.Println(informersReady)
	must(<-stopped)
}
