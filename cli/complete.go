package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/tool/permit"
)

// A completer gives the words that may come next, each perhaps with a tab and what it is.
type completer func(cmd *cobra.Command) ([]string, error)

// completion knows the words that complete commands.
type completion struct{ *app }

// complete gives commands and flags the words that complete them, besides workflows and runs.
// Nothing is started for that.
func (a completion) complete(root *cobra.Command) {
	for path, c := range map[string]completer{
		"tools call": a.toolWords, "tools show": a.toolWords, "trust": a.itemWords, "trust revoke": a.itemWords,
		"permissions forget": a.ruleWords, "models use": a.modelWords, "models test": a.modelWords,
	} {
		if cmd, rest, err := root.Find(strings.Fields(path)); err == nil && len(rest) == 0 {
			many := path == "trust" || path == "trust revoke"
			words := c.words()
			cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, s string) ([]string, cobra.ShellCompDirective) {
				if len(args) > 0 && !many {
					return nil, cobra.ShellCompDirectiveNoFileComp
				}
				return words(cmd, args, s)
			}
		}
	}
	if cmd, rest, err := root.Find([]string{"runs", "answer"}); err == nil && len(rest) == 0 {
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, s string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return a.ids(cmd, args, s)
			}
			return a.answerWords(cmd, args[0]), cobra.ShellCompDirectiveNoFileComp
		}
	}
	if cmd, rest, err := root.Find([]string{"runs", "fork"}); err == nil && len(rest) == 0 {
		_ = cmd.RegisterFlagCompletionFunc("from", func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return a.pointWords(cmd, named(args)), cobra.ShellCompDirectiveNoFileComp
		})
	}
	a.completeFlags(root)
}

// meant returns the run that a command line being completed names, nil if there is none.
func (a completion) meant(cmd *cobra.Command, ref string) *transcript.Run {
	if a.configure(cmd.Flags()) != nil {
		return nil
	}
	_, info, err := a.find(cmd.Context(), ref)
	if err != nil {
		return nil
	}
	run, err := a.read(cmd.Context(), info)
	if err != nil {
		return nil
	}
	return run
}

// answerWords are the answers to the open questions of a run.
func (a completion) answerWords(cmd *cobra.Command, ref string) []string {
	run := a.meant(cmd, ref)
	if run == nil {
		return nil
	}
	open := run.Open()
	var out []string
	for _, q := range open {
		for _, o := range q.Options {
			out = append(out, word(addressed(open, q)+"="+o, q.Question))
		}
		if len(q.Options) == 0 {
			out = append(out, word(addressed(open, q)+"=", q.Question))
		}
	}
	return out
}

// pointWords are the steps of a run that a fork may begin at.
func (a completion) pointWords(cmd *cobra.Command, ref string) []string {
	run := a.meant(cmd, ref)
	if run == nil {
		return nil
	}
	var out []string
	for _, t := range run.Tasks {
		if w := word(topNode(t.Path), string(t.State)); !slices.Contains(out, w) &&
			!slices.ContainsFunc(out, func(have string) bool { return strings.HasPrefix(have, topNode(t.Path)+"\t") }) {
			out = append(out, w)
		}
	}
	return out
}

func (a completion) completeFlags(cmd *cobra.Command) {
	agents := a.names(host.Agents, func(i *host.Item) bool { return i.State == "usable" })
	for name, c := range map[string]completer{"on-ask": onAskWords, "model": a.modelWords, "agent": agents} {
		f := cmd.Flags().Lookup(name)
		if f == nil || f.Hidden || name == "agent" && f.Annotations[inputFlag] == nil {
			continue
		}
		_ = cmd.RegisterFlagCompletionFunc(name, c.words()) // it fails if there is one already
	}
	for _, sub := range cmd.Commands() {
		a.completeFlags(sub)
	}
}

func (c completer) words() func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		words, err := c(cmd)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

// word is one with what it is in a sentence, without what a shell or a terminal would take for
// something else.
func word(name, what string) string {
	what, _, _ = strings.Cut(what, ". ")
	return transcript.Line(name) + "\t" + transcript.Line(what)
}

func onAskWords(*cobra.Command) ([]string, error) {
	return []string{
		word("wait", "pause the run until somebody answers"), word("deny", "answer no"), word("fail", "end with an error"),
	}, nil
}

func (a completion) toolWords(cmd *cobra.Command) ([]string, error) {
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

func (a completion) itemWords(cmd *cobra.Command) ([]string, error) {
	items, err := a.host().Decisions()
	var out []string
	for _, d := range items {
		if cmd.Name() != "revoke" || d.State == host.Trusted {
			out = append(out, word(d.Name, string(d.Kind)+", "+string(d.State)))
		}
	}
	return out, err
}

func (a completion) ruleWords(*cobra.Command) ([]string, error) {
	rules, err := a.host().Rules()
	var out []string
	for _, r := range rules {
		if r.Layer == permit.Granted {
			out = append(out, word(r.String(), "always allowed"))
		}
	}
	return out, err
}

func (a completion) modelWords(cmd *cobra.Command) ([]string, error) {
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
