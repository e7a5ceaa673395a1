package watchgaps

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	writerCount = 4
	objectCount = 60
)

// writers create, patch and delete ConfigMaps, and record the responses.
type writers struct {
	sync.WaitGroup
	mu sync.Mutex
	// versions are the resource versions in the responses to creates and patches. The response to a deletion
	// has none.
	versions   map[string]bool
	done       int
	progressed chan struct{} // closed at every change of done
}

func startWriters(w *world, changes int) *writers {
	started := &writers{versions: map[string]bool{}, progressed: make(chan struct{})}
	for n := range writerCount {
		started.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(n), 7))
			for i := 0; i < changes/writerCount && w.Context().Err() == nil; {
				version, err := writeOnce(w, n, i, rng)
				switch {
				case err == nil:
					i++
					started.recordWrite(version)
				case apierrors.IsNotFound(err), apierrors.IsAlreadyExists(err): // conflict with another writer
				default:
					time.Sleep(50 * time.Millisecond) // the API server is being restarted
				}
			}
		})
	}
	return started
}

// writeOnce makes one change of an object that all writers share.
func writeOnce(w *world, writer, i int, rng *rand.Rand) (version string, err error) {
	maps, ctx := w.client.CoreV1().ConfigMaps(w.ns), w.Context()
	object, manager := objectName(rng.IntN(objectCount)), fmt.Sprintf("writer-%d", writer)
	switch roll := rng.IntN(10); {
	case roll < 2:
		cm := configMap(object, map[string]string{"writer": manager, "value": strconv.Itoa(i)})
		made, err := maps.Create(ctx, cm, metav1.CreateOptions{FieldManager: manager})
		return made.GetResourceVersion(), err
	case roll < 3:
		return "", maps.Delete(ctx, object, metav1.DeleteOptions{})
	}
	change := fmt.Sprintf(`{"data":{"writer":%q,"value":"%d-%d","extra-%d":%s}}`, manager, writer, i, rng.IntN(3),
		[]string{"null", strconv.Quote(strconv.Itoa(i))}[rng.IntN(2)])
	patched, err := maps.Patch(ctx, object, types.MergePatchType, []byte(change), metav1.PatchOptions{FieldManager: manager})
	return patched.GetResourceVersion(), err
}

func configMap(name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: maps.Clone(data)}
}

func (a *writers) recordWrite(version string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if version != "" {
		a.versions[version] = true
	}
	a.done++
	close(a.progressed)
	a.progressed = make(chan struct{})
}

// waitForChanges waits for a number of changes.
func (a *writers) waitForChanges(ctx context.Context, n int) {
	for {
		a.mu.Lock()
		done, progressed := a.done, a.progressed
		a.mu.Unlock()
		if done >= n {
			return
		}
		select {
		case <-progressed:
		case <-ctx.Done():
			return
		}
	}
}

func (a *writers) wait() { a.Wait() }

// compactEtcd compacts etcd up to a revision, as every API server does every five minutes. It uses the HTTP gateway
// of etcd.
func compactEtcd(ctx context.Context, etcd, version string) error {
	body := fmt.Appendf(nil, `{"revision":%q,"physical":true}`, version)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, etcd+"/v3/kv/compaction", bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		content, _ := io.ReadAll(response.Body)
		return fmt.Errorf("compact etcd: %s: %s", response.Status, content)
	}
	return nil
}
