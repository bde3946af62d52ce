package permit_test

import (
	"testing"

	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/permit"
)

// A rule that denies every command denies those that leave the sandbox as well, whatever was granted for them.
func TestDenyOfAllCommandsBindsThoseOutside(t *testing.T) {
	t.Parallel()
	for _, deny := range []string{"bash", "*", "b*"} {
		for _, layer := range []permit.Layer{permit.User, permit.Agent, permit.Run} {
			var rules []permit.Rule
			no, err := permit.Parse(tool.Deny, deny, "")
			if err != nil {
				t.Fatal(err)
			}
			yes, err := permit.Parse(tool.Allow, "unsandboxed(make deploy)", "")
			if err != nil {
				t.Fatal(err)
			}
			p, err := permit.New(&permit.Options{Root: "/p", Rules: map[permit.Layer][]permit.Rule{layer: append(rules, no), permit.Granted: {yes}}})
			if err != nil {
				t.Fatal(err)
			}
			v := p.Check(&tool.Tool{Name: "bash"}, &tool.Call{Args: []byte(`{"command":"make deploy","unsandboxed":true}`)})
			if v.Decision != tool.Deny {
				t.Errorf("deny %s of %s: %s (%s)", deny, layer, v.Decision, v.Reason)
			}
		}
	}
}
