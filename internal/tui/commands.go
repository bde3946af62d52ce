package tui

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/arguments"
	"github.com/superstep-dev/superstep/internal/effort"
	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/suggest"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/workflow"
)

// A command is what can be typed after a slash, beside the names of workflows, agents and skills.
type command struct {
	name, args, about string
	aliases           []string
	do                func(t *Terminal, args string) tea.Cmd
}

// printing returns a command that shows what a command line of this program prints.
func printing(title string, args ...string) func(t *Terminal, _ string) tea.Cmd {
	return func(t *Terminal, _ string) tea.Cmd { return t.showOutput(title, args...) }
}

// commands lists the commands, the most used first.
func commands() []command {
	return []command{
		{"help", "", "the keys and the commands", []string{"?", "keys", "commands"},
			func(t *Terminal, _ string) tea.Cmd { t.push(newHelpPane(t)); return nil }},
		{"new", "", "begin a new chat; this one stays in /runs", []string{"clear", "reset"}, func(t *Terminal, _ string) tea.Cmd { t.goHome(); return nil }},
		{"runs", "", "all runs and chats", []string{"sessions", "chats"}, func(t *Terminal, _ string) tea.Cmd { return t.showRuns() }},
		{"inbox", "", "everything that waits for you, in all runs", nil, func(t *Terminal, _ string) tea.Cmd { t.push(newInboxPane(t)); return nil }},
		{"resume", "[RUN]", "resume a run, or show it if it has ended", []string{"continue", "open"}, (*Terminal).resumeCommand},
		{"fork", "[N|STEP]", "a new run from an earlier checkpoint: before a chat's last N messages, before a step", []string{"rewind", "undo"}, (*Terminal).forkCommand},
		{"model", "[NAME]", "choose the model of the next chat or run", []string{"models"}, (*Terminal).modelCommand},
		{"effort", "[" + strings.Join(effort.Words(), "|") + "|default]", "how much the model of the next chat or run puts into its answers", nil, (*Terminal).effortCommand},
		{"cost", "", "tokens and cost, agent by agent", []string{"usage", "tokens", "context"}, (*Terminal).costCommand},
		{"budget", "AMOUNT", "change what this run may use: 2.50, tokens=200000, time=1h", nil, (*Terminal).budgetCommand},
		{"compact", "", "sum up this conversation before the next answer", []string{"summarize"}, (*Terminal).compactCommand},
		{"graph", "[RUN]", "the graph of the run", nil, func(t *Terminal, args string) tea.Cmd { return t.visit(args, t.showGraph) }},
		{"history", "[RUN]", "go back in time", []string{"timeline"}, func(t *Terminal, args string) tea.Cmd { return t.visit(args, t.showHistory) }},
		{"tasks", "", "show or hide the task list", []string{"todos"}, func(t *Terminal, _ string) tea.Cmd {
			if t.view != nil {
				t.view.todos = !t.view.todos
			}
			return nil
		}},
		{"stop", "", "stop this run at its next checkpoint", []string{"pause"}, func(t *Terminal, _ string) tea.Cmd { return t.pause() }},
		{"schedules", "[pause|resume|rm NAME]", "what is run at fixed times", []string{"schedule"}, (*Terminal).schedulesCommand},
		{"workflows", "", "what can be run", nil, printing("workflows", "workflows", "list")},
		{"agents", "", "who can be spoken to", nil, printing("agents", "agents", "list")},
		{"skills", "", "what agents can learn", nil, printing("skills", "skills", "list")},
		{"prompts", "", "the prompts of MCP servers, to be sent with /mcp__SERVER__PROMPT", nil, (*Terminal).promptsCommand},
		{"permissions", "[forget RULE]", "the rules, and which to forget", []string{"rules"}, (*Terminal).permissionsCommand},
		{"export", "[FILE]", "write this run into a file", nil, (*Terminal).exportCommand},
		{"doctor", "", "check what is set up", nil, printing("doctor", "doctor")},
		{"trust", "", "decide what of this project to trust", nil, func(t *Terminal, _ string) tea.Cmd { return t.decideTrust() }},
		{"demo", "", "see five agents killed and resumed", nil, (*Terminal).demoCommand},
		{"exit", "", "leave; runs go on", []string{"quit", "q", "bye"}, func(*Terminal, string) tea.Cmd { return tea.Quit }},
	}
}

// command carries out a command line without its slash. It is not known if nothing has that name.
func (t *Terminal) command(line string) (cmd tea.Cmd, known bool) {
	name, args, _ := strings.Cut(line, " ")
	if i := strings.IndexByte(name, '\n'); i >= 0 {
		name, args = name[:i], name[i+1:]+" "+args
	}
	args = strings.TrimSpace(args)
	var names []string
	for _, c := range commands() {
		for _, n := range append([]string{c.name}, c.aliases...) {
			if strings.EqualFold(n, name) {
				return c.do(t, args), true
			}
			names = append(names, n)
		}
	}
	if t.catalog == nil { // it was typed ahead
		return t.withCatalog(func() tea.Cmd {
			cmd, known := t.command(line)
			if !known && t.compose.empty() {
				t.compose.set("/" + line)
			}
			return cmd
		}), true
	}
	if w := t.workflow(name); w != nil {
		return t.runCommand(w, args), true
	}
	if get := t.catalog.Prompt; get != nil && strings.HasPrefix(name, "mcp__") {
		t.say("asking the MCP server …")
		return func() tea.Msg {
			text, err := get(t.ctx, name, arguments.Words(args)...)
			return doneMsg{func() {
				if t.notice = ""; err == nil {
					t.then = append(t.then, t.message(text))
					return
				}
				if t.fail(err); t.compose.empty() {
					t.compose.set("/" + line)
				}
			}}
		}, true
	}
	for _, i := range t.catalog.Agents {
		if usable(&i) && strings.EqualFold(i.Name, name) {
			if args == "" {
				t.fail(fmt.Errorf("say something to the agent: /%s MESSAGE", i.Name))
				return nil, false
			}
			return t.message("@" + i.Name + " " + args), true
		}
		names = append(names, i.Name)
	}
	for _, i := range t.catalog.Skills {
		if usable(&i) && strings.EqualFold(i.Name, name) {
			return t.message(strings.TrimSpace("Use the skill " + i.Name + ". " + args)), true
		}
		names = append(names, i.Name)
	}
	for _, i := range t.catalog.Workflows {
		names = append(names, i.Name)
	}
	hint := "; /help lists the commands"
	if near := suggest.Closest(name, names); near != "" {
		hint = "; did you mean /" + near + "?"
	} else if t.catalog.Untrusted > 0 {
		hint = "; if it is of this project, /trust lets it be used"
	}
	t.fail(fmt.Errorf("there is no command /%s%s", name, hint))
	return nil, false
}

// workflow returns a usable workflow by its name or an alias, nil if there is none.
func (t *Terminal) workflow(name string) *workflow.Workflow {
	if t.catalog == nil || t.catalog.Find == nil {
		return nil
	}
	for i := range t.catalog.Workflows {
		item := &t.catalog.Workflows[i]
		for _, n := range append([]string{item.Name}, item.Aliases...) {
			if strings.EqualFold(n, name) && usable(item) {
				return t.catalog.Find(item.Name)
			}
		}
	}
	return nil
}

// argumentHint describes what may follow a typed command.
func (t *Terminal) argumentHint(text string) string {
	name, args, ok := strings.Cut(text, " ")
	if name, is := strings.CutPrefix(name, "/"); is && ok {
		for _, c := range commands() {
			if strings.EqualFold(c.name, name) && args == "" {
				return strings.TrimSpace(c.args + "  " + c.about)
			}
		}
		if t.catalog == nil {
			return ""
		}
		for i := range t.catalog.Workflows {
			if item := &t.catalog.Workflows[i]; strings.EqualFold(item.Name, name) {
				return arguments.Hint(item.Inputs)
			}
		}
	}
	return ""
}

// runCommand starts a workflow with the inputs of a line, or asks for what is missing.
func (t *Terminal) runCommand(w *workflow.Workflow, line string) tea.Cmd {
	if rest, ok := strings.CutPrefix(line+" ", "--resume "); ok { // as `run NAME --resume RUN TEXT`
		ref, text, _ := strings.Cut(strings.TrimSpace(rest), " ")
		switch text = strings.TrimSpace(text); {
		case ref == "":
			t.fail(fmt.Errorf("which run? /%s --resume RUN [TEXT]; /runs lists them", w.Name))
			return nil
		case text == "":
			return t.openRun(ref)
		}
		return t.tell(w, ref, text)
	}
	inputs, err := arguments.Line(w, line)
	if err == nil {
		return t.start(&Start{Workflow: w.Name, Inputs: inputs})
	}
	if !errors.As(err, new(*workflow.InputsError)) {
		t.fail(err)
		t.compose.set("/" + w.Name + " " + line)
		return nil
	}
	loose := *w
	if w.Inputs != nil { // the inputs that were given go into the form
		schema := *w.Inputs
		schema.Required, loose.Inputs = nil, &schema
	}
	has, lerr := arguments.Line(&loose, line)
	if lerr != nil {
		t.fail(err)
		t.compose.set("/" + w.Name + " " + line)
		return nil
	}
	t.push(newFormPane(t, w, has))
	return nil
}

func (t *Terminal) resumeCommand(args string) tea.Cmd {
	switch {
	case args != "":
		return t.openRun(args)
	case t.run == nil:
		return t.showRuns()
	case t.run.run.AwaitsMessage():
		t.say("the run waits for your next message")
		return nil
	case t.run.run.Status == runlog.Completed:
		t.say("run " + t.run.id + " is complete; send a message to talk about it, or /fork to go on from a step")
		return nil
	}
	return t.start(&Start{Run: t.run.id})
}

// openRun shows a run by its reference, and resumes it if it was interrupted.
func (t *Terminal) openRun(ref string) tea.Cmd {
	t.say("opening …")
	return func() tea.Msg {
		info, err := t.find(ref)
		if err == nil && info.Status == runlog.Interrupted {
			_, err = t.backend.Start(t.ctx, &Start{Run: info.ID})
		}
		return doneMsg{func() {
			t.notice = ""
			if info.ID != "" {
				t.shown(info.ID)
			}
			if err != nil {
				t.fail(err)
			}
		}}
	}
}

// tell resumes a run with a text for its plan, and shows it.
func (t *Terminal) tell(w *workflow.Workflow, ref, text string) tea.Cmd {
	t.say("resuming …")
	return func() tea.Msg {
		info, err := t.find(ref)
		if err == nil {
			info.ID, err = t.backend.Start(t.ctx, &Start{Workflow: w.Name, Run: info.ID, Message: text})
		}
		return doneMsg{func() {
			if t.notice = ""; err != nil {
				t.fail(err)
				t.compose.set("/" + w.Name + " --resume " + ref + " " + text)
				return
			}
			t.shown(info.ID)
		}}
	}
}

// forkCommand makes a run that goes on from an earlier checkpoint of the shown one, and shows it. Of a chat it is the state before a message of the
// user, which can be edited and sent again.
func (t *Terminal) forkCommand(args string) tea.Cmd {
	if t.run == nil {
		t.say("no run is shown; /runs lists them")
		return nil
	}
	id, r := t.run.id, &t.run.run
	from, message := args, ""
	if n, err := strconv.Atoi(args); (err == nil || args == "") && t.view.talks() {
		var told []*transcript.Question
		for _, q := range r.Questions {
			if q.Kind == runlog.QuestionMessage {
				told = append(told, q)
			}
		}
		i := len(told) - 1 - n
		if len(told) > 0 && told[len(told)-1].Answered { // it works on the last one
			i++
		}
		if i = min(i, len(told)-1); i < 0 || r.Task(told[i].Path) == nil {
			t.fail(fmt.Errorf("the chat has %s after its first; /new begins another", inwords.Plural(max(0, len(told)-1), "message")))
			return nil
		}
		from = strconv.Itoa(r.Task(told[i].Path).Step)
		if told[i].Answered {
			message = told[i].Answer
		}
	} else if args == "" {
		t.say("name the step to go on from, such as /fork " + firstNode(r) + "; to edit a value first: /history, then e")
		return nil
	}
	talks := t.view.talks()
	t.say("forking …")
	return func() tea.Msg {
		out, err := t.backend.Command(t.ctx, "runs", "fork", "--from="+from, "--no-run", "-o", "json", "--", id)
		var fork struct{ Run string }
		if err == nil {
			err = json.Unmarshal([]byte(out), &fork)
		}
		if err == nil && !talks {
			_, err = t.backend.Start(t.ctx, &Start{Run: fork.Run})
		}
		return doneMsg{func() {
			if err != nil {
				t.fail(err)
			}
			if fork.Run == "" {
				return
			}
			t.notice = ""
			t.shown(fork.Run)
			if message != "" && t.compose.empty() {
				t.compose.set(message)
			}
		}}
	}
}

func firstNode(r *transcript.Run) string {
	if len(r.Nodes) > 0 {
		return transcript.Line(r.Nodes[0])
	}
	return "STEP"
}

// choose sets the model of the next chat or run.
func (t *Terminal) choose(name string) {
	t.model = name
	t.say("the next chat or run uses " + transcript.Line(name))
	if t.run != nil {
		t.say("the next chat or run uses " + transcript.Line(name) + "; this one keeps its model and effort")
	}
}

// effortCommand sets the effort of the model of the next chat or run.
func (t *Terminal) effortCommand(args string) tea.Cmd {
	base, now := effort.Split(t.model)
	if base == "" && t.catalog != nil {
		base, now = effort.Split(t.catalog.Model)
	}
	word := strings.ToLower(args)
	switch {
	case base == "":
		t.fail(errors.New("there is no model to set the effort of; /model chooses one"))
	case effort.With(base, "low") == base:
		t.fail(fmt.Errorf("the model %s has no effort to set; /model chooses another", transcript.Line(base)))
	case word == "":
		var offers []offer
		for _, w := range append(effort.Words(), "default") {
			about := ""
			if w == cmp.Or(now, "default") {
				about = "chosen"
			}
			offers = append(offers, offer{text: w, name: w, about: about})
		}
		t.push(newChoosePane(t, "effort of "+transcript.Line(base)+" in the next chat or run", offers, func(o offer) tea.Cmd { return t.effortCommand(o.name) }))
	case word == "default":
		t.choose(base)
	case !effort.Known(word):
		t.fail(fmt.Errorf("%q is no effort; want %s, or default", transcript.Line(args), effort.List()))
	default:
		t.choose(effort.With(base, word))
	}
	return nil
}

func (t *Terminal) modelCommand(args string) tea.Cmd {
	if err := effort.Check(args); err != nil {
		t.fail(err)
		return nil
	}
	args, word := effort.Split(args)
	choose := func(name string) { t.choose(effort.With(name, word)) }
	if strings.EqualFold(args, "default") {
		t.model = ""
		t.say("the next chat or run uses the model that is configured")
		return nil
	}
	if t.catalog == nil || t.catalog.Models == nil {
		t.fail(errors.New("the models are not known yet; /model again in a moment"))
		return nil
	}
	var offers []offer
	var names, lacks []string
	chosen, strain := effort.Split(t.model)
	use := &t.catalog.Models.Use
	configured, _ := effort.Split(use.Name)
	for _, p := range t.catalog.Models.Providers {
		for _, m := range p.Models {
			if !p.Configured {
				lacks = append(lacks, m.Name)
				continue
			}
			about := ""
			if m.Name == configured {
				about = "configured: " + use.Why
			}
			if m.Name == chosen {
				if about = strings.TrimSpace("chosen " + about); strain != "" {
					about = "effort " + strain + ", " + about
				}
			}
			names = append(names, m.Name)
			offers = append(offers, offer{text: transcript.Line(m.Name), name: m.Name, about: transcript.Line(about)})
		}
	}
	names = append(names, host.Offline)
	offers = append(offers, offer{text: host.Offline, name: host.Offline, about: "built in: it only quotes documents"})
	if args == "" {
		t.push(newChoosePane(t, "model of the next chat or run", offers, func(o offer) tea.Cmd { choose(o.name); return nil }))
		return nil
	}
	for _, n := range names {
		if strings.EqualFold(n, args) || strings.HasSuffix(strings.ToLower(n), "/"+strings.ToLower(args)) {
			choose(n)
			return nil
		}
	}
	provider, _, whole := strings.Cut(args, "/")
	for _, p := range t.catalog.Models.Providers {
		switch {
		case !strings.EqualFold(p.Name, provider) || !whole:
		case p.Configured:
			choose(args) // a name that is not in the list is the user's business
			return nil
		default:
			t.fail(fmt.Errorf("%s is not set up: %s", p.Name, p.Missing))
			return nil
		}
	}
	err := fmt.Errorf("there is no model %q%s; /model lists them", args, suggest.Hint(args, append(names, lacks...)))
	if t.catalog.Opens != nil {
		if err = t.catalog.Opens(args); err == nil {
			choose(args)
			return nil
		}
		if e := (*host.Error)(nil); errors.As(err, &e) && len(e.Next) > 0 {
			err = fmt.Errorf("%w; %s", err, e.Next[0])
		}
	}
	t.fail(err)
	return nil
}

// budgetCommand changes the budget of the shown run: an amount of US dollars, or limits such as tokens=200000.
func (t *Terminal) budgetCommand(args string) tea.Cmd {
	if t.run == nil {
		t.say("no run is shown; /runs lists them")
		return nil
	}
	line := []string{"runs", "budget"}
	limits := map[string]string{"cost": "--max-cost", "money": "--max-cost", "tokens": "--max-tokens", "agents": "--max-agents", "turns": "--max-turns",
		"calls": "--max-calls", "time": "--timeout", "timeout": "--timeout"}
	for _, w := range arguments.Words(args) {
		key, value, ok := strings.Cut(w, "=")
		flag := limits[strings.TrimPrefix(key, "max-")]
		switch {
		case strings.HasPrefix(w, "--"):
			line = append(line, w)
		case ok && flag != "":
			line = append(line, flag+"="+strings.TrimPrefix(value, "$"))
		case !ok && len(line) > 2 && strings.HasPrefix(line[len(line)-1], "--") && !strings.Contains(line[len(line)-1], "="):
			line = append(line, w)
		case !ok:
			line = append(line, "--max-cost="+strings.TrimPrefix(w, "$"))
		default:
			t.fail(fmt.Errorf("/budget: there is no limit %q%s", key, suggest.Hint(key, []string{"cost", "tokens", "agents", "turns", "calls", "time"})))
			return nil
		}
	}
	if len(line) == 2 {
		t.say("such as /budget 2.50, or /budget tokens=200000 time=1h")
		return nil
	}
	paused := t.run.run.Short != nil
	return t.carryOut("budget", append(line, "--", t.run.id), func(string) {
		if paused {
			t.say("the budget is changed; resume the run with /resume")
		}
	})
}

// compactCommand lets the lead of the shown run sum up its conversation.
func (t *Terminal) compactCommand(args string) tea.Cmd {
	switch {
	case t.run == nil:
		t.say("no run is shown; /runs lists them")
		return nil
	case args != "":
		t.fail(errors.New("/compact takes nothing; what the summary should keep can be said in a message before"))
		return nil
	}
	when := "before the agent's next turn"
	switch r := &t.run.run; {
	case r.AwaitsMessage():
		when = "before the next answer"
	case r.Status != runlog.Running || t.run.ended:
		when += "; /resume resumes the run"
	}
	return t.carryOut("compact", []string{"runs", "steer", "--compact", "--", t.run.id}, func(string) { t.say("the conversation is summed up " + when) })
}

// carryOut carries out a command line of this program whose output is a notice at most.
func (t *Terminal) carryOut(what string, args []string, then func(out string)) tea.Cmd {
	t.say(what + " …")
	return func() tea.Msg {
		out, err := t.backend.Command(t.ctx, args...)
		return doneMsg{func() {
			if err != nil {
				t.fail(err)
				return
			}
			t.say(what + ": done")
			then(out)
		}}
	}
}

func (t *Terminal) permissionsCommand(args string) tea.Cmd {
	verb, rule, _ := strings.Cut(args, " ")
	switch {
	case args == "":
		return t.showOutput("permissions", "permissions", "list")
	case verb == "forget" && strings.TrimSpace(rule) != "":
		return t.carryOut("forgetting "+strings.TrimSpace(rule), []string{"permissions", "forget", strings.TrimSpace(rule)}, func(string) {})
	}
	t.fail(errors.New("such as /permissions, or /permissions forget bash(go test *)"))
	return nil
}

func (t *Terminal) schedulesCommand(args string) tea.Cmd {
	if args == "" {
		return t.showOutput("schedules", "schedule", "list")
	}
	verb, name, _ := strings.Cut(args, " ")
	if name = strings.TrimSpace(name); name == "" || !slices.Contains([]string{"pause", "resume", "rm"}, verb) {
		t.fail(errors.New("such as /schedules, or /schedules pause NAME; add one with: schedule add, on the command line"))
		return nil
	}
	return t.carryOut("schedule "+verb, []string{"schedule", verb, "--", name}, func(string) {})
}

func (t *Terminal) exportCommand(args string) tea.Cmd {
	if t.run == nil {
		t.say("no run is shown; /runs lists them")
		return nil
	}
	file := args
	if file == "" {
		file = "run-" + t.run.id + ".jsonl"
	}
	return t.carryOut("writing "+file, []string{"runs", "export", "--file=" + file, "--", t.run.id}, func(string) {
		t.say("wrote " + file + ", without credentials")
	})
}

func (t *Terminal) demoCommand(string) tea.Cmd {
	if t.catalog != nil && !t.catalog.Demo {
		t.fail(errors.New("this program has no demo"))
		return nil
	}
	return t.demo()
}

// costCommand shows what the run has used.
func (t *Terminal) costCommand(string) tea.Cmd {
	if t.run == nil {
		t.say("no run is shown; /runs lists them")
		return nil
	}
	t.push(newTextPane(t, "cost of run "+t.run.id, costText(&t.run.run)))
	return nil
}

// costText tells what a run has used, agent by agent.
func costText(r *transcript.Run) string {
	var b strings.Builder
	cost := r.Cost().String()
	fmt.Fprintf(&b, "cost      %s\n", cost)
	fmt.Fprintf(&b, "tokens    %s in, %s out\n", inwords.Count(r.Usage.In), inwords.Count(r.Usage.Out))
	if held := r.Held(); held.Money > 0 || held.Tokens > 0 {
		fmt.Fprintf(&b, "reserved  %s, %s tokens\n", inwords.Dollars(held.Money), inwords.Count(int(held.Tokens)))
	}
	if s := saved(r); s != "" {
		fmt.Fprintf(&b, "%s\n", s)
	}
	limits := [][2]string{}
	if r.Budget.Money > 0 {
		limits = append(limits, [2]string{"cost", inwords.Dollars(r.Budget.Money)})
	}
	for _, x := range []struct {
		name string
		n    int64
	}{{"tokens", r.Budget.Tokens}, {"agents", r.Budget.Agents}, {"turns", r.Budget.Turns}, {"calls", r.Budget.Calls}} {
		if x.n > 0 {
			limits = append(limits, [2]string{x.name, strconv.FormatInt(x.n, 10)})
		}
	}
	if r.Budget.Wall > 0 {
		limits = append(limits, [2]string{"time", inwords.Duration(r.Budget.Wall)})
	}
	if len(limits) == 0 {
		b.WriteString("budget    no limits; /budget 2.50 sets one\n")
	}
	for _, l := range limits {
		fmt.Fprintf(&b, "budget    %s %s\n", l[0], l[1])
	}
	if len(r.Agents) == 0 {
		return b.String()
	}
	table := [][]string{{"AGENT", "MODEL", "TURNS", "CALLS", "IN", "OUT", "CONTEXT", "COST"}}
	for _, a := range r.Agents {
		use := "–"
		if a.Window > 0 {
			use = fmt.Sprintf("%d%%", min(100, 100*a.Used/a.Window))
		}
		table = append(table, []string{transcript.Line(a.Name) + " " + a.Task.Label(), transcript.Line(a.Model), strconv.Itoa(a.Turns), strconv.Itoa(a.Called),
			inwords.Count(a.Usage.In), inwords.Count(a.Usage.Out), use, a.Cost().String()})
	}
	b.WriteString("\n" + strings.Join(inwords.Align(table, 0), "\n"))
	return b.String()
}

// withCatalog goes on once it is known what can be started and named.
func (t *Terminal) withCatalog(then func() tea.Cmd) tea.Cmd {
	t.say("reading the catalog …")
	look := t.lookCatalog()
	return func() tea.Msg {
		m := look()
		return doneMsg{func() {
			t.notice = ""
			if done, ok := m.(doneMsg); ok {
				done.do()
			}
			if t.catalog != nil {
				t.then = append(t.then, then())
			}
		}}
	}
}

// lookCatalog reads anew what can be started and named.
func (t *Terminal) lookCatalog() tea.Cmd {
	return func() tea.Msg {
		c, err := t.backend.Catalog(t.ctx)
		return doneMsg{func() {
			if err != nil {
				t.fail(err)
				return
			}
			t.catalog = c
			t.home.settled()
			if t.focus == onComposer && t.compose.search == nil {
				sel := t.compose.popup.sel
				t.compose.late = t.compose.offer()
				t.compose.popup.sel = min(sel, max(0, len(t.compose.popup.offers)-1))
			}
		}}
	}
}

// promptsCommand lists the prompts of MCP servers, and completes their names from then on.
func (t *Terminal) promptsCommand(string) tea.Cmd {
	if t.catalog == nil {
		return t.withCatalog(func() tea.Cmd { return t.promptsCommand("") })
	}
	get := t.catalog.Prompt
	if get == nil {
		t.fail(errors.New("there are no MCP servers here"))
		return nil
	}
	return t.showResult("prompts", func(ctx context.Context) (string, error) {
		list, err := get(ctx, "")
		t.mu.Lock()
		defer t.mu.Unlock()
		t.prompts = strings.Split(list, "\n")
		return list, err
	})
}
