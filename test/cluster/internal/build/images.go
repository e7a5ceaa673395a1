package build

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Names of the images for the cluster and its tests. The MariaDB images replace the official ones under the same name:
// Debian packages with an entrypoint that implements the relevant part of the official interface.
const (
	PauseImage       = "localhost/pause:1"
	CoreDNSImage     = "localhost/coredns:1"
	WebImage         = "localhost/web:1"
	BusyboxImage     = "busybox:1"
	MariaDB1011Image = "mariadb:10.11"
	MariaDB118Image  = "mariadb:11.8"
)

// Names of the images in config/samples/cloudmanager.yaml. The actual content differs: a test web server, Debian's
// busybox and MariaDB 10.11.
const (
	nginxSample   = "nginx:1.20"
	busyboxSample = "busybox:1.32.1"
	mariaDBSample = "mariadb:10.3.35"
)

// image is built from one file system layer, a tar archive.
type image struct {
	name       string
	aliases    []string // additional names
	inputs     []string // files and directories below Source that it is built from
	recipe     string   // other parameters that affect the result
	config     v1.Config
	writeLayer func(ctx context.Context, b *Builder, tarFile string) error
}

const defaultPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

func images() []image {
	return []image{
		programImage(PauseImage, "./images/pause", "images/pause"),
		programImage(CoreDNSImage, ".", "parts/coredns"),
		programImage(WebImage, "./images/web", "images/web"),
		programImage(nginxSample, "./images/web", "images/web", "--address=:80"),
		{name: BusyboxImage, aliases: []string{busyboxSample}, writeLayer: busyboxLayer, config: v1.Config{Cmd: []string{"sh"}, Env: []string{defaultPath}}},
		mariadbImage(MariaDB1011Image, "bookworm", mariaDBSample),
		mariadbImage(MariaDB118Image, "trixie"),
	}
}

// Images builds all images and returns their archives; those of the cluster are first.
func (b *Builder) Images(ctx context.Context) ([]string, error) {
	var files []string
	for _, im := range images() {
		file, err := b.buildImage(ctx, im)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

func (b *Builder) buildImage(ctx context.Context, im image) (string, error) {
	var inputs []string
	for _, in := range im.inputs {
		inputs = append(inputs, filepath.Join(b.Source, in))
	}
	sources, err := digest(inputs...)
	if err != nil {
		return "", err
	}
	safe := strings.NewReplacer("/", "_", ":", "_").Replace(im.name)
	file := filepath.Join(b.Cache, "images", fmt.Sprintf("%s-%s.tar", safe, Key(sources, im.recipe+strings.Join(im.aliases, " "), fmt.Sprint(im.config))))
	missing := func() bool {
		_, err := os.Stat(file)
		return err != nil
	}
	return file, b.buildOnce(missing, func() error {
		return b.withProgress("building image "+im.name, func() error { return b.writeArchive(ctx, im, file) })
	})
}

// writeArchive writes the image in the format of `docker save`.
func (b *Builder) writeArchive(ctx context.Context, im image, file string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(file), ".image-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	rootfs := filepath.Join(tmp, "rootfs.tar")
	if err := im.writeLayer(ctx, b, rootfs); err != nil {
		return err
	}
	layer, err := tarball.LayerFromFile(rootfs, tarball.WithCompressionLevel(gzip.BestSpeed))
	if err != nil {
		return err
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Config = "linux", runtime.GOARCH, im.config
	if img, err = mutate.ConfigFile(img, config); err != nil {
		return err
	}
	tags := map[name.Reference]v1.Image{}
	for _, n := range append([]string{im.name}, im.aliases...) {
		tag, err := name.NewTag(n)
		if err != nil {
			return err
		}
		tags[tag] = img
	}
	finished := filepath.Join(tmp, "image.tar")
	if err := tarball.MultiRefWriteToFile(finished, tags); err != nil {
		return err
	}
	return os.Rename(finished, file)
}

// programConfig configures an image with one static program and a non-root user.
var programConfig = v1.Config{Entrypoint: []string{"/program"}, User: "65532:65532"}

// ProgramImage writes an image with one static program to an archive.
func (b *Builder) ProgramImage(ctx context.Context, name, binary, archive string) error {
	return b.writeArchive(ctx, image{
		name: name, config: programConfig,
		writeLayer: func(_ context.Context, _ *Builder, tarFile string) error {
			return writeTar(tarFile, dirEntry("tmp", 0o1777), fileEntry("program", binary))
		},
	}, archive)
}

// programImage is an image with only a static Go program, built from package pkg of the module in or above the
// directory.
func programImage(name, pkg, folder string, args ...string) image {
	config := programConfig
	config.Cmd = args
	return image{
		name:   name,
		inputs: []string{folder},
		config: config,
		writeLayer: func(ctx context.Context, b *Builder, tarFile string) error {
			binary := tarFile + ".program"
			dir := b.Source
			if pkg == "." {
				dir = filepath.Join(b.Source, folder)
			}
			env := []string{"CGO_ENABLED=0", "GOWORK=off", "GOFLAGS="}
			if err := runCommand(ctx, dir, env, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", binary, pkg); err != nil {
				return err
			}
			return writeTar(tarFile, dirEntry("tmp", 0o1777), fileEntry("program", binary))
		},
	}
}

// busyboxLayer contains Debian's static busybox with links for all applets.
func busyboxLayer(ctx context.Context, _ *Builder, tarFile string) error {
	binary, err := exec.LookPath("busybox")
	if err != nil {
		return fmt.Errorf("apt-get install busybox-static: %w", err)
	}
	if exec.CommandContext(ctx, "ldd", binary).Run() == nil {
		return fmt.Errorf("%s is not statically linked: apt-get install busybox-static", binary)
	}
	applets, err := exec.CommandContext(ctx, binary, "--list").Output()
	if err != nil {
		return fmt.Errorf("list the applets of busybox: %w", err)
	}
	entries := []tarEntry{dirEntry("tmp", 0o1777), dirEntry("bin", 0o755), fileEntry("bin/busybox", binary)}
	for _, a := range strings.Fields(string(applets)) {
		if a != "busybox" {
			entries = append(entries, tarEntry{header: tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/" + a, Linkname: "busybox"}})
		}
	}
	return writeTar(tarFile, entries...)
}

// tarEntry is one entry of a layer; content is copied from file, if set.
type tarEntry struct {
	header tar.Header
	file   string
}

func dirEntry(name string, mode int64) tarEntry {
	return tarEntry{header: tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: mode}}
}

func fileEntry(name, file string) tarEntry {
	return tarEntry{header: tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755}, file: file}
}

func writeTar(path string, entries ...tarEntry) (err error) {
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := out.Close(); err == nil {
			err = cerr
		}
	}()
	w := tar.NewWriter(out)
	for _, e := range entries {
		if err := e.write(w); err != nil {
			return fmt.Errorf("write %s: %w", e.header.Name, err)
		}
	}
	return w.Close()
}

func (e tarEntry) write(w *tar.Writer) error {
	if e.file == "" {
		return w.WriteHeader(&e.header)
	}
	f, err := os.Open(e.file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	e.header.Size = info.Size()
	if err := w.WriteHeader(&e.header); err != nil {
		return err
	}
	_, err = io.Copy(w, f)
	return err
}
