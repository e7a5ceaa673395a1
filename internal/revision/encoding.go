package revision

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	appsv1 "k8s.io/api/apps/v1"
)

// maxSpecSize is more than a spec can have: etcd accepts 1.5 MiB.
const maxSpecSize = 4 << 20

// Encoded is a spec as a revision stores it.
type Encoded struct {
	// Hash is equal for equal specs.
	Hash    string
	content []byte
}

// Encode encodes a spec.
func Encode(spec any) (Encoded, error) {
	content, err := json.Marshal(spec)
	if err != nil {
		return Encoded{}, fmt.Errorf("encode a spec: %w", err)
	}
	sum := sha256.Sum256(content)
	return Encoded{Hash: hex.EncodeToString(sum[:])[:10], content: content}, nil
}

// data is the data of a ControllerRevision.
type data struct {
	// Gzip is the spec as compressed JSON:
	//
	//	kubectl get controllerrevision NAME -o jsonpath='{.data.gzip}' | base64 -d | gunzip
	Gzip []byte `json:"gzip"`
}

// Data returns the data to store.
func (s Encoded) Data() ([]byte, error) {
	var buffer bytes.Buffer
	w, err := gzip.NewWriterLevel(&buffer, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	_, err = w.Write(s.content)
	if err = errors.Join(err, w.Close()); err != nil {
		return nil, fmt.Errorf("compress a spec: %w", err)
	}
	return json.Marshal(data{Gzip: buffer.Bytes()})
}

// Read returns the stored spec of a revision as JSON.
func Read(r *appsv1.ControllerRevision) ([]byte, error) {
	var d data
	if err := json.Unmarshal(r.Data.Raw, &d); err != nil {
		return nil, fmt.Errorf("read ControllerRevision %s/%s: %w", r.Namespace, r.Name, err)
	}
	zipped, err := gzip.NewReader(bytes.NewReader(d.Gzip))
	if err != nil {
		return nil, fmt.Errorf("read ControllerRevision %s/%s: %w", r.Namespace, r.Name, err)
	}
	content, err := io.ReadAll(io.LimitReader(zipped, maxSpecSize))
	if err != nil {
		return nil, fmt.Errorf("read ControllerRevision %s/%s: %w", r.Namespace, r.Name, err)
	}
	return content, nil
}
