package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/arguments"
	"github.com/superstep-dev/superstep/internal/effort"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/internal/tui"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool/permit"
)

// A completer returns the words that may come next, each optionally followed by a tab and a
// description.
type completer func(a *app, cmd *cobra.Command) ([]string, error)

// addCompletion adds to commands and flags the words that complete them, besides workflows and runs.
// Nothing is started for that.
func addCompletion(a *app, root *cobra.Command) {
	for path, c := range map[string]completer{
		"tools call": toolWords, "tools show": toolWords, "trust": itemWords, "trust revoke": itemWords,
		"permissions forget": ruleWords, "models use": modelWords, "models test": modelWords,
	} {
		if cmd, _, err := root.Find(strings.Fields(path)); err == nil {
			cmd.ValidArgsFunction = c.words(a, strings.HasPrefix(path, "trust"))
		}
	}
	completeFlags(a, root)
}

// answerWords returns the answers to the open questions of the run that a command line being completed names.
func answerWords(a *app, cmd *cobra.Command, ref string) []string {
	if a.configure(cmd.Flags()) != nil {
		return nil
	}
	_, info, err := findRun(cmd.Context(), a, ref)
	if err != nil {
		return nil
	}
	run, _ := a.host().Transcript(cmd.Context(), &info) // as far as it can be read
	var out []string
	for _, q := range tui.Questions(run.Open()) {
		for _, o := range q.Options {
			out = append(out, word(q.Address+"="+o, q.Question.Question))
		}
		if len(q.Options) == 0 {
			out = append(out, word(q.Address+"=", q.Question.Question))
		}
	}
	return out
}

// pointWords completes a flag with the steps of a run, each after a sign.
func (a *app) pointWords(cmd *cobra.Command, flag, sign string) {
	a.completeRun(cmd, flag, func(ctx context.Context, _ *superstep.Engine, info runlog.Info) (out []string, err error) {
		run, err := a.host().Transcript(ctx, &info)
		seen := map[string]bool{}
		for _, t := range run.Tasks {
			if top := transcript.Top(t.Path); !seen[top] {
				seen[top] = true
				out = append(out, word(sign+top, string(t.State)))
			}
		}
		return out, err
	})
}

func completeFlags(a *app, cmd *cobra.Command) {
	agents := itemNames(host.Agents, func(i *host.Item) bool { return i.State == "usable" })
	for name, c := range map[string]completer{"on-ask": onAskWords, "model": modelWords, "agent": agents} {
		f := cmd.Flags().Lookup(name)
		if f == nil || f.Hidden || name == "agent" && !arguments.IsInput(f) {
			continue
		}
		_ = cmd.RegisterFlagCompletionFunc(name, c.words(a, true)) // it fails if there is one already
	}
	for _, sub := range cmd.Commands() {
		completeFlags(a, sub)
	}
}

// words completes the first argument, or all of them.
func (c completer) words(a *app, all bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 && !all {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		words, err := c(a, cmd)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return strained(words, typed), cobra.ShellCompDirectiveNoFileComp
	}
}

// strained returns the words, or if one of them and a # are typed, the word with each effort: it is the name of a model.
func strained(words []string, typed string) []string {
	base, _ := effort.Split(typed)
	if base == typed || !slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(w, base+"\t") }) {
		return words
	}
	var out []string
	for _, w := range effort.Words() {
		if name := effort.With(base, w); name != base {
			out = append(out, word(name, w+" effort"))
		}
	}
	return out
}

// word returns a completion with a one-sentence description, without characters that a shell or a
// terminal would interpret.
func word(name, what string) string {
	what, _, _ = strings.Cut(what, ". ")
	return transcript.Line(name) + "\t" + transcript.Line(what)
}

func onAskWords(*app, *cobra.Command) ([]string, error) {
	return []string{
		word("wait", "pause the run until somebody answers"), word("ask", "wait even where there is a default"), word("deny", "answer no"),
		word("fail", "end with an error"),
	}, nil
}

func toolWords(a *app, cmd *cobra.Command) ([]string, error) {
	items, _, err := a.host().List(cmd.Context(), host.Tools, false)
	agents := []string{"task", "task_batch", "ask_user", "run_workflow", "collect_workflow", "save_workflow"} // which only they have
	var out []string
	for _, e := range items {
		switch {
		case e.State != "usable" || slices.Contains(agents, e.Name) && cmd.Name() == "call":
		case len(e.Tools) > 0:
			for _, name := range e.Tools {
				out = append(out, word(name, e.Description))
			}
		case !strings.HasSuffix(e.Name, "*"):
			out = append(out, word(e.Name, e.Description))
		}
	}
	return out, err
}

func itemWords(a *app, cmd *cobra.Command) ([]string, error) {
	items, err := a.host().Decisions()
	var out []string
	for _, d := range items {
		if cmd.Name() != "revoke" || d.State == host.Trusted {
			out = append(out, word(d.Name, d.Kind+", "+d.State))
		}
	}
	return out, err
}

func ruleWords(a *app, _ *cobra.Command) ([]string, error) {
	rules, err := a.host().Rules()
	var out []string
	for _, r := range rules {
		if r.Layer == permit.Granted {
			out = append(out, word(r.String(), "always allowed"))
		}
	}
	return out, err
}

func modelWords(a *app, cmd *cobra.Command) ([]string, error) {
	m, err := a.models()
	if err != nil {
		return nil, err
	}
	list, err := m.ListModels(cmd.Context())
	if err != nil {
		return nil, err
	}
	out := []string{word("offline", "built in")}
	for i := range list.Providers {
		p := &list.Providers[i]
		for j := range p.Models {
			if p.Configured && p.Models[j].Name != "offline" {
				out = append(out, word(p.Models[j].Name, costs(p.Models[j].Price)))
			}
		}
	}
	return out, nil
}
