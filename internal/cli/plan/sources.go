package plan

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// manifest is a file or stream with documents.
type manifest struct {
	name    string
	content io.Reader
}

// manifestName names the manifests of the flags in messages.
func (o options) manifestName() string {
	switch {
	case o.kustomize != "":
		return o.kustomize
	case o.file == "-":
		return "standard input"
	}
	return o.file
}

// openManifests reads the manifests of the flags: a file, the files of a directory, standard input or a
// kustomization.
func (o options) openManifests(in io.Reader, errOut io.Writer) ([]manifest, error) {
	switch {
	case o.kustomize != "":
		content, err := buildKustomization(o.kustomize)
		return []manifest{{o.manifestName(), bytes.NewReader(content)}}, err
	case o.file == "-":
		return []manifest{{o.manifestName(), in}}, nil
	}
	info, err := os.Stat(o.file)
	if err != nil {
		return nil, fmt.Errorf("%w; specify the path of a manifest or of a directory, or - for standard input", err)
	}
	files := []string{o.file}
	if info.IsDir() {
		if files, err = manifestFiles(o.file, errOut); err != nil {
			return nil, err
		}
	}
	var out []manifest
	var errs []error
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			errs = append(errs, fmt.Errorf("%w; check that the file is readable", err))
			continue
		}
		out = append(out, manifest{file, bytes.NewReader(content)})
	}
	return out, errors.Join(errs...)
}

// manifestFiles returns the manifests of a directory. Like kubectl, it does not read subdirectories.
func manifestFiles(dir string, errOut io.Writer) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("%w; check that the directory is readable", err)
	}
	var files []string
	for _, e := range entries {
		file := filepath.Join(dir, e.Name())
		switch {
		case e.IsDir() || !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(file)):
		case slices.Contains(konfig.RecognizedKustomizationFileNames(), e.Name()):
			fmt.Fprintf(errOut, "%s is a kustomization; skipped, use -k %s to build it\n", file, dir)
		default:
			files = append(files, file)
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s has no .yaml, .yml or .json file; specify another directory, or a manifest", dir)
	}
	return files, nil
}

// buildKustomization builds a kustomization as kubectl apply -k does.
func buildKustomization(dir string) ([]byte, error) {
	o := krusty.MakeDefaultOptions()
	o.Reorder = krusty.ReorderOptionLegacy
	resources, err := krusty.MakeKustomizer(o).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return nil, fmt.Errorf("build %s: %w; kubectl kustomize %s shows the result of a correct kustomization", dir, err, dir)
	}
	return resources.AsYaml()
}
