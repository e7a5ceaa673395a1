package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// run executes commands until ctx ends. At the end of the input it continues to watch.
func run(ctx context.Context, cfg *rest.Config, in io.Reader, out io.Writer, namespace string) error {
	// Only labels and owners are needed. Metadata is smaller to transfer and cache, and excludes
	// the content of Secrets.
	client, err := metadata.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("create client: %w", err)
	}
	r := &registry{client: client, namespace: namespace, out: out, watches: map[schema.GroupVersionResource]*watch{}}
	defer r.stopAll()
	lines := readLines(ctx, in)
	for {
		select {
		case <-ctx.Done():
			return nil
		case line, ok := <-lines:
			if !ok {
				lines = nil // blocks forever, so only the context remains
				continue
			}
			if err := r.execute(ctx, line); err != nil {
				r.printf("%s: %v", line, err)
			}
		}
	}
}

// readLines returns a channel of lines, because a read cannot be combined with a context. When ctx
// ends, a pending read of a terminal is abandoned; the program exits then.
func readLines(ctx context.Context, in io.Reader) <-chan string {
	lines := make(chan string)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(in); s.Scan(); {
			select {
			case lines <- strings.TrimSpace(s.Text()):
			case <-ctx.Done():
				return
			}
		}
	}()
	return lines
}

// registry tracks the watches. Only the goroutine of run uses watches, so it needs no lock; the
// events of all watches call printf.
type registry struct {
	client    metadata.Interface
	namespace string
	watches   map[schema.GroupVersionResource]*watch

	mu  sync.Mutex
	out io.Writer
}

func (r *registry) printf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.out, format+"\n", args...)
}

func (r *registry) execute(ctx context.Context, line string) error {
	if line == "" {
		return nil
	}
	switch args := line[1:]; line[0] {
	case '+':
		return r.add(ctx, args)
	case '-':
		return r.remove(args)
	case '?':
		return r.find(line, byLabel, args)
	case '@':
		return r.findOwned(line, args)
	}
	return errors.New("a command starts with +, -, ? or @")
}

func (r *registry) add(ctx context.Context, name string) error {
	resource, err := parseResource(name)
	if err != nil {
		return err
	}
	if r.watches[resource] != nil {
		return errors.New("already watched")
	}
	w, err := startWatch(ctx, r.client, resource, r.namespace, r.printf)
	if err != nil {
		return err
	}
	r.watches[resource] = w
	return nil
}

func (r *registry) remove(name string) error {
	resource, err := parseResource(name)
	if err != nil {
		return err
	}
	w := r.watches[resource]
	if w == nil {
		return errors.New("not watched")
	}
	w.stop()
	delete(r.watches, resource) // drops its cache
	r.printf("%s: stopped", name)
	return nil
}

func (r *registry) stopAll() {
	for _, w := range r.watches {
		w.cancel() // all of them first, so that they stop in parallel
	}
	for _, w := range r.watches {
		w.stop()
	}
}

// find queries the same index of every cache.
func (r *registry) find(line, index, value string) error {
	var found []string
	for resource, w := range r.watches {
		objects, err := w.informer.GetIndexer().ByIndex(index, value)
		if err != nil {
			return err
		}
		for _, obj := range objects {
			if o, ok := obj.(metav1.Object); ok {
				found = append(found, fmt.Sprintf("  %s %s/%s", formatResource(resource), o.GetNamespace(), o.GetName()))
			}
		}
	}
	slices.Sort(found)
	r.printf("%s", strings.Join(append([]string{fmt.Sprintf("%s: %d found", line, len(found))}, found...), "\n"))
	return nil
}

// findOwned resolves the name to a UID first: names can be reused, and objects owned by a deleted
// object of that name do not belong to the current one.
func (r *registry) findOwned(line, query string) error {
	name, key, _ := strings.Cut(query, " ")
	resource, err := parseResource(name)
	if err != nil {
		return err
	}
	w := r.watches[resource]
	if w == nil {
		return errors.New("not watched, so its UID is unknown")
	}
	obj, ok, err := w.informer.GetIndexer().GetByKey(key)
	if err != nil {
		return err
	}
	owner, isObject := obj.(metav1.Object)
	if !ok || !isObject {
		return errors.New("object not found")
	}
	return r.find(line, byOwner, string(owner.GetUID()))
}

// parseResource parses resource.version.group.
func parseResource(name string) (schema.GroupVersionResource, error) {
	parts := append(strings.SplitN(name, ".", 3), "", "")
	resource := schema.GroupVersionResource{Resource: parts[0], Version: parts[1], Group: parts[2]}
	if resource.Resource == "" || resource.Version == "" {
		return resource, errors.New("want resource.version.group, for example deployments.v1.apps or pods.v1")
	}
	return resource, nil
}

func formatResource(r schema.GroupVersionResource) string {
	return strings.TrimSuffix(r.Resource+"."+r.Version+"."+r.Group, ".")
}
