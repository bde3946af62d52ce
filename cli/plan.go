package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/workflow"
)

// planRun prints what a run would do. If a model was named, all agents use it.
func planRun(a *app, w *workflow.Workflow, inputs json.RawMessage, r *running, model string) error {
	p, err := a.host().Plan(w, &host.PlanOptions{Inputs: inputs, Model: model, Budget: r.budget(), Agents: r.agents})
	if err != nil {
		return err
	}
	if a.programs() {
		return a.out.value(p)
	}
	printPlan(a, p)
	return nil
}

func printPlan(a *app, p *host.Plan) {
	head := transcript.Line(p.Workflow)
	if p.File != "" {
		head += "  " + transcript.Line(p.File)
	}
	a.out.line(head + "\n")
	printSteps(a, p.Steps)
	a.out.line("")
	line := func(label, text string) {
		if text != "" {
			a.out.line(inwords.Wrap(fmt.Sprintf("%-10s %s", label, transcript.Line(text)), a.tty.Width()))
		}
	}
	var agents []string
	for _, x := range p.Agents {
		agents = append(agents, x.Name+" ("+cmp.Or(x.Model, "no model is configured")+")")
	}
	line("agents", strings.Join(agents, ", "))
	for i := range p.Judgements {
		line("needs", "a language model: "+p.Judgements[i].String())
	}
	line("tools", strings.Join(p.Tools, ", "))
	for i := range p.Needs {
		line("asks", p.Needs[i].String())
	}
	line("workflows", strings.Join(p.Workflows, ", "))
	if p.Width > 0 {
		text := fmt.Sprintf("up to %s at once", inwords.Plural(p.Width, "step"))
		if p.Beside < p.Width && (p.AtMost == nil || *p.AtMost > int64(p.Beside)) {
			text += fmt.Sprintf(", at most %d of them agents (max_concurrency, --parallel-agents)", p.Beside)
		}
		line("width", text)
	}
	if p.Budget != nil {
		line("budget", budgetText(p.Budget))
	}
	if p.AtMost != nil {
		text := inwords.Plural(int(*p.AtMost), "agent") + ", and those that they begin themselves"
		if p.Why != "" {
			text = inwords.Plural(int(*p.AtMost), "agent") + ": " + p.Why
		}
		line("at most", text)
	} else {
		line("at most", "not known how many agents: "+p.Why)
	}
	if p.Cost != nil {
		line("cost", fmt.Sprintf("at most $%.2f: %s", *p.Cost, p.CostWhy))
	} else {
		line("cost", p.CostWhy)
	}
	a.err.line("nothing ran, and no model was asked")
}

func budgetText(b *host.PlanBudget) string {
	var out []string
	add := func(n int64, what string) {
		if n > 0 {
			out = append(out, inwords.Plural(int(n), what))
		}
	}
	if b.Cost > 0 {
		out = append(out, fmt.Sprintf("$%.2f", b.Cost))
	}
	add(b.Tokens, "token")
	add(b.Turns, "turn")
	add(b.Calls, "call")
	add(b.Agents, "agent")
	if d, err := time.ParseDuration(b.Time); err == nil && d > 0 {
		out = append(out, inwords.Duration(d))
	}
	return strings.Join(out, ", ")
}
