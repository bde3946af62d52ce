package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/permit"
	"github.com/superstep-dev/superstep/workflow"
)

// toolsCall calls a tool as an agent would. It is for authors of tools.
func toolsCall(a *app) *cobra.Command {
	var l leave
	cmd := &cobra.Command{
		Use: "call NAME [ARGUMENTS | key=value ...]", Short: "Call a tool as an agent would, with JSON arguments",
		Example: examples(a.cfg.Name, `tools call read_file '{"path":"README.md"}'`, "", "tools call read_file path=README.md", "", "tools call lint - < arguments.json", "",
			`tools call bash --ask bash '{"command":"go test ./..."}'`, "in the sandbox of agents; it is off without a rule"),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 || len(args) > 2 && !isPair(args[1]) {
				return usage("tools call: name a tool, and give its arguments as a JSON object or as key=value")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			raw, pairs := "{}", args[1:]
			if len(pairs) > 0 && !isPair(pairs[0]) {
				raw, pairs = pairs[0], nil
			}
			if raw == "-" {
				if a.set.NoInput {
					return usage("tools call: standard input is not read with --no-input")
				}
				b, err := io.ReadAll(io.LimitReader(a.opt.Stdin, 16<<20))
				if err != nil {
					return err
				}
				raw = string(b)
			}
			if !json.Valid([]byte(raw)) {
				return usage("tools call: the arguments are not JSON; give an object such as '{\"path\":\"README.md\"}', or path=README.md")
			}
			if _, err := l.rules(); err != nil {
				return err
			}
			a.set.leave = l
			return callTool(cmd.Context(), a, args[0], json.RawMessage(raw), pairs)
		},
	}
	l.add(cmd.Flags())
	return cmd
}

// isPair reports whether an argument of a tool is key=value and not JSON.
func isPair(word string) bool {
	key, _, ok := strings.Cut(word, "=")
	return ok && !strings.ContainsAny(key, `{["`)
}

func callTool(ctx context.Context, a *app, name string, args json.RawMessage, pairs []string) error {
	ctx, done := a.stoppable(ctx, func() {})
	defer done()
	s, err := startProject(ctx, a)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }() // nothing was written
	if t, ok := s.Tools().Get(name); ok && len(pairs) > 0 {
		args, err = (&workflow.Workflow{Name: name, Inputs: t.Input}).Parse(pairs, nil, nil)
		if wrong, ok := errors.AsType[*workflow.InputsError](err); ok {
			return usage(fmt.Sprintf("tools call %s: %s", name, strings.Join(wrong.Problems, "; ")))
		} else if err != nil {
			return err
		}
	}
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

// skillsValidate returns the validator of skills.
func skillsValidate(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "validate [FOLDER...]", Short: "Check skills against the format",
		Long: `Check skills against the format

A folder is a skill, with a file SKILL.md, or holds skills. Without one they are the folders of skills here,
such as skills and .claude/skills.`,
		Example: examples(a.cfg.Name, "skills validate", "", "skills validate skills/web-research", "", "skills validate .claude/skills -o json", ""),
		RunE: func(_ *cobra.Command, args []string) error {
			reports, err := a.here().ValidateSkills(args...)
			if err != nil {
				return err
			}
			return printReports(a, reports, "skill")
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

// printReports prints the findings of a validator. If there are errors, the exit code is 1.
func printReports(a *app, reports []host.Report, what string) error {
	n, wrong, odd := 0, 0, 0
	out := []reportJSON{}
	for _, r := range reports {
		n += r.Checked
		row := reportJSON{a.shownPath(r.Path), []finding{}, []finding{}}
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
		a.err.line(fmt.Sprintf("%s, %s, %s", inwords.Plural(n, what), inwords.Plural(wrong, "error"), inwords.Plural(odd, "warning")))
	}
	if wrong > 0 {
		return &Error{Exit: ExitFailed, Code: "invalid", Message: inwords.Plural(wrong, "error"), shown: true}
	}
	return nil
}

// permissionsCommand creates the command that lists and removes permission rules.
func permissionsCommand(a *app) *cobra.Command {
	n := a.cfg.Name
	cmd := &cobra.Command{
		Use: "permissions", Short: "List permission rules, and remove those that were always allowed",
		Long: `List permission rules, and remove those that were always allowed

Rules are lines such as bash(go test *), edit_file(docs/**), web_fetch(domain:example.com) or
mcp__github__*. What is denied beats what is asked, and that beats what is allowed. Your own are in
permissions.yaml in your folder of configurations:

  allow: ["bash(go test *)"]
  ask: [web_fetch]
  deny: ["read_file(**/.env)"]`,
		Example: examples(n, "permissions list", "", `permissions forget "bash(go test *)"`, ""),
	}
	cmd.AddCommand(&cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the rules that apply here, and where they come from", Args: none,
		Example: examples(n, "permissions list", "", "permissions list -o json", ""),
		RunE:    func(*cobra.Command, []string) error { return listRules(a) },
	}, &cobra.Command{
		Use: "forget RULE", Short: "Remove a rule that was always allowed in this project",
		Example: examples(n, `permissions forget "bash(go test *)"`, ""),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage("permissions forget: name one rule, as `permissions list` shows it")
			}
			return a.here().Forget(args[0])
		},
	})
	return listFirst(a, cmd)
}

type ruleJSON struct {
	Decision tool.Decision `json:"decision"`
	Rule     string        `json:"rule"`
	Layer    permit.Layer  `json:"layer"`
	Source   string        `json:"source,omitempty"`
	Ignored  string        `json:"ignored,omitempty"`
}

func listRules(a *app) error {
	rules, err := a.here().Rules()
	if err != nil {
		return err
	}
	list, table := make([]ruleJSON, len(rules)), make([][]string, len(rules))
	for i, r := range rules {
		list[i] = ruleJSON{r.Decision, r.String(), r.Layer, r.Source, r.Ignored}
		source := transcript.Line(r.Source)
		if r.Ignored != "" {
			source += "  (ignored: " + transcript.Line(r.Ignored) + ")"
		}
		table[i] = []string{fmt.Sprintf("%-6s", r.Decision), fmt.Sprintf("%-32s", transcript.Line(r.String())), fmt.Sprintf("%-9s", r.Layer), source}
	}
	if a.programs() {
		return rows(a.out, list)
	}
	a.out.table(table, 0, 0)
	return nil
}
