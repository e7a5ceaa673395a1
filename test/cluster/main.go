// Command cluster builds Kubernetes from Go modules and runs it on this machine for tests. See docs/dev/cluster.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/holdfast-dev/holdfast/test/cluster/internal/build"
	"github.com/holdfast-dev/holdfast/test/cluster/internal/node"
)

const usage = `Usage: cluster COMMAND [FLAGS]

  build   build the programs (and images) of a level, and link to their directory
  up      start a cluster in the background and write its kubeconfig
  image   create an image archive of one static program: cluster image --name=NAME PROGRAM FILE
  rootfs  unpack an image of the cluster and print the directory: cluster rootfs --name=mariadb:11.8
  load    import an image archive: cluster load FILE; or a program: cluster load --name=NAME PROGRAM
  down    stop the cluster and remove everything it created

cluster COMMAND -h lists the flags`

func main() {
	if err := run(os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("no command\n%s", usage)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var f flags
	f.FlagSet = flag.NewFlagSet("cluster "+args[0], flag.ContinueOnError)
	f.StringVar(&f.dir, "dir", ".cluster", "data directory of the cluster")
	switch args[0] {
	case "build":
		return f.build(ctx, args[1:])
	case "up":
		return f.up(ctx, args[1:])
	case "image":
		return f.image(ctx, args[1:])
	case "rootfs":
		return f.rootfs(ctx, args[1:])
	case "load":
		return f.load(ctx, args[1:])
	case "down", "init", "supervise":
		if err := f.parse(args[1:]); err != nil {
			return err
		}
	}
	switch args[0] {
	case "down":
		return node.Down(f.dir, os.Stdout)
	case "init": // started by up
		return node.Init(f.dir)
	case "supervise": // started by up or init
		return node.Supervise(f.dir)
	}
	return fmt.Errorf("unknown command %q\n%s", args[0], usage)
}

type flags struct {
	*flag.FlagSet
	dir        string
	level      string
	kubernetes string
	link       string
	name       string
	port       int
	audit      bool
}

func (f *flags) buildFlags() {
	f.StringVar(&f.level, "level", string(build.Node), "node, or control-plane (without pods, does not need root)")
	f.StringVar(&f.kubernetes, "kubernetes", "", "version of Kubernetes (default: the pinned one)")
}

// parse parses the flags and the expected arguments.
func (f *flags) parse(args []string, positional ...string) (err error) {
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() != len(positional) {
		return fmt.Errorf("got arguments %q, want %q", f.Args(), positional)
	}
	f.dir, err = resolveDir(f.dir)
	return err
}

// resolveDir returns the canonical path of a directory that may not exist yet: a cluster is identified by it.
func resolveDir(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if resolved, err := filepath.EvalSymlinks(dir); err == nil {
		return resolved, nil
	}
	parent, err := filepath.EvalSymlinks(filepath.Dir(dir))
	if errors.Is(err, os.ErrNotExist) {
		return dir, nil
	}
	return filepath.Join(parent, filepath.Base(dir)), err
}

func (f *flags) build(ctx context.Context, args []string) error {
	f.buildFlags()
	f.StringVar(&f.link, "link", "", "path of a link to the directory of the programs")
	if err := f.parse(args); err != nil {
		return err
	}
	_, err := f.buildAssets(ctx)
	return err
}

// rootfs is for tests that run the program of an image without a node.
func (f *flags) rootfs(ctx context.Context, args []string) error {
	f.StringVar(&f.name, "name", "", "name of the image")
	if err := f.parse(args); err != nil {
		return err
	}
	b, err := build.New("", os.Stderr)
	if err != nil {
		return err
	}
	dir, err := b.Rootfs(ctx, f.name)
	if err == nil {
		fmt.Println(dir)
	}
	return err
}

// buildAssets checks the requirements and builds the programs of the level.
func (f *flags) buildAssets(ctx context.Context) (c node.Config, err error) {
	if c.Level, err = build.ParseLevel(f.level); err != nil {
		return c, err
	}
	if err := node.CheckRequirements(c.Level); err != nil {
		return c, err
	}
	b, err := build.New(f.kubernetes, os.Stdout)
	if err != nil {
		return c, err
	}
	if c.Assets, err = b.Assets(ctx, c.Level); err != nil {
		return c, err
	}
	if err := relink(f.link, c.Assets); err != nil || c.Level == build.ControlPlane {
		return c, err
	}
	c.Images, err = b.Images(ctx)
	return c, err
}

// relink replaces a link, but never a file.
func relink(link, target string) error {
	if link == "" {
		return nil
	}
	info, err := os.Lstat(link)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return os.Symlink(target, link)
	case err != nil:
		return err
	case info.Mode()&os.ModeSymlink == 0:
		return fmt.Errorf("--link=%s exists and is not a link; choose another name, or remove it", link)
	}
	if err := os.Remove(link); err != nil {
		return err
	}
	return os.Symlink(target, link)
}

func (f *flags) up(ctx context.Context, args []string) error {
	f.buildFlags()
	f.IntVar(&f.port, "port", 16443, "port of the API server on 127.0.0.1 (a control plane also uses the next two)")
	f.StringVar(&f.link, "link", "", "path of a link to the directory of the programs, including kubectl")
	f.BoolVar(&f.audit, "audit", false, "write audit.log: every request, with the bodies of writes")
	if err := f.parse(args); err != nil {
		return err
	}
	c, err := f.buildAssets(ctx)
	if err != nil {
		return err
	}
	c.Dir, c.Port, c.Audit = f.dir, f.port, f.audit
	start := time.Now()
	if err := node.Up(ctx, c, os.Stdout); err != nil {
		return err
	}
	fmt.Printf("%5.1f s  ready: export KUBECONFIG=%s\n", time.Since(start).Seconds(), c.Kubeconfig())
	return nil
}

// image creates an archive that containerd, podman, docker and kind can load.
func (f *flags) image(ctx context.Context, args []string) error {
	f.StringVar(&f.name, "name", "", "name of the image in pod specs")
	if err := f.parse(args, "PROGRAM", "FILE"); err != nil {
		return err
	}
	return f.writeArchive(ctx, f.Arg(1))
}

func (f *flags) writeArchive(ctx context.Context, file string) error {
	if f.name == "" {
		return errors.New("--name is required: the name of the image in pod specs")
	}
	b, err := build.New("", os.Stdout)
	if err != nil {
		return err
	}
	return b.ProgramImage(ctx, f.name, f.Arg(0), file)
}

func (f *flags) load(ctx context.Context, args []string) error {
	f.StringVar(&f.name, "name", "", "name of the image in pod specs; if empty, the argument is an archive")
	if err := f.parse(args, "PROGRAM"); err != nil {
		return err
	}
	c, err := node.Load(f.dir)
	if err != nil {
		return err
	}
	if f.name == "" {
		return c.Import(ctx, f.Arg(0))
	}
	tmp, err := os.MkdirTemp("", "image-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	archive := filepath.Join(tmp, "image.tar")
	if err := f.writeArchive(ctx, archive); err != nil {
		return err
	}
	return c.Import(ctx, archive)
}
