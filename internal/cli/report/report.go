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

	"github.com/holdfast-dev/holdfast/internal/appkind"
	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/cli/collect"
)

// collector collects the contents of the report.
type collector struct {
	options
	env    *cli.Env
	client client.Client
	kube   kubernetes.Interface
	app    appkind.Application
	now    time.Time
	result collect.Result
	bundle bundle
}

// step collects a part of the report. An error does not stop the report; MANIFEST lists the missing part.
type step struct {
	progress, subject string
	run               func(context.Context) error
}

// stepTimeout limits each step, so that one slow step does not prevent the report.
const stepTimeout = time.Minute

func run(ctx context.Context, env *cli.Env, o options, args []string, out, errOut io.Writer) error {
	var progress atomic.Value
	progress.Store("Reading the application")
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
		return fmt.Errorf("no report was written: %w; run the command again", err)
	}
	name := fmt.Sprintf("holdfast-report-%s-%s-%s", c.app.GetNamespace(), c.app.GetName(), c.now.UTC().Format("20060102T150405Z"))
	content, err := c.bundle.zip(name, c.now)
	if err != nil {
		return fmt.Errorf("create the zip file: %w", err)
	}
	if o.file == stdoutPath {
		if _, err := cli.RawOutput(out).Write(content); err != nil {
			return fmt.Errorf("write to standard output: %w; specify a file with -o", err)
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
		title: fmt.Sprintf("Report for %s, created by kubectl holdfast %s at %s",
			appkind.Title(app), env.Version, env.Now().UTC().Format(time.RFC3339)),
		omitted: omittedContent(o),
	}}, nil
}

// omittedContent lists the deliberately omitted contents.
func omittedContent(o options) []string {
	out := []string{"Secrets (never read)"}
	if o.logs {
		return append(out, "older log lines of each container")
	}
	return append(out, "application logs, termination messages and probe output, which can contain secrets; use --logs to include them")
}

func (c *collector) steps() []step {
	steps := []step{
		{"Reading the objects of the application", "why and tree", c.collectApplication},
		{"Reading ConfigMaps", "ConfigMaps", c.collectConfigMaps},
		{"Reading revisions", "revisions", c.collectRevisions},
		{"Reading nodes", "Nodes", c.collectNodes},
		{"Reading events", "Events", c.collectEvents},
		{"Reading versions", "versions", c.collectVersions},
		{"Reading the operator", "operator", c.collectOperator},
		{"Checking the installation", "doctor", c.collectDoctor},
	}
	if c.logs {
		steps = append(steps, step{"Reading logs", "logs", c.collectAppLogs})
	}
	return steps
}

// save writes the report to a new file. It does not overwrite existing files.
func save(target, name string, content []byte) (string, error) {
	path := target
	if info, err := os.Stat(target); target == "" || err == nil && info.IsDir() {
		path = filepath.Join(target, name)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case os.IsExist(err):
		return "", fmt.Errorf("%s already exists; specify another file with -o", path)
	case err != nil:
		return "", fmt.Errorf("%w; specify another file with -o", err)
	}
	_, err = f.Write(content)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		_ = os.Remove(path) // removes the incomplete file
		return "", fmt.Errorf("%w; specify another file with -o", err)
	}
	return path, nil
}

// printSummary prints the result and the next step.
func (c *collector) printSummary(out io.Writer, path string, size int) {
	name := "a report"
	if path != "" {
		name = path
	}
	fmt.Fprintf(out, "Wrote %s for %s: %d files, %d KiB.\n", name, appkind.Title(c.app), len(c.bundle.files)+1, (size+1023)/1024)
	if c.logs {
		fmt.Fprintln(out, "It contains application logs, which can contain secrets that are not redacted: review logs/ before you share it.")
	} else {
		fmt.Fprintln(out, "It contains no Secrets and no application logs. Logs can contain secrets; use --logs to include them.")
	}
	for _, note := range c.bundle.unread {
		fmt.Fprintf(out, "could not be read: %s\n", note)
	}
	if path != "" {
		fmt.Fprintf(out, "Review its contents (unzip -p %s '*/MANIFEST'), then attach it to your bug report.\n", path)
	}
}
