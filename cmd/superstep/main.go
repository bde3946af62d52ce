// Command superstep runs workflows that survive a crash.
package main

import (
	"os"

	"github.com/superstep-dev/superstep/cli"
	"github.com/superstep-dev/superstep/project"
	"github.com/superstep-dev/superstep/runlog/stores"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/builtin"
	"github.com/superstep-dev/superstep/workflow"
	"github.com/superstep-dev/superstep/workflow/delegate"
	"github.com/superstep-dev/superstep/workflow/research"
)

func main() {
	os.Exit(cli.Main(options()))
}

func options() *cli.Options {
	return &cli.Options{
		Name:   "superstep",
		Setup:  setup,
		Models: func(s *cli.Setup) (cli.Models, error) { return newModels(s), nil },
		Project: func(s *cli.Setup) (*project.Project, error) {
			return newAgents(s).open(nil)
		},
		Recipe:    makeRecipe,
		Restore:   restoreRecipe,
		Failpoint: failpoint(),
		OpenStore: stores.Open,
	}
}

// setup makes the built-in workflows.
func setup(s *cli.Setup) ([]*workflow.Workflow, error) {
	m := newModels(s)
	web, err := searchWeb(s)
	if err != nil {
		return nil, err
	}
	r, err := research.New(&research.Options{
		Model: m.open, Note: m.note(), SearchWeb: web, CacheDir: s.CacheDir,
	})
	if err != nil {
		return nil, err
	}
	others := []*workflow.Workflow{r}
	recipes, err := s.Recipes(others, delegate.Name)
	if err != nil {
		return others, err
	}
	others = append(others, recipes...)
	w, err := newAgents(s).workflow(others)
	return append(others, w), err
}

// searchWeb is what research searches the web with, nil if it cannot be searched.
func searchWeb(s *cli.Setup) (*tool.Tool, error) {
	key := s.Env("TAVILY_API_KEY")
	if key == "" || s.Offline {
		return nil, nil
	}
	return builtin.SearchWeb(builtin.WebOptions{APIKey: key, BaseURL: s.Env("TAVILY_BASE_URL")})
}
