package desired

import "k8s.io/apimachinery/pkg/runtime"

// renderMemo is a configuration that was rendered read-only and not used yet.
type renderMemo struct {
	live   runtime.Object
	config *Config
}

// RenderReadOnly is Render for callers that do not change the configuration. The next Render of the same object
// returns the same configuration, so that a reconcile renders it once.
func (c Child) RenderReadOnly(live runtime.Object) (*Config, error) {
	if c.memo == nil {
		return c.Render(live)
	}
	if c.memo.config == nil || c.memo.live != live {
		config, err := c.Render(live)
		if err != nil {
			return nil, err
		}
		*c.memo = renderMemo{live, config}
	}
	return c.memo.config, nil
}

// memoizeRender lets Render return the result of RenderReadOnly for the same object once.
func (c *Child) memoizeRender() {
	last, render := &renderMemo{}, c.Render
	c.memo = last
	c.Render = func(live runtime.Object) (*Config, error) {
		if config := last.config; config != nil && last.live == live {
			last.config = nil
			return config, nil
		}
		return render(live)
	}
}
