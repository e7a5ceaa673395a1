package desired

import "k8s.io/apimachinery/pkg/runtime"

// peeked is a configuration that somebody has looked at and nobody has used.
type peeked struct {
	live   runtime.Object
	config *Config
}

// Peek is Render for those who only look at the configuration and do not change it. What it
// makes is kept for who renders next, so that a pass makes it once.
func (c Child) Peek(live runtime.Object) (*Config, error) {
	if c.peeked == nil {
		return c.Render(live)
	}
	if c.peeked.config == nil || c.peeked.live != live {
		config, err := c.Render(live)
		if err != nil {
			return nil, err
		}
		*c.peeked = peeked{live, config}
	}
	return c.peeked.config, nil
}

// keepPeeked lets Render return what Peek has made of the same object, once.
func (c *Child) keepPeeked() {
	last, render := &peeked{}, c.Render
	c.peeked = last
	c.Render = func(live runtime.Object) (*Config, error) {
		if config := last.config; config != nil && last.live == live {
			last.config = nil
			return config, nil
		}
		return render(live)
	}
}
