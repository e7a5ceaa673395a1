package controlplane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// AssetsEnv is the environment variable with the directory of the binaries, the same as that of envtest and
// setup-envtest.
const AssetsEnv = "KUBEBUILDER_ASSETS"

// Assets returns the directory of the binaries: KUBEBUILDER_ASSETS or bin/k8s of the repository.
func Assets() (string, error) {
	if dir := os.Getenv(AssetsEnv); dir != "" {
		return dir, nil
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		assets := filepath.Join(dir, "bin", "k8s")
		if _, err := os.Stat(filepath.Join(assets, "kube-apiserver")); err == nil {
			return assets, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no kube-apiserver found: run `make assets` once, or set " + AssetsEnv)
		}
		dir = parent
	}
}

func binaryPath(assets, name string) (string, error) {
	path := filepath.Join(assets, name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("find %s (`make assets` builds it): %w", name, err)
	}
	return path, nil
}
