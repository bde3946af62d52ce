package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/cli"
	"github.com/superstep-dev/superstep/project"
)

// A step of a recipe may use the offline model, and is told of it if there is no other.
func TestRecipeModel(t *testing.T) {
	for _, c := range []struct{ workflow, want string }{
		{"hello", "or try it now: superstep run hello --model offline"},
		{"", "or try it now: superstep run NAME --model offline"},
	} {
		dir := t.TempDir()
		a := newAgents(&cli.Setup{Workflow: c.workflow, ConfigDir: dir, Offline: true, Env: func(string) string { return "" }, Project: &project.Options{Dir: dir, Home: dir}})
		if m, err := a.anyModel("offline"); err != nil || m.Name() != "offline" {
			t.Errorf("%v, %v", m, err)
		}
		_, err := a.anyModel("")
		var none *cli.Error
		if !errors.As(err, &none) || none.Exit != cli.ExitNoModel || none.Message != "no model is configured" || len(none.Next) != 4 || none.Next[3] != c.want {
			t.Errorf("%v %+v", err, none)
		}
		_, err = a.model("")
		if !errors.As(err, &none) || none.Exit != cli.ExitNoModel || !strings.Contains(none.Message, "an agent needs one") || strings.Contains(strings.Join(none.Next, "\n"), "--model offline") {
			t.Errorf("%v %+v", err, none)
		}
		if _, err := a.model("offline"); err == nil {
			t.Error("an agent that people talk to has the offline model")
		}
	}
}
