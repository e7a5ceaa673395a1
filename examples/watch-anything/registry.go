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

// run carries out commands until ctx ends. When there are no more of them, it goes on
// watching.
func run(ctx context.Context, cfg *rest.Config, in io.Reader, out io.Writer, namespace string) error {
	// Labels and owners are all we look at. Asking for metadata alone is less to send and
	// to keep, and the content of a Secret never comes here.
	client, err := metadata.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
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
				lines = nil // never ready again: only the context is left to wait for
				continue
			}
			if err := r.execute(ctx, line); err != nil {
				r.printf("%s: %v", line, err)
			}
		}
	}
}

// readLines makes a channel of lines, because a read cannot be waited for together with a
// context. At the end of ctx a read of a terminal is left behind; the program ends then.
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

// registry knows what is watched. Only the goroutine of run calls it, so that watches needs
// no lock; events of all watches call say.
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
	return errors.New("a command begins with +, -, ? or @")
}

func (r *registry) add(ctx context.Context, name string) error {
	resource, err := parseResource(name)
	if err != nil {
		return err
	}
	if r.watches[resource] != nil {
		return errors.New("is watched already")
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
		return errors.New("is not watched")
	}
	w.stop()
	delete(r.watches, resource) // the cache goes with it
	r.printf("%s: stopped", name)
	return nil
}

func (r *registry) stopAll() {
	for _, w := range r.watches {
		w.cancel() // all of them first: then they end at the same time
	}
	for _, w := range r.watches {
		w.stop()
	}
}

// find asks the same index of every cache.
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

// findOwned goes from a name to a UID first: a name is used again, and what belonged to the
// last object of that name does not belong to this one.
func (r *registry) findOwned(line, query string) error {
	name, key, _ := strings.Cut(query, " ")
	resource, err := parseResource(name)
	if err != nil {
		return err
	}
	w := r.watches[resource]
	if w == nil {
		return errors.New("is not watched, so its UID is not known")
	}
	obj, ok, err := w.informer.GetIndexer().GetByKey(key)
	if err != nil {
		return err
	}
	owner, isObject := obj.(metav1.Object)
	if !ok || !isObject {
		return errors.New("there is no such object")
	}
	return r.find(line, byOwner, string(owner.GetUID()))
}

// parseResource reads resource.version.group.
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
