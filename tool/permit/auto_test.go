package permit_test

import (
	"testing"

	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/permit"
)

// That commands which stay in the sandbox are not asked about holds only where there is one.
func TestAutoNeedsASandbox(t *testing.T) {
	t.Parallel()
	for c, want := range map[permit.Confinement]tool.Decision{permit.Confined: tool.Allow, permit.Unconfined: tool.Ask, permit.Exempt: tool.Ask} {
		p, err := permit.New(&permit.Options{Root: "/p"})
		if err != nil {
			t.Fatal(err)
		}
		v := p.Bounded(c, true).Check(&tool.Tool{Name: "bash"}, &tool.Call{Args: []byte(`{"command":"id > f"}`)})
		if v.Decision != want {
			t.Errorf("confinement %d: %s (%s), want %s", c, v.Decision, v.Reason, want)
		}
	}
}
