// Command superstep runs workflows that survive a crash.
package main

import (
	"os"

	"github.com/superstep-dev/superstep/cli"
	"github.com/superstep-dev/superstep/runlog/stores"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/builtin"
	"github.com/superstep-dev/superstep/workflow"
	"github.com/superstep-dev/superstep/workflow/research"
)

func main() {
	os.Exit(cli.Main(options()))
}

func options() *cli.Options {
	return &cli.Options{
		Name:      "superstep",
		Setup:     setup,
		Failpoint: failpoint(),
		OpenStore: stores.Open,
	}
}

// setup makes the built-in workflows.
func setup(s *cli.Setup) ([]*workflow.Workflow, error) {
	m := &models{env: s.Env, offline: s.Offline}
	var web *tool.Tool
	if key := s.Env("TAVILY_API_KEY"); key != "" && !s.Offline {
		var err error
		if web, err = builtin.SearchWeb(builtin.WebOptions{APIKey: key, BaseURL: s.Env("TAVILY_BASE_URL")}); err != nil {
			return nil, err
		}
	}
	w, err := research.New(&research.Options{
		Model: m.open, Note: m.note(s.Model), SearchWeb: web, CacheDir: s.CacheDir,
	})
	if err != nil {
		return nil, err
	}
	return []*workflow.Workflow{w}, nil
}
