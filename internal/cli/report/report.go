package report

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/application"
	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/cli/collect"
)

// collector collects what the file is made of.
type collector struct {
	options
	env    *cli.Env
	client client.Client
	kube   kubernetes.Interface
	app    application.Application
	now    time.Time
	result collect.Result
	bundle bundle
}

// step is a part of the work. One that fails does not end it: what it would have told is
// missing then, and said to be.
type step struct {
	progress, subject string
	run               func(context.Context) error
}

// stepTimeout is how long a step may take: the rest is worth having without it.
const stepTimeout = time.Minute

func run(ctx context.Context, env *cli.Env, o options, args []string, out, errOut io.Writer) error {
	var progress atomic.Value
	progress.Store("Looking for the application")
	done := cli.ProgressFunc(errOut, func() string { return progress.Load().(string) })
	c, err := newCollector(ctx, env, o, args)
	if err != nil {
		done()
		return err
	}
	for _, s := range c.steps() {
		progress.Store(s.progress)
		stepCtx, cancel := context.WithTimeout(ctx, stepTimeout)
		if err := s.run(stepCtx); err != nil {
			c.bundle.addUnread(s.subject, cli.WithHint(err))
		}
		cancel()
	}
	done()
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("nothing was written: %w; run it again", err)
	}
	name := fmt.Sprintf("holdfast-report-%s-%s-%s", c.app.GetNamespace(), c.app.GetName(), c.now.UTC().Format("20060102T150405Z"))
	content, err := c.bundle.zip(name, c.now)
	if err != nil {
		return fmt.Errorf("pack the report: %w", err)
	}
	if o.file == stdoutPath {
		if _, err := out.Write(content); err != nil {
			return fmt.Errorf("write to standard output: %w; name a file with -o", err)
		}
		c.printSummary(errOut, "", len(content))
		return nil
	}
	path, err := save(o.file, name+".zip", content)
	if err != nil {
		return err
	}
	c.printSummary(out, path, len(content))
	return nil
}

func newCollector(ctx context.Context, env *cli.Env, o options, args []string) (*collector, error) {
	config, err := env.Config()
	if err != nil {
		return nil, err
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	c, err := cli.NewClient(config, nil)
	if err != nil {
		return nil, err
	}
	if !o.logs {
		c = redactingClient{c}
	}
	app, err := env.FindApplication(ctx, c, args)
	if err != nil {
		return nil, err
	}
	return &collector{options: o, env: env, client: c, kube: kube, app: app, now: env.Now(), bundle: bundle{
		title:   fmt.Sprintf("Report about %s, made by kubectl holdfast %s at %s", application.Title(app), env.Version, env.Now().UTC().Format(time.RFC3339)),
		omitted: omittedContent(o),
	}}, nil
}

// omittedContent is what is not in the file on purpose.
func omittedContent(o options) []string {
	out := []string{"Secrets: they are never read"}
	if o.logs {
		return append(out, "lines of logs beyond the last ones of each container")
	}
	return append(out, "logs of the application, and what its containers and probes wrote last: programs may write secrets. --logs includes them")
}

func (c *collector) steps() []step {
	steps := []step{
		{"Looking at the application", "why and tree", c.collectApplication},
		{"Reading ConfigMaps", "ConfigMaps", c.collectConfigMaps},
		{"Reading revisions", "revisions", c.collectRevisions},
		{"Reading nodes", "Nodes", c.collectNodes},
		{"Reading events", "Events", c.collectEvents},
		{"Asking for versions", "versions", c.collectVersions},
		{"Reading the operator", "operator", c.collectOperator},
		{"Looking at the installation", "doctor", c.collectDoctor},
	}
	if c.logs {
		steps = append(steps, step{"Reading logs", "logs", c.collectAppLogs})
	}
	return steps
}

// save writes a new file: an older report is not written over.
func save(target, name string, content []byte) (string, error) {
	path := target
	if info, err := os.Stat(target); target == "" || err == nil && info.IsDir() {
		path = filepath.Join(target, name)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case os.IsExist(err):
		return "", fmt.Errorf("%s exists already and is not written over; choose another file with -o", path)
	case err != nil:
		return "", fmt.Errorf("%w; choose another file with -o", err)
	}
	_, err = f.Write(content)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		_ = os.Remove(path) // half of it is of no use
		return "", fmt.Errorf("%w; choose another file with -o", err)
	}
	return path, nil
}

// printSummary says what was written and what to do with it.
func (c *collector) printSummary(out io.Writer, path string, size int) {
	name := "a report"
	if path != "" {
		name = path
	}
	fmt.Fprintf(out, "Wrote %s about %s: %d files, %d KiB.\n", name, application.Title(c.app), len(c.bundle.files)+1, (size+1023)/1024)
	if c.logs {
		fmt.Fprintln(out, "It has what the programs of the application wrote, which may contain secrets that nothing recognises: read logs/ before you share it.")
	} else {
		fmt.Fprintln(out, "It has no Secrets, and nothing that programs wrote, which may contain secrets; --logs includes that.")
	}
	for _, note := range c.bundle.unread {
		fmt.Fprintf(out, "not in it: %s\n", note)
	}
	if path != "" {
		fmt.Fprintf(out, "Look through it, beginning with its MANIFEST (unzip -p %s '*/MANIFEST'), and attach it to your bug report.\n", path)
	}
}
