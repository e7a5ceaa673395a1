package wire

import (
	"time"

	"github.com/holdfast-dev/holdfast/internal/health"
	"github.com/holdfast-dev/holdfast/internal/inspect"
)

// Summary is an application in a list.
type Summary struct {
	App    Object `json:"app"`
	Ready  bool   `json:"ready"`
	Health string `json:"health"`
	// ReadOnly is set for unmanaged applications.
	ReadOnly bool       `json:"readOnly,omitempty"`
	Deleting bool       `json:"deleting,omitempty"`
	Since    *time.Time `json:"since,omitempty"`
	Created  *time.Time `json:"created,omitempty"`
	// Reason and Message are those of the condition Ready.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Components is the number of components, and ComponentsReady the number of healthy ones.
	Components      int `json:"components"`
	ComponentsReady int `json:"componentsReady"`
}

// NewSummary returns the summary for every user who can read the application. It contains no messages from
// other objects, because reading those requires more permissions.
func NewSummary(v inspect.View, created time.Time) Summary {
	s := Summary{
		App: Object{Kind: v.Kind, Namespace: v.Namespace, Name: v.Name}, Ready: v.Ready, Health: string(v.Health),
		Deleting: v.Deleting, Since: utcOrNil(v.Since), Created: utcOrNil(created), Components: len(v.Components),
	}
	if v.Kind == inspect.KindHelmRelease || v.Kind == inspect.KindGroup {
		s.ReadOnly = true
	} else {
		s.Reason, s.Message = v.Reason, v.Message
	}
	for _, c := range v.Components {
		if c.Health == health.Healthy || c.Health == health.Suspended {
			s.ComponentsReady++
		}
	}
	return s
}

func utcOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(t.UTC())
}
