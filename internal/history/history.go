// Package history remembers specs: which revision holds which spec, which number it has,
// and which may be forgotten.
//
// Safety rule: the spec that is applied and the last one that was healthy are never
// forgotten.
package history

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	appsv1 "k8s.io/api/apps/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// maxSpecSize is more than a spec can have: etcd takes 1.5 MiB.
const maxSpecSize = 4 << 20

// Spec is a spec to remember.
type Spec struct {
	// Hash is equal for equal specs.
	Hash    string
	content []byte
}

// Encode encodes a spec.
func Encode(spec any) (Spec, error) {
	content, err := json.Marshal(spec)
	if err != nil {
		return Spec{}, fmt.Errorf("encode a spec: %w", err)
	}
	sum := sha256.Sum256(content)
	return Spec{Hash: hex.EncodeToString(sum[:])[:10], content: content}, nil
}

// data is what a revision holds.
type data struct {
	// Gzip is the spec as compressed JSON:
	//
	//	kubectl get controllerrevision NAME -o jsonpath='{.data.gzip}' | base64 -d | gunzip
	Gzip []byte `json:"gzip"`
}

// Data is what to store.
func (s Spec) Data() ([]byte, error) {
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

// Read returns the spec that a revision holds, as JSON.
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

// Plan is what to do about the revisions of an application.
type Plan struct {
	// Current is the revision of the applied spec; nil when it has to be made.
	Current *appsv1.ControllerRevision
	// Number is what the revision of the applied spec must have: the highest.
	Number int64
	// Healthy is the newest one that was seen healthy, or nil.
	Healthy *appsv1.ControllerRevision
	// Prune are those beyond the limit, oldest first.
	Prune []*appsv1.ControllerRevision
}

// defaultLimit is how many specs are remembered if nobody says another number.
const defaultLimit = 10

// NewPlan plans the revisions of an application. name is that of the applied spec's revision; a
// limit of 0 means the usual one.
func NewPlan(name string, revisions []*appsv1.ControllerRevision, limit int) Plan {
	if limit == 0 {
		limit = defaultLimit
	}
	sorted := slices.Clone(revisions)
	slices.SortFunc(sorted, func(a, b *appsv1.ControllerRevision) int {
		return cmp.Or(cmp.Compare(b.Revision, a.Revision), cmp.Compare(a.Name, b.Name))
	})
	var plan Plan
	for _, r := range sorted {
		if r.Name == name {
			plan.Current = r
		}
		if plan.Healthy == nil && IsHealthy(r) {
			plan.Healthy = r
		}
	}
	switch {
	// Two of one number come from an operator that knew only of the other one.
	case plan.Current != nil && plan.Current == sorted[0] && (len(sorted) == 1 || sorted[1].Revision < plan.Current.Revision):
		plan.Number = plan.Current.Revision
	case len(sorted) > 0:
		plan.Number = sorted[0].Revision + 1
	default:
		plan.Number = 1
	}
	retained := 1 // the applied one
	for _, r := range sorted {
		if r == plan.Current {
			continue
		}
		if retained++; retained > limit && r != plan.Healthy {
			plan.Prune = append(plan.Prune, r)
		}
	}
	slices.Reverse(plan.Prune)
	return plan
}

// Replace puts a revision as it is now in the place of what it was.
func (p *Plan) Replace(before, after *appsv1.ControllerRevision) {
	if p.Current == before {
		p.Current = after
	}
	if p.Healthy == before {
		p.Healthy = after
	}
	if i := slices.Index(p.Prune, before); i >= 0 {
		p.Prune[i] = after
	}
}

// IsHealthy says whether everything was ready with a revision.
func IsHealthy(r *appsv1.ControllerRevision) bool {
	return r.Annotations[appsapi.AnnotationRevisionHealthy] == "true"
}
