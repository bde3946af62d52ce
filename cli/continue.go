package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/internal/arguments"
	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/internal/tui"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/workflow"
)

// newest is the value of --continue without one.
const newest = "newest"

// addContinue adds the flag --continue to the command run.
func addContinue(a *app, cmd *cobra.Command, ref *string) {
	cmd.Flags().StringVar(ref, "continue", "", "run agent: send the message to the conversation of this `run` (default: the newest of this folder)")
	cmd.Flags().Lookup("continue").NoOptDefVal = newest
	_ = cmd.RegisterFlagCompletionFunc("continue", func(cmd *cobra.Command, _ []string, s string) ([]string, cobra.ShellCompDirective) {
		return a.ids(cmd, nil, s)
	})
}

// isRef matches a single word that names a run and is not a message. After --, it is a message.
var isRef = regexp.MustCompile(`^(@last|@-[0-9]+|[0-9a-f]{8})$`)

// continueRun sends a message to a run. Of several words of the command line the first names the run, so that a typo sends nothing to another.
func continueRun(ctx context.Context, a *app, name, ref string, g *arguments.Given, r *running, ans tui.Answers) error {
	w, err := chooseWorkflow(a, name)
	if err != nil {
		return err
	}
	switch {
	case w.Continue == nil:
		return usage(fmt.Sprintf("--continue: runs of %s do not talk; continue a run of any workflow with `%s`", w.Name,
			a.hint("run", "agent", "--continue=RUN", `"MESSAGE"`)))
	case r.plan:
		return usage("--continue: there is no plan of a conversation; leave --plan out")
	case g.Flags.Changed("model"):
		return usage("--model: a run that is continued keeps its model; leave the flag out, or start a new run")
	}
	input := len(g.Words) == 0 || g.Words[0] == "--" || strings.Contains(g.Words[0], "=")
	if ref == newest && len(g.Words) == 2 && !isRef.MatchString(g.Words[0]) && isRef.MatchString(g.Words[1]) { // "more" --continue @last
		slices.Reverse(g.Words)
	}
	if ref == newest && !input && (len(g.Words) > 1 || isRef.MatchString(g.Words[0])) {
		quoted := a.hint("run", w.Name, "--continue", clean.Shell(strings.Join(g.Words, " ")))
		ref, g.Words = g.Words[0], g.Words[1:]
		if _, _, err := findRun(ctx, a, ref); err != nil {
			e := *classify(err)
			if isRef.MatchString(ref) { // no word of a message
				return &e
			}
			e.Next = append(e.Next, "the message is one argument: "+quoted)
			return &e
		}
	}
	message, err := messageOf(a, w, g)
	if err != nil {
		return err
	}
	info, err := continuable(ctx, a, ref)
	if err != nil {
		return err
	}
	if err := vouchFor(ctx, a, info); err != nil {
		return err
	}
	return sendMessage(ctx, a, w, info, message, r, ans)
}

// messageOf reads the message, "" if there is none.
func messageOf(a *app, w *workflow.Workflow, g *arguments.Given) (string, error) {
	if g.Model = ""; len(g.Words)+len(g.Pairs) == 0 && g.File == "" {
		return "", nil
	}
	raw, err := g.Inputs(w)
	if err != nil {
		return "", err
	}
	var values map[string]json.RawMessage
	var message string
	if err := json.Unmarshal(raw, &values); err != nil {
		return "", err
	}
	if err := json.Unmarshal(values["prompt"], &message); err != nil {
		return "", err
	}
	if delete(values, "prompt"); len(values) > 0 {
		return "", usage(fmt.Sprintf("a run that goes on keeps its inputs; leave out %s, or start a new run with `%s`",
			strings.Join(slices.Sorted(maps.Keys(values)), ", "), a.hint("run", w.Name)))
	}
	return message, nil
}

// continuable returns the run to continue, by its reference or as the newest conversation of this folder.
func continuable(ctx context.Context, a *app, ref string) (runlog.Info, error) {
	if ref != newest {
		_, info, err := findRun(ctx, a, ref)
		return info, err
	}
	e, err := a.looking(ctx)
	if err != nil {
		return runlog.Info{}, err
	}
	infos, err := e.Runs(ctx, nil)
	if err != nil {
		return runlog.Info{}, err
	}
	for _, info := range infos {
		if info.Workflow != "agent" || info.Head == 0 {
			continue
		}
		started, err := runlog.Started(ctx, a.store, info.ID)
		var in struct{ Dir string }
		if err == nil && started != nil && json.Unmarshal(started.Inputs, &in) == nil && in.Dir == a.host().Dir() {
			return info, nil
		}
	}
	return runlog.Info{}, usage(fmt.Sprintf("--continue: no run of agent in this folder is in %s", storeName(a)),
		"start one: "+a.hint("run", "agent", "--chat", `"MESSAGE"`), "name another: "+a.hint("run", "agent", "--continue=RUN", `"MESSAGE"`))
}

func sendMessage(ctx context.Context, a *app, w *workflow.Workflow, info runlog.Info, message string, r *running, ans tui.Answers) error {
	run, err := a.host().Transcript(ctx, &info)
	if err != nil {
		return err
	}
	ended := info.Status.Ended() || info.Status == runlog.Failed
	waits := run.AwaitsMessage()
	if message == "" && (ended || waits) {
		return usage(fmt.Sprintf("run %s (%s) waits for your next message", info.ID, run.Title), "send it: "+continues(a, info.ID))
	}
	if !a.programs() && !a.set.Quiet {
		how := "continuing run " + info.ID
		if ended {
			how = fmt.Sprintf("continuing run %s, which is %s, in a new run", info.ID, info.Status)
		} else if !waits && info.Status != runlog.Running {
			how += fmt.Sprintf(", which is %s", info.Status)
		}
		if run.Title != "" {
			how += ": " + run.Title
		}
		a.err.line(how)
	}
	if message == "" {
		return resumeRun(ctx, a, info, r, ans, &superstep.ResumeOptions{})
	}
	name, after := info.Workflow, info.Head
	if ended {
		name, after = w.Name, 0
	}
	if err := useModelOf(ctx, a, info.ID, run); err != nil {
		return err
	}
	engine, err := a.engine(ctx, name, r.engine())
	if err != nil {
		return err
	}
	return executeRun(ctx, a, &job{
		engine: engine, flags: r, answers: ans, after: after,
		begin: func(ctx context.Context, answer superstep.Answering, observe func(runlog.Record, error)) (*superstep.Run, error) {
			return engine.Continue(ctx, info.ID, message, &superstep.StartOptions{ID: r.id, Answer: answer, Observe: observe, Budget: r.budget(),
				SnapshotEvery: r.every})
		},
	})
}

// continues returns the command that sends a message.
func continues(a *app, id string) string {
	return a.hint("run", "agent", "--continue="+id, `"MESSAGE"`)
}

// lastAnswer returns the last answer of the agent of a conversation, in the form of a run's output.
func lastAnswer(r *transcript.Run) json.RawMessage {
	if len(r.Agents) == 0 {
		return nil
	}
	for _, g := range slices.Backward(r.Agents) {
		if !strings.Contains(g.Task.Path, "/") {
			b, err := json.Marshal(map[string]string{"text": g.Said, "agent": g.Name, "model": g.Model})
			if err != nil {
				return nil
			}
			return b
		}
	}
	return nil
}
