package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/suggest"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/model"
)

// modelCommands are the commands that list, choose and try models.
type modelCommands struct{ *app }

func (a *app) modelsCommand() *cobra.Command {
	n := a.cfg.Name
	c := &cobra.Command{
		Use: "models", Short: "Look at the models there are, and choose one", Hidden: a.cfg.NoModels,
		Example: examples(n, "models list", "which model would be used, and why", "models use ollama/qwen3:8b", "from now on", "models test",
			"does it answer, how fast, at what cost?"),
	}
	m := modelCommands{a}
	c.AddCommand(m.listCommand(), m.useCommand(), m.testCommand(), m.updateCommand())
	return a.lists(c)
}

// models is the host as the commands about models see it, which have no --model: the rest is in the environment and the
// configuration.
func (a *app) models() (*host.Host, error) {
	if a.cfg.NoModels {
		return nil, usage(a.cfg.Name + " has no models to choose from")
	}
	s := a.chosen()
	s.Model = ""
	return a.host().With(s), nil
}

func (a modelCommands) listCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list [PROVIDER]", Aliases: []string{"ls"}, Short: "Show the providers, what they lack, and which model would be used",
		Example: examples(a.cfg.Name, "models list", "", "models list openai", "all of its models that are known, with prices", "models list -o json", ""),
		Args:    nargs(0, 1, "models list: name one provider, or none"),
		RunE: func(cmd *cobra.Command, args []string) error {
			m, err := a.models()
			if err != nil {
				return err
			}
			list, err := m.ListModels(cmd.Context())
			if err != nil {
				return err
			}
			if len(args) == 1 {
				return a.showProvider(list, args[0])
			}
			return a.showAll(list)
		},
	}
}

func (a modelCommands) showAll(list *host.ModelList) error {
	switch {
	case a.set.output == "json":
		return a.out.json(list, true)
	case a.programs():
		for i := range list.Providers {
			if err := a.out.json(&list.Providers[i], false); err != nil {
				return err
			}
		}
		return nil
	}
	a.out.line(fmt.Sprintf("model %s (%s)\n", transcript.Line(list.Use.Model), transcript.Line(list.Use.Why)))
	for i := range list.Providers {
		p := &list.Providers[i]
		line := fmt.Sprintf("%-11s no   %s", p.Name, transcript.Line(p.Missing))
		if p.Configured {
			line = fmt.Sprintf("%-11s yes  %s", p.Name, transcript.Line(p.By))
		}
		a.out.line(strings.TrimRight(line, " "))
		if !p.Configured {
			continue
		}
		for j := range p.Models {
			if p.Local || p.Models[j].Name == p.Default {
				a.out.line("  " + describe(&p.Models[j]))
			}
		}
		if n := len(p.Models); !p.Local && n > 1 {
			a.out.line(fmt.Sprintf("  and %d more: %s", n-1, a.hint("models", "list", p.Name)))
		}
	}
	a.out.line("\n" + priced(&list.Prices))
	if list.Prices.Warning != "" {
		a.warn(list.Prices.Warning)
	}
	return nil
}

func (a modelCommands) showProvider(list *host.ModelList, name string) error {
	var names []string
	for i := range list.Providers {
		p := &list.Providers[i]
		if names = append(names, p.Name); p.Name != name {
			continue
		}
		if a.programs() {
			return a.out.value(p)
		}
		for j := range p.Models {
			a.out.line(describe(&p.Models[j]))
		}
		if len(p.Models) == 0 {
			a.err.line("no model of " + p.Name + " is known; name one as " + p.Name + "/NAME")
		}
		if p.Missing != "" {
			a.err.line(p.Name + ": " + p.Missing)
		}
		return nil
	}
	return usage(fmt.Sprintf("there is no provider %q%s", name, suggest.Hint(name, names)))
}

// describe is a model on one line.
func describe(m *host.ModelInfo) string {
	line := fmt.Sprintf("%-44s %-22s", transcript.Line(m.Name), costs(m.Price))
	if m.Window > 0 {
		line += " " + count(m.Window) + " tokens"
	}
	return strings.TrimRight(line, " ")
}

// costs is a price as people read it.
func costs(p *host.ModelPrice) string {
	switch {
	case p == nil:
		return "price not known"
	case *p == host.ModelPrice{}:
		return "free"
	}
	return fmt.Sprintf("$%g in, $%g out", p.In, p.Out)
}

func priced(p *host.ModelPrices) string {
	from := "built in"
	if p.Path != "" {
		from = p.Path
	}
	return fmt.Sprintf("prices for a million tokens, of %s (%s); check them with the provider", p.Date, from)
}

// dollars is an amount of millionths of a US dollar.
func dollars(micro int64) string {
	s := fmt.Sprintf("%.6f", float64(micro)/1e6)
	for strings.HasSuffix(s, "0") && len(s)-strings.IndexByte(s, '.') > 3 {
		s = s[:len(s)-1]
	}
	return "$" + s
}

func (a modelCommands) useCommand() *cobra.Command {
	return &cobra.Command{
		Use: "use NAME", Short: "Use a model from now on, where nothing else names one",
		Example: examples(a.cfg.Name, "models use openai/gpt-5.4-mini", "", "models use ollama/qwen3:8b", "", "models use offline",
			"the one that is built in", "config unset model", "choose anew for every run"),
		Args: cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || strings.TrimSpace(args[0]) == "" {
				return usage("models use: name one model; `" + a.hint("models", "list") + "` shows those there are")
			}
			m, err := a.models()
			if err != nil {
				return err
			}
			name := args[0]
			if file, ok := strings.CutPrefix(name, "cassette:"); ok && file != "" {
				name = "cassette:" + absolute(file) // it is meant in every folder
			}
			_, info, lacks := m.OpenModel(name)
			if info == nil {
				return lacks
			}
			if err := a.setConfig([]string{"model", info.Name}); err != nil {
				return err
			}
			if lacks != nil {
				a.warn(strings.Join(append([]string{lacks.Error()}, classify(lacks).Next...), "; "))
			}
			if info.Price == nil && !a.set.quiet {
				a.warn("the price of " + info.Name + " is not known, so what it costs is not counted")
			}
			if v := a.cfg.Env(host.Variable("model")); v != "" && v != info.Name {
				a.warn(host.Variable("model") + "=" + v + " comes before the configuration")
			}
			if a.programs() {
				return a.out.value(map[string]string{"model": info.Name, "config": a.config().Path})
			}
			a.out.line(info.Name)
			return nil
		},
	}
}

func (a modelCommands) updateCommand() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use: "update FILE", Short: "Take prices from a file, over those that are built in",
		Example: examples(a.cfg.Name, "models update prices.yaml", "", "models update old-prices.yaml --force", "although those that hold are newer"),
		Args:    nargs(1, 1, "models update: name one file with prices"),
		RunE: func(_ *cobra.Command, args []string) error {
			m, err := a.models()
			if err != nil {
				return err
			}
			p, err := m.UpdatePrices(args[0], force)
			if errors.As(err, new(*fs.PathError)) && errors.Is(err, fs.ErrNotExist) {
				return usage("there is no file " + filepath.Clean(absolute(args[0])))
			}
			if err != nil {
				return err
			}
			if a.programs() {
				return a.out.value(p)
			}
			a.out.line(fmt.Sprintf("prices of %s, of %s: %s", plural(p.Models, "model"), p.Date, p.Path))
			return nil
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "take prices that are older than those that hold")
	acts(cmd, "force")
	return cmd
}

// modelTest is how a model did.
type modelTest struct {
	Model string      `json:"model"`
	OK    bool        `json:"ok"`
	Turns []modelTurn `json:"turns"`
	Error *errorJSON  `json:"error,omitempty"`
}

type modelTurn struct {
	What    string `json:"what"` // text or tool
	MS      int64  `json:"ms"`
	FirstMS int64  `json:"first_ms"` // until the first part of the answer
	In      int    `json:"tokens_in"`
	Out     int    `json:"tokens_out"`
	Cost    *int64 `json:"cost_micros,omitempty"` // in millionths of a US dollar, nil if the price is not known
	Said    string `json:"said,omitempty"`

	took time.Duration
}

// testOutput is the most tokens that a turn of a test may have: enough for a model to think a little.
const testOutput = 2048

func (a modelCommands) testCommand() *cobra.Command {
	var limit time.Duration
	cmd := &cobra.Command{
		Use: "test [NAME]", Short: "Ask a model for one short answer and one call of a tool",
		Example: examples(a.cfg.Name, "models test", "the one that would be used", "models test openai/gpt-5.4-mini", "", "models test -o json", ""),
		Args:    nargs(0, 1, "models test: name one model, or none for the one that would be used"),
		RunE: func(cmd *cobra.Command, args []string) error {
			m, err := a.models()
			if err != nil {
				return err
			}
			opened, info, err := m.OpenModel(strings.Join(args, ""))
			if err != nil {
				return err
			}
			ctx, stop := context.WithTimeout(cmd.Context(), limit)
			defer stop()
			return a.try(ctx, opened, info)
		},
	}
	cmd.Flags().DurationVar(&limit, "within", time.Minute, "how long both turns may take together")
	acts(cmd, "within")
	return cmd
}

// try asks for a text and for a call, and says how that went.
func (a modelCommands) try(ctx context.Context, m model.Model, info *host.ModelInfo) error {
	result := &modelTest{Model: info.Name, Turns: []modelTurn{}}
	text := &model.Request{
		System:   "You are tested. Answer as briefly as you can.",
		Messages: []model.Message{model.UserText("Repeat the text between the tags, and nothing else.\n<text>ready now</text>")}, MaxTokens: testOutput,
	}
	tool := &model.Request{
		System: text.System, Messages: []model.Message{model.UserText("Call the tool search.\nQuery: ready")}, MaxTokens: testOutput,
		Tools: []model.ToolSpec{{
			Name: "search", Description: "Searches documents for words.",
			Input: &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{"query": {Type: "string", Description: "the words"}},
				Required: []string{"query"}},
		}},
	}
	if !a.programs() {
		a.out.line("model " + transcript.Line(info.Name))
	}
	for _, t := range []struct {
		what string
		req  *model.Request
	}{{"text", text}, {"tool", tool}} {
		turn, err := ask(ctx, m, t.what, t.req)
		if err != nil {
			return a.failTest(ctx, result, err)
		}
		result.Turns = append(result.Turns, *turn)
		if !a.programs() {
			a.out.line(turn.line(info))
		}
	}
	result.OK = true
	if a.programs() {
		return a.out.value(result)
	}
	return nil
}

// ask asks for one turn.
func ask(ctx context.Context, m model.Model, what string, req *model.Request) (*modelTurn, error) {
	turn := &modelTurn{What: what}
	start := time.Now()
	r, err := model.Collect(m.Generate(ctx, req), func(model.Part) {
		if turn.FirstMS == 0 {
			turn.FirstMS = max(1, time.Since(start).Milliseconds())
		}
	})
	if err != nil {
		return nil, err
	}
	turn.took = time.Since(start)
	turn.MS, turn.In, turn.Out = max(1, turn.took.Milliseconds()), r.Usage.In, r.Usage.Out
	if p, ok := m.(model.Priced); ok {
		if price, known := p.Price(); known {
			cost := price.Of(r.Usage)
			turn.Cost = &cost
		}
	}
	turn.Said = shortened(transcript.Line(r.Message.Text()))
	if what == "tool" {
		calls := r.Message.Calls()
		if len(calls) == 0 {
			return nil, &Error{
				Exit: ExitFailed, Code: "no_tools", Message: m.Name() + " answers, but calls no tools; workflows with tools need a model that does",
			}
		}
		var args bytes.Buffer
		if json.Compact(&args, calls[0].Args) != nil {
			args.Write(calls[0].Args)
		}
		turn.Said = shortened(transcript.Line(calls[0].Name + args.String()))
	}
	return turn, nil
}

func shortened(s string) string {
	if len(s) > 60 {
		return strings.ToValidUTF8(s[:60], "") + "…"
	}
	return s
}

// line is a turn for people.
func (t *modelTurn) line(info *host.ModelInfo) string {
	cost := costs(info.Price)
	if t.Cost != nil && *t.Cost > 0 {
		cost = dollars(*t.Cost)
	}
	return fmt.Sprintf("  %-5s %-6s %s in, %s out, %s  %s", t.What, brief(t.took), count(t.In), count(t.Out), cost, t.Said)
}

// failTest says why a model did not answer.
func (a modelCommands) failTest(ctx context.Context, result *modelTest, err error) error {
	if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		err = &Error{Exit: ExitFailed, Code: "timeout", Message: result.Model + " was not done in time; give it longer with --within, or try a smaller model",
			Err: err}
	}
	e := *classify(err)
	if len(e.Next) == 0 {
		e.Next = []string{"see what there is: " + a.hint("models", "list")}
	}
	if a.set.output == "json" || a.set.output == "jsonl" {
		result.Error = e.json()
		if err := a.out.value(result); err != nil {
			return err
		}
		_ = a.err.json(struct { // cannot fail: it is made of strings
			Error *errorJSON `json:"error"`
		}{e.json()}, false)
		e.shown = true
	}
	return &e
}
