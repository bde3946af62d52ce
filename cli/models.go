package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/suggest"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/model"
)

func modelsCommand(a *app) *cobra.Command {
	n := a.cfg.Name
	c := &cobra.Command{
		Use: "models", Short: "List models, choose one, test one", Hidden: a.cfg.NoModels,
		Example: examples(n, "models list", "which model would be used, and why", "models use ollama/qwen3:8b", "from now on", "models test",
			"does it answer, how fast, at what cost?"),
	}
	m := a
	c.AddCommand(modelsList(m), modelsUse(m), modelsTest(m), modelsUpdate(m), modelsAllow(m))
	return listFirst(a, c)
}

// models returns the host for the commands about models. They have no --model flag, so the model
// comes from the environment or the configuration.
func (a *app) models() (*host.Host, error) {
	if a.cfg.NoModels {
		return nil, usage(a.cfg.Name + " has no models to choose from")
	}
	s := a.chosen()
	s.Model = ""
	return a.host().With(s), nil
}

func modelsList(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "list [PROVIDER]", Aliases: []string{"ls"}, Short: "List providers, what each lacks, and the model that would be used",
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
				return printProvider(a, list, args[0])
			}
			return printModels(a, list)
		},
	}
}

func printModels(a *app, list *host.ModelList) error {
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
	a.out.line(fmt.Sprintf("model %s (%s)\n", transcript.Line(list.Use.Name), transcript.Line(list.Use.Why)))
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
			if p.Local || p.Models[j].Name == p.Standard {
				a.out.line("  " + describe((*host.ModelInfo)(&p.Models[j])))
			}
		}
		if n := len(p.Models); !p.Local && n > 1 {
			a.out.line(fmt.Sprintf("  and %d more: %s", n-1, a.hint("models", "list", p.Name)))
		}
	}
	for i, x := range list.Agents {
		if i == 0 {
			a.out.line("\nagents of other programs, used only where they are named as a model of an agent")
		}
		a.out.line(fmt.Sprintf("%-15s %s: %s", transcript.Line(x.Name), transcript.Line(x.Command), transcript.Line(x.State())))
	}
	a.out.line("\n" + priced(&list.Prices))
	if list.Prices.Warning != "" {
		a.tty.Warn(list.Prices.Warning)
	}
	return nil
}

func printProvider(a *app, list *host.ModelList, name string) error {
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
			a.out.line(describe((*host.ModelInfo)(&p.Models[j])))
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

// describe returns a model on one line.
func describe(m *host.ModelInfo) string {
	line := fmt.Sprintf("%-44s %-22s", transcript.Line(m.Name), costs(m.Price))
	if m.Window > 0 {
		line += " " + inwords.Count(m.Window) + " tokens"
	}
	return strings.TrimRight(line, " ")
}

// costs formats a price for users.
func costs(p *model.Price) string {
	switch {
	case p == nil:
		return "price not known"
	case *p == model.Price{}:
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

// dollars returns an amount of millionths of a US dollar.
func dollars(micro int64) string {
	s := fmt.Sprintf("%.6f", float64(micro)/1e6)
	for strings.HasSuffix(s, "0") && len(s)-strings.IndexByte(s, '.') > 3 {
		s = s[:len(s)-1]
	}
	return "$" + s
}

func modelsUse(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "use NAME", Short: "Set the default model",
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
			_, info, lacks := m.OpenModel(args[0])
			if info == nil {
				return lacks
			}
			if err := setConfig(a, []string{"model", info.Name}); err != nil {
				return err
			}
			if lacks != nil {
				a.tty.Warn(strings.Join(append([]string{lacks.Error()}, classify(lacks).Next...), "; "))
			}
			if info.Price == nil && !a.set.Quiet {
				a.tty.Warn("the price of " + info.Name + " is not known, so what it costs is not counted")
			}
			if v := a.cfg.Env(host.Variable("model")); v != "" && v != info.Name {
				a.tty.Warn(host.Variable("model") + "=" + v + " comes before the configuration")
			}
			return a.print(map[string]string{"model": info.Name, "config": a.config().Path}, info.Name)
		},
	}
}

func modelsUpdate(a *app) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use: "update FILE", Short: "Load model prices from a file, over the built-in ones",
		Example: examples(a.cfg.Name, "models update prices.yaml", "", "models update old-prices.yaml --force", "although those that hold are newer"),
		Args:    nargs(1, 1, "models update: name one file with prices"),
		RunE: func(_ *cobra.Command, args []string) error {
			m, err := a.models()
			if err != nil {
				return err
			}
			p, err := m.UpdatePrices(args[0], force)
			if errors.As(err, new(*fs.PathError)) && errors.Is(err, fs.ErrNotExist) {
				return usage("there is no file " + a.host().Abs(args[0]))
			}
			if err != nil {
				return err
			}
			return a.print(p, fmt.Sprintf("prices of %s, of %s: %s", inwords.Plural(p.Models, "model"), p.Date, p.Path))
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "take prices that are older than those that hold")
	return cmd
}

func modelsAllow(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "allow NAME", Short: "Let runs use an agent of another program, such as opencode",
		Example: examples(a.cfg.Name, "models allow opencode", "", "models list", "the agents there are"),
		Args:    nargs(1, 1, "models allow: name one agent; `models list` shows those there are"),
		RunE: func(_ *cobra.Command, args []string) error {
			path, err := a.here().AllowAgent(args[0])
			if err != nil {
				return err
			}
			return a.print(map[string]string{"agent": args[0], "config": path}, args[0]+" is allowed: "+path)
		},
	}
}

// allowing calls do, which starts nothing before it fails. If it fails since an agent of another program is used for the first time, the user is asked.
func (a *app) allowing(ctx context.Context, do func() error) error {
	for {
		err := do()
		x := a.host().Unallowed(err)
		if x == nil || !a.tty.Asks() {
			return err
		}
		a.tty.Fresh(ctx)
		where := "It works in the sandbox, and may use the network."
		if !x.Sandboxed {
			where = "It has your rights."
		}
		if !a.tty.Confirm(ctx, fmt.Sprintf("\n%s is another program: %s. %s Let runs use it from now on?", transcript.Line(x.Name), transcript.Line(x.Command), where)) {
			return err
		}
		if _, err := a.host().AllowAgent(x.Name); err != nil {
			return err
		}
	}
}

// modelTest is the result of testing a model.
type modelTest struct {
	Model string           `json:"model"`
	OK    bool             `json:"ok"`
	Turns []host.ModelTurn `json:"turns"`
	Error *errorJSON       `json:"error,omitempty"`
}

func modelsTest(a *app) *cobra.Command {
	var limit time.Duration
	cmd := &cobra.Command{
		Use: "test [NAME]", Short: "Test a model: one short answer and one tool call",
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
			return testModel(ctx, a, opened, info)
		},
	}
	cmd.Flags().DurationVar(&limit, "within", time.Minute, "how long both turns may take together")
	return cmd
}

// testModel asks a model for a text and for a tool call, and prints the results.
func testModel(ctx context.Context, a *app, m model.Model, info *host.ModelInfo) error {
	result := &modelTest{Model: info.Name, Turns: []host.ModelTurn{}}
	if !a.programs() {
		a.out.line("model " + transcript.Line(info.Name))
	}
	err := host.TestModel(ctx, m, func(t *host.ModelTurn) {
		t.Said = shortened(t.Said)
		result.Turns = append(result.Turns, *t)
		if !a.programs() {
			a.out.line(turnLine(t, info))
		}
	})
	if err != nil {
		return failTest(ctx, a, result, err)
	}
	if result.OK = true; a.programs() {
		return a.out.value(result)
	}
	return nil
}

func shortened(s string) string {
	if len(s) > 60 {
		return strings.ToValidUTF8(s[:60], "") + "…"
	}
	return s
}

// turnLine formats a turn for users.
func turnLine(t *host.ModelTurn, info *host.ModelInfo) string {
	cost := costs(info.Price)
	if t.Cost != nil && *t.Cost > 0 {
		cost = dollars(*t.Cost)
	}
	return fmt.Sprintf("  %-5s %-6s %s in, %s out, %s  %s", t.What, inwords.Brief(t.Took), inwords.Count(t.In), inwords.Count(t.Out), cost, t.Said)
}

// failTest returns why a model did not answer.
func failTest(ctx context.Context, a *app, result *modelTest, err error) error {
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
