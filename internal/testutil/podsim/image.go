package podsim

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// image is a full image reference as containerd resolves it: "nginx" is "docker.io/library/nginx:latest".
type image struct {
	host, path string
	tag        string // empty if there is a digest
	digest     string
}

func parseImage(name string) image {
	name, digest, _ := strings.Cut(name, "@")
	host, path, ok := strings.Cut(name, "/")
	if !ok || !strings.ContainsAny(host, ".:") && host != "localhost" {
		host, path = "docker.io", name
	}
	i := image{host: host, path: path, digest: digest}
	if p, tag, ok := strings.Cut(path, ":"); ok {
		i.path, i.tag = p, tag
	}
	if i.host == "docker.io" && !strings.Contains(i.path, "/") {
		i.path = "library/" + i.path
	}
	if i.tag == "" && i.digest == "" {
		i.tag = "latest"
	}
	return i
}

func (i image) String() string {
	if i.digest != "" {
		return i.host + "/" + i.path + "@" + i.digest
	}
	return i.host + "/" + i.path + ":" + i.tag
}

// id returns the reference by digest of a pulled image.
func (i image) id() string {
	digest := i.digest
	if digest == "" {
		digest = "sha256:" + hash(i.String())
	}
	return i.host + "/" + i.path + "@" + digest
}

// expand replaces the placeholders for parts of the reference in a text.
func (i image) expand(text string) string {
	host, tag := i.host, i.tag
	if host == "docker.io" {
		host = "registry-1.docker.io" // the registry host of docker.io
	}
	if i.digest != "" {
		tag = i.digest
	}
	return strings.NewReplacer("{ref}", i.String(), "{host}", host, "{path}", i.path, "{tag}", tag).Replace(text)
}

// hash returns a deterministic identifier that looks random.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
