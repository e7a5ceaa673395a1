// Package center tests the application center against a real API server: consistency, latency, load and
// permissions.
package center

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/center"
	"github.com/holdfast-dev/holdfast/internal/center/informers"
	"github.com/holdfast-dev/holdfast/internal/center/model"
	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	"github.com/holdfast-dev/holdfast/internal/testutil/podsim"
)

var (
	changes = flag.Int("changes", 150, "number of random changes")
	seed    = flag.Uint64("seed", 1, "seed of the random changes")
)

func TestMain(m *testing.M) {
	if target := os.Getenv(probeEnv); target != "" { // run as a measured process instead of a test
		if err := runProbe(target); err != nil {
			log.Fatal(err)
		}
		return
	}
	harness.Main(m)
}

// startCore runs a core until the test ends.
func startCore(t *testing.T, config *rest.Config, published func(before, after *model.Record)) *center.Core {
	t.Helper()
	c, err := center.New(center.Options{Config: config, OnChange: published})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); c.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	eventually(t, 20*time.Second, func() error {
		if !c.Registry.Synced() || len(c.Registry.Informers()) < len(model.DefaultKinds()) {
			return fmt.Errorf("informers have not synced: %v", c.Registry.Informers())
		}
		return nil
	})
	return c
}

// eventually retries until check succeeds.
func eventually(t *testing.T, within time.Duration, f func() error) {
	t.Helper()
	var err error
	poll := func(context.Context) (bool, error) {
		err = f()
		return err == nil, nil
	}
	if wait.PollUntilContextTimeout(context.Background(), 20*time.Millisecond, within, true, poll) != nil {
		t.Fatal(err)
	}
}

// TestMatchesAPIServer makes random changes. At intervals it waits until nothing changes, and then compares the
// store with the lists of the API server and the views with the views of a new center.
func TestMatchesAPIServer(t *testing.T) {
	t.Parallel() // measurements run first, one at a time
	behaviors := map[string]podsim.Behavior{"slow": podsim.Slow(time.Second)}
	s := harness.New(t, harness.BehaviorByTag(behaviors), operator.Options{NoRace: true})
	w := s.NewWorld(t)
	c := startCore(t, s.Plane.Config, nil)
	r := &randomChanger{World: w, rng: rand.New(rand.NewPCG(*seed, 0))} //nolint:gosec // reproducible
	start, checkpoints := time.Now(), 0
	var slowest time.Duration
	for done := 0; done < *changes; {
		for range min(75, *changes-done) {
			r.applyRandom(t)
			done++
		}
		lastChange := time.Now()
		waitUntilConsistent(t, c, s.Plane.Config)
		slowest = max(slowest, time.Since(lastChange))
		checkpoints++
		// A subtest stops the second center at its end.
		t.Run(fmt.Sprintf("%d changes", done), func(t *testing.T) {
			fresh := startCore(t, s.Plane.Config, nil)
			eventually(t, 20*time.Second, func() error { return compareCenters(c, fresh) })
		})
		if t.Failed() {
			return
		}
	}
	t.Logf("%d changes in %.0f s, %d comparisons: store and API server match, views match a new center; applications: %d",
		*changes, time.Since(start).Seconds(), checkpoints, len(c.Model.All()))
	t.Logf("the slowest comparison succeeded %.1f s after the last change, with the operator and the pods running", slowest.Seconds())
}

// waitUntilConsistent waits until the store matches the API server twice in a row, because controllers are
// running.
func waitUntilConsistent(t *testing.T, c *center.Core, config *rest.Config) {
	t.Helper()
	eventually(t, 60*time.Second, func() error {
		if err := compareWithAPIServer(t.Context(), c, config); err != nil {
			return err
		}
		time.Sleep(300 * time.Millisecond) // time for pending events
		return compareWithAPIServer(t.Context(), c, config)
	})
}

// compareWithAPIServer compares every object of every kind, by name and resourceVersion.
func compareWithAPIServer(ctx context.Context, c *center.Core, config *rest.Config) error {
	api, err := metadata.NewForConfig(config)
	if err != nil {
		return err
	}
	for _, i := range c.Registry.Informers() {
		if i.State != informers.Live {
			return fmt.Errorf("%s is %s: %s", i.Key, i.State, i.Message)
		}
		kind, ok := c.KindOf(i.Key.Resource)
		if !ok {
			continue // CRDs are not stored
		}
		list, err := api.Resource(i.Key.Resource).Namespace(i.Key.Namespace).List(ctx, metav1.ListOptions{FieldSelector: kind.FieldSelector})
		if err != nil {
			return err
		}
		var want, got []string
		for _, o := range list.Items {
			want = append(want, o.Namespace+"/"+o.Name+" "+o.ResourceVersion)
		}
		for _, e := range c.Store.List(kind.GroupKind(), i.Key.Namespace) {
			got = append(got, e.Namespace+"/"+e.Name+" "+strconv.FormatUint(e.ResourceVersion, 10))
		}
		slices.Sort(want)
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("%s (-API server +center):\n%s", i.Key, diff)
		}
	}
	return nil
}

// compareCenters compares the views of two centers.
func compareCenters(a, b *center.Core) error {
	x, y := renderRecords(a), renderRecords(b)
	if diff := cmp.Diff(y, x); diff != "" {
		return fmt.Errorf("views (-new center +this center):\n%s", diff)
	}
	return nil
}

func renderRecords(c *center.Core) map[string]string {
	out := map[string]string{}
	for _, r := range c.Model.All() {
		v := *r
		v.RecheckAt = time.Time{}
		text, err := json.MarshalIndent(v, "", " ")
		if err != nil {
			panic(err)
		}
		out[r.Ref.String()] = string(text)
	}
	return out
}

// randomChanger makes random changes.
type randomChanger struct {
	*harness.World
	rng    *rand.Rand
	serial int
}

const stackSpec = `
components:
- {name: db, stateful: {image: "shop/db:1", storage: [{name: data, mountPath: /data, size: 1Gi}], ports: [{port: 3306}]}}
- {name: web, dependsOn: [db], service: {image: "shop/web:1", replicas: 2, ports: [{port: 80}], config: {files: [{path: /etc/a, content: one}]}}}
`

// applyRandom makes one random change that the API server accepts.
func (c *randomChanger) applyRandom(t *testing.T) {
	ctx := t.Context()
	n := c.rng.IntN(6)
	name := fmt.Sprint("shop-", n)
	operations := []func() error{
		func() error { // create an application
			app := &appsapi.AppStack{ObjectMeta: metav1.ObjectMeta{Namespace: c.NS, Name: name}}
			if err := yaml.UnmarshalStrict([]byte(stackSpec), &app.Spec); err != nil {
				return err
			}
			return c.Create(ctx, app)
		},
		func() error { // delete an application
			if c.rng.IntN(3) > 0 {
				return nil
			}
			return c.Delete(ctx, &appsapi.AppStack{ObjectMeta: metav1.ObjectMeta{Namespace: c.NS, Name: name}})
		},
		func() error { return c.patchStack(ctx, name, "/spec/components/1/service/replicas", c.rng.IntN(4)) },
		func() error {
			return c.patchStack(ctx, name, "/spec/components/1/service/image", fmt.Sprint("shop/web:", c.rng.IntN(3)))
		},
		func() error { return c.patchStack(ctx, name, "/spec/components/1/service/image", "shop/web:slow") },
		func() error { return c.createOrScaleDeployment(ctx, name) },
		func() error {
			return c.Delete(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: c.NS, Name: "plain-" + name}})
		},
		func() error { // create a ConfigMap, with or without a Helm release
			m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: c.NS, Name: fmt.Sprint("map-", n)}}
			if c.rng.IntN(2) == 0 {
				m.Annotations = map[string]string{"meta.helm.sh/release-name": fmt.Sprint("release-", n%2), "meta.helm.sh/release-namespace": c.NS}
			}
			return c.Create(ctx, m)
		},
		func() error {
			return c.Delete(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: c.NS, Name: fmt.Sprint("map-", n)}})
		},
		func() error { return c.deleteRandomPod(ctx) },
	}
	for range 50 {
		if err := operations[c.rng.IntN(len(operations))](); err == nil {
			return
		} else if !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) && !apierrors.IsConflict(err) && !apierrors.IsInvalid(err) && !isBusy(err) {
			t.Fatal(err)
		}
	}
}

// isBusy reports whether the API server rejected a request temporarily.
func isBusy(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsTooManyRequests(err) || strings.Contains(err.Error(), "exhausted")
}

func (c *randomChanger) patchStack(ctx context.Context, name, path string, value any) error {
	patch, err := json.Marshal([]map[string]any{{"op": "replace", "path": path, "value": value}})
	if err != nil {
		return err
	}
	return c.Patch(ctx, &appsapi.AppStack{ObjectMeta: metav1.ObjectMeta{Namespace: c.NS, Name: name}}, client.RawPatch(types.JSONPatchType, patch))
}

// createOrScaleDeployment creates or scales a Deployment that Holdfast does not manage.
func (c *randomChanger) createOrScaleDeployment(ctx context.Context, name string) error {
	c.serial++
	labels := map[string]string{"app": name}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: c.NS, Name: "plain-" + name, Labels: map[string]string{"app.kubernetes.io/part-of": "suite"}}}
	d.Spec = appsv1.DeploymentSpec{Replicas: new(int32(c.rng.IntN(3))), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "other:1"}}},
	}}
	err := c.Create(ctx, d)
	if apierrors.IsAlreadyExists(err) {
		patch := fmt.Sprintf(`{"spec":{"replicas":%d}}`, c.rng.IntN(3))
		return c.Patch(ctx, d, client.RawPatch(types.MergePatchType, []byte(patch)))
	}
	return err
}

func (c *randomChanger) deleteRandomPod(ctx context.Context) error {
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.InNamespace(c.NS)); err != nil || len(pods.Items) == 0 {
		return err
	}
	return c.Delete(ctx, &pods.Items[c.rng.IntN(len(pods.Items))])
}
