package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/internal/arguments"
	"github.com/superstep-dev/superstep/internal/detach"
	"github.com/superstep-dev/superstep/internal/suggest"
	"github.com/superstep-dev/superstep/runlog"
)

// A plainTerminal is the terminal for --plain and screen readers: it reads lines, and carries out each in the foreground, as the command line that does
// the same.
type plainTerminal struct {
	a     *app
	run   string // that is talked to, "" for none
	chat  bool   // it is a conversation, or can be continued as one
	model string // of the next run, "" for the one that is configured
}

// plainWords are what a slash can be followed by, with the command lines that they stand for. RUN is the run that is talked to.
func plainWords() [][3]string {
	return [][3]string{
		{"new", "", "begin a new chat"}, {"runs", "runs list", "all runs and chats"}, {"resume", "runs resume RUN", "resume a run: /resume [RUN]"},
		{"show", "runs show RUN", "what a run did, and what it cost: /show [RUN]"}, {"answer", "runs answer RUN", "answer its questions: /answer [VALUE]"},
		{"fork", "runs fork RUN --from", "go on from an earlier step: /fork STEP"}, {"model", "", "the model of the next chat or run: /model [NAME]"},
		{"budget", "runs budget RUN --max-cost", "change its budget: /budget 2.50"}, {"graph", "workflows graph --run RUN", "its graph"},
		{"history", "runs history RUN", "its checkpoints"}, {"export", "runs export RUN --file", "write it into a file: /export FILE"},
		{"stop", "runs pause RUN", "stop it at its next checkpoint"}, {"permissions", "permissions", "the rules: /permissions [forget RULE]"},
		{"workflows", "workflows list", "what can be run, as /NAME INPUTS"}, {"agents", "agents list", "who can be spoken to, as @NAME MESSAGE"},
		{"skills", "skills list", "what agents can learn"}, {"prompts", "", "the prompts of MCP servers, to be sent with /mcp__SERVER__PROMPT"}, {"doctor", "doctor", "check what is set up"}, {"demo", "demo", "see five agents killed and resumed"},
		{"help", "", "this list"}, {"exit", "", "leave; runs go on"},
	}
}

// converse reads lines until the end of the input, or until the user leaves.
func (t *plainTerminal) converse(ctx context.Context) error {
	a := t.a
	if t.run != "" {
		t.foreground(ctx, "runs", "show", t.run)
	}
	a.err.line("Type a message, /help for the commands, !COMMAND for the shell. Ctrl-D leaves.")
	for {
		line, ok := a.tty.Read(ctx, "> ")
		if line = strings.TrimSpace(line); !ok || line == "/exit" || line == "/quit" || line == "/q" {
			return nil
		}
		switch {
		case line == "":
		case line[0] == '!':
			args, err := json.Marshal(map[string]string{"command": strings.TrimSpace(line[1:])})
			if err == nil {
				t.foreground(ctx, "tools", "call", "bash", string(args), "--ask=bash")
			}
		case line[0] == '/':
			t.command(ctx, line[1:])
		default:
			t.message(ctx, line)
		}
	}
}

// message sends a message to the run, or begins a chat.
func (t *plainTerminal) message(ctx context.Context, text string) {
	agent := ""
	if name, rest, ok := strings.Cut(text, " "); ok && strings.HasPrefix(name, "@") {
		if _, err := t.a.host().Show("agents", name[1:]); err == nil {
			agent, text = name[1:], rest
		}
	}
	switch {
	case t.run != "" && t.chat && agent == "":
		t.foreground(ctx, "run", "agent", "--continue="+t.run, "--", text)
	case agent != "":
		t.foreground(ctx, t.modeled("run", "agent", "--chat", "--agent="+agent, "--", text)...)
	default:
		t.foreground(ctx, t.modeled("run", "agent", "--chat", "--", text)...)
	}
}

// modeled adds the chosen model to the command line of a new run.
func (t *plainTerminal) modeled(args ...string) []string {
	if t.model != "" {
		args = slices.Insert(args, 2, "--model="+t.model)
	}
	return args
}

// command carries out a command line without its slash.
func (t *plainTerminal) command(ctx context.Context, line string) {
	a := t.a
	name, rest, _ := strings.Cut(line, " ")
	words, lower := arguments.Words(rest), strings.ToLower(name)
	switch lower {
	case "clear", "new":
		t.run, t.chat = "", false
		a.err.line("the next message begins a new chat")
		return
	case "help", "?":
		var pairs [][]string
		for _, w := range plainWords() {
			pairs = append(pairs, []string{"/" + w[0], w[2]})
		}
		a.err.table(pairs, 0, 0)
		return
	case "model":
		if len(words) == 0 {
			t.foreground(ctx, "models", "list")
			return
		}
		t.model = words[0]
		a.err.line("the next chat or run uses " + t.model)
		return
	case "permissions":
		if len(words) > 1 && words[0] == "forget" {
			words = []string{"forget", strings.TrimSpace(strings.TrimPrefix(rest, "forget"))}
		}
	}
	if lower == "prompts" || strings.HasPrefix(lower, "mcp__") {
		ask := name
		if lower == "prompts" {
			ask, words = "", nil
		}
		text, err := a.host().Prompt(ctx, ask, words...)
		if err != nil {
			a.err.line(err.Error())
			return
		}
		if a.err.line(text); ask != "" {
			t.message(ctx, text)
		}
		return
	}
	var names []string
	for _, w := range plainWords() {
		names = append(names, w[0])
		if w[0] != lower {
			continue
		}
		args := strings.Fields(w[1])
		if i := slices.Index(args, "RUN"); i >= 0 {
			run := t.run
			if (lower == "resume" || lower == "show") && len(words) > 0 {
				run, words = words[0], words[1:]
			}
			if run == "" {
				a.err.line("there is no run yet; /runs lists them, /resume RUN resumes one")
				return
			}
			args[i] = run
		}
		t.foreground(ctx, append(args, words...)...)
		return
	}
	a.host().Refresh()
	for _, w := range a.host().Workflows() {
		names = append(names, w.Name)
		if strings.EqualFold(w.Name, name) {
			t.foreground(ctx, t.modeled(append([]string{"run", w.Name}, words...)...)...)
			return
		}
	}
	a.err.line(fmt.Sprintf("there is no command /%s%s; /help lists them", name, strings.Replace(suggest.Hint(name, names), "\"?", "\"", 1)))
}

// foreground carries out a command line of this program, and talks to the run that it has executed from then on.
func (t *plainTerminal) foreground(ctx context.Context, args ...string) {
	a := t.a
	opt := a.opt
	opt.Args, opt.Demo = detach.Args(args, append(a.globalArgs(), "--plain")...), false
	sub := newApp(&a.cfg, &opt)
	sub.opt.Demo = a.opt.Demo
	sub.tty, sub.out, sub.err = a.tty, a.out, a.err // one goroutine reads the terminal
	sub.run(ctx)
	a.look()
	if sub.begun == "" {
		return
	}
	t.run = sub.begun
	e, err := a.looking(ctx)
	if err != nil {
		return
	}
	info, err := e.Find(ctx, t.run)
	t.chat = err == nil && (info.Status.Ended() || info.Workflow == "agent" || info.Status == runlog.Failed)
}
