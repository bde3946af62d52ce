package cli

import (
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/arguments"
	"github.com/superstep-dev/superstep/internal/detach"
	"github.com/superstep-dev/superstep/workflow"
)

// explainLacking adds to the error about a missing or unsuitable model the remedies that work for
// the workflow.
func explainLacking(a *app, w *workflow.Workflow, err error) error {
	if err == nil {
		return nil
	}
	none := classify(err)
	if none.Code != "no_model" {
		return err
	}
	out := *none
	if out.Next = slices.Clone(none.Next); len(out.Next) == 0 {
		out.Next = modelWays(a)
	}
	needs := len(a.host().Judgements(w)) > 0
	if !needs && !a.host().IsRecipe(w.Name) {
		return &out // a part of the program knows by itself
	}
	out.Next = slices.DeleteFunc(out.Next, func(s string) bool { return strings.Contains(s, "--model "+host.Offline) })
	switch {
	case !needs && slices.ContainsFunc(a.opt.Args, func(arg string) bool { return strings.HasPrefix(arg, "--"+detach.Hidden) }): // which nobody typed
		out.Next = append(out.Next, "or try it: "+a.hint("run", w.Name, "--model", host.Offline))
	case !needs:
		out.Next = append(out.Next, "or try it now: "+a.program()+" "+arguments.Retype(a.opt.Args, "--model", host.Offline))
	case hasResearch(a):
		out.Next = append(out.Next, "without one there is: "+a.hint("run", "research", "QUESTION", "--docs", "DIR"))
	}
	return &out
}

// modelWays returns the ways to have a language model.
func modelWays(a *app) []string {
	if a.set.offline {
		return []string{"start Ollama, LM Studio or llama.cpp on this machine", "without --offline: set OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY"}
	}
	return []string{
		"set OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY",
		"start Ollama, LM Studio or llama.cpp on this machine",
		"see what there is: " + a.hint("models", "list"),
	}
}

func hasResearch(a *app) bool {
	_, err := a.host().Workflows().Find("research")
	return err == nil
}
