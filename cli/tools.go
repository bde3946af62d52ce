package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/permit"
)

// toolsCall calls a tool as an agent would, for those who write tools.
func (a *app) toolsCall() *cobra.Command {
	return &cobra.Command{
		Use: "call NAME [ARGUMENTS]", Short: "Call a tool as an agent would, with arguments as JSON",
		Example: examples(a.cfg.Name, `tools call read_file '{"path":"README.md"}'`, "", "tools call lint - < arguments.json", ""),
		Args:    nargs(1, 2, "tools call: name a tool, and give its arguments as a JSON object"),
		RunE: func(cmd *cobra.Command, args []string) error {
			raw := "{}"
			if len(args) == 2 {
				raw = args[1]
			}
			if raw == "-" {
				if a.set.noInput {
					return usage("tools call: standard input is not read with --no-input")
				}
				b, err := io.ReadAll(io.LimitReader(a.opt.Stdin, 16<<20))
				if err != nil {
					return err
				}
				raw = string(b)
			}
			if !json.Valid([]byte(raw)) {
				return usage("tools call: the arguments are not JSON; give an object such as '{\"path\":\"README.md\"}'")
			}
			return a.callTool(cmd.Context(), args[0], json.RawMessage(raw))
		},
	}
}

func (a *app) callTool(ctx context.Context, name string, args json.RawMessage) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	done := onSignal(func(why *signalError) { stop(why) })
	defer done()
	s, err := a.startProject(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }() // nothing was written
	res, err := s.Call(ctx, name, args)
	if ctx.Err() != nil {
		return stopped(ctx, context.Cause(ctx))
	}
	if err != nil {
		return err
	}
	if a.programs() {
		if err := a.out.value(res); err != nil {
			return err
		}
	} else if !res.Error {
		a.out.line(strings.TrimRight(transcript.Clean(res.Text), "\n"))
	}
	if res.Error {
		return &Error{Exit: ExitFailed, Code: "failed", Message: res.Text, shown: a.programs()}
	}
	return nil
}

// skillsValidate is the validator of skills.
func (a *app) skillsValidate() *cobra.Command {
	return &cobra.Command{
		Use: "validate [FOLDER...]", Short: "Check skills against the format: exit code 1 if there are errors",
		Long: `Check skills against the format: exit code 1 if there are errors

A folder is a skill, with a file SKILL.md, or holds skills. Without one they are the folders of skills here,
such as skills and .claude/skills.`,
		Example: examples(a.cfg.Name, "skills validate", "", "skills validate skills/web-research", "", "skills validate .claude/skills -o json", ""),
		RunE: func(_ *cobra.Command, args []string) error {
			reports, err := host.ValidateSkills(args...)
			if err != nil {
				return err
			}
			return a.report(reports, "skill")
		},
	}
}

type reportJSON struct {
	Path     string    `json:"path"`
	Errors   []finding `json:"errors"`
	Warnings []finding `json:"warnings"`
}

type finding struct {
	Code  string `json:"code"`
	Where string `json:"where"`
	Text  string `json:"text"`
}

// report says what a validator found. Errors end with exit code 1.
func (a *app) report(reports []host.Report, what string) error {
	n, wrong, odd := 0, 0, 0
	out := []reportJSON{}
	for _, r := range reports {
		n += r.Checked
		row := reportJSON{shownPath(r.Path), []finding{}, []finding{}}
		for _, x := range r.Problems {
			f, word := finding{x.Code, where(x.File, x), x.Text}, "error "
			if x.Warning {
				odd, word = odd+1, "warning "
				row.Warnings = append(row.Warnings, f)
			} else {
				wrong++
				row.Errors = append(row.Errors, f)
			}
			if !a.programs() {
				a.out.line(transcript.Line(f.Where + ": " + word + f.Code + ": " + f.Text))
			}
		}
		out = append(out, row)
	}
	if a.programs() {
		if err := a.out.value(out); err != nil {
			return err
		}
	} else {
		a.err.line(fmt.Sprintf("%s, %s, %s", plural(n, what), plural(wrong, "error"), plural(odd, "warning")))
	}
	if wrong > 0 {
		return &Error{Exit: ExitFailed, Code: "invalid", Message: plural(wrong, "error"), shown: true}
	}
	return nil
}

// permissionsCommand shows and takes back what agents may do.
func (a *app) permissionsCommand() *cobra.Command {
	n := a.cfg.Name
	cmd := &cobra.Command{
		Use: "permissions", Short: "Look at what agents may do here, and take back what was always allowed",
		Long: `Look at what agents may do here, and take back what was always allowed

Rules are lines such as bash(go test *), edit_file(docs/**), web_fetch(domain:example.com) or
mcp__github__*. What is denied beats what is asked, and that beats what is allowed. Your own are in
permissions.yaml in your folder of configurations:

  allow: ["bash(go test *)"]
  ask: [web_fetch]
  deny: ["read_file(**/.env)"]`,
		Example: examples(n, "permissions list", "", `permissions forget "bash(go test *)"`, ""),
	}
	cmd.AddCommand(&cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the rules that hold here, and where they come from", Args: a.none,
		Example: examples(n, "permissions list", "", "permissions list -o json", ""),
		RunE:    func(*cobra.Command, []string) error { return a.listRules() },
	}, &cobra.Command{
		Use: "forget RULE", Short: "Take back a rule that was always allowed in this project",
		Example: examples(n, `permissions forget "bash(go test *)"`, ""),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage("permissions forget: name one rule, as `permissions list` shows it")
			}
			h, err := a.here()
			if err != nil {
				return err
			}
			return h.Forget(args[0])
		},
	})
	return a.lists(cmd)
}

type ruleJSON struct {
	Decision tool.Decision `json:"decision"`
	Rule     string        `json:"rule"`
	Layer    permit.Layer  `json:"layer"`
	Source   string        `json:"source,omitempty"`
	Ignored  string        `json:"ignored,omitempty"`
}

func (a *app) listRules() error {
	h, err := a.here()
	if err != nil {
		return err
	}
	rules, err := h.Rules()
	if err != nil {
		return err
	}
	list := make([]ruleJSON, len(rules))
	for i, r := range rules {
		list[i] = ruleJSON{r.Decision, r.String(), r.Layer, r.Source, r.Ignored}
	}
	if a.programs() {
		return rows(a.out, list)
	}
	for _, r := range list {
		line := fmt.Sprintf("%-6s  %-32s  %-9s  %s", r.Decision, transcript.Line(r.Rule), r.Layer, transcript.Line(r.Source))
		if r.Ignored != "" {
			line += "  (ignored: " + transcript.Line(r.Ignored) + ")"
		}
		a.out.line(strings.TrimRight(line, " "))
	}
	return nil
}
