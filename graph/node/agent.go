package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/suggest"
	"github.com/superstep-dev/superstep/journal"
)

// Agent returns a node that runs an agent. When it is run again after a crash, the agent resumes in
// the middle of its conversation; after a *agent.LimitError or *agent.UnfitError it starts over.
// When it is run again because its update did not fit the Input of another node, the agent receives
// the error. Update may not change the outcome.
func Agent[S, U any](name string, def *agent.Agent, prompt func(S) (string, error), update func(S, *agent.Outcome) (U, error)) graph.Node[S, U] {
	return prompted(name, def, prompt, missing("update", update == nil), func(ctx context.Context, t *graph.Task, s S, w *agent.Work) (u U, err error) {
		out, err := converse(ctx, t, def, w)
		if err != nil {
			return u, err
		}
		return update(s, out)
	})
}

// prompted returns a node that runs an agent with the work that a prompt makes.
func prompted[S, U any](name string, def *agent.Agent, prompt func(S) (string, error), wrong error,
	run func(context.Context, *graph.Task, S, *agent.Work) (U, error)) graph.Node[S, U] {
	n := graph.Node[S, U]{Name: name, Kind: "agent", Agents: 1, Err: errors.Join(whole(def), missing("prompt", prompt == nil), wrong)}
	n.Run = func(ctx context.Context, t *graph.Task, s S) (u U, err error) {
		text, err := prompt(s)
		if err != nil {
			return u, err
		}
		return run(ctx, t, s, &agent.Work{Prompt: withFeedback(text, t.Feedback()), State: snapshot(s), Stopped: stopped(t)})
	}
	return n
}

// Typed is [Agent] for an answer with a type: the Schema of the agent defaults to that of T, and an
// answer that does not fit it or fails a check is asked for again; see agent.Typed.
func Typed[S, U, T any](name string, def *agent.Agent, prompt func(S) (string, error), update func(S, T) (U, error), check ...func(T) error) graph.Node[S, U] {
	_, unfit := agent.SchemaOf[T]()
	if def != nil && def.Schema != nil {
		unfit = nil
	}
	wrong := errors.Join(unfit, missing("update", update == nil))
	return prompted(name, def, prompt, wrong, func(ctx context.Context, t *graph.Task, s S, w *agent.Work) (u U, err error) {
		answer, _, err := agent.Typed(ctx, t.Scope(), def, w, check...)
		if err != nil {
			return u, err
		}
		return update(s, answer)
	})
}

// Subagent is like [Agent], but selects the agent by name from a list.
func Subagent[S, U any](name, which string, agents []*agent.Agent, prompt func(S) (string, error), update func(S, *agent.Outcome) (U, error)) graph.Node[S, U] {
	def, err := pick(agents, which)
	if err != nil {
		return graph.Node[S, U]{Name: name, Kind: "subagent", Err: err}
	}
	n := Agent(name, def, prompt, update)
	n.Kind = "subagent"
	return n
}

// A Job is the assignment of one of several agents.
type Job struct {
	Key    string // names the job within its node; defaults to its place in the list, from 1
	Agent  string // its name; defaults to the only agent there is
	Prompt string
}

// SubagentsOptions are the settings of Subagents. Nil means the defaults.
type SubagentsOptions struct {
	Width   int  // jobs under way at once; defaults to journal.DefaultAgents. All agents of a run together have a limit, too
	Settled bool // a failure is a result; defaults to the failure of the node, once all that had begun has ended
}

// Subagents returns a node that does jobs side by side with agents of a list. Merge makes the
// update from the results, which are in the order of the jobs and named by their keys. After a
// crash each agent resumes where it stopped. Jobs must be a pure function: jobs are identified by
// their keys.
func Subagents[S, U any](name string, agents []*agent.Agent, jobs func(S) ([]Job, error), merge func(S, []Result[*agent.Outcome]) (U, error),
	opt *SubagentsOptions) graph.Node[S, U] {
	o := SubagentsOptions{}
	if opt != nil {
		o = *opt
	}
	if o.Width <= 0 {
		o.Width = journal.DefaultAgents
	}
	n := graph.Node[S, U]{Name: name, Kind: "subagents", Agents: -1}
	n.Err = errors.Join(wholeList(agents), missing("list of jobs", jobs == nil), missing("merge", merge == nil))
	n.Run = func(ctx context.Context, t *graph.Task, s S) (u U, err error) {
		list, err := jobs(s)
		if err != nil {
			return u, err
		}
		defs, err := assign(list, agents)
		if err != nil {
			return u, err
		}
		results := make([]Result[*agent.Outcome], len(list))
		state := snapshot(s)
		errs := each(ctx, t, len(list), o.Width, func(int) *journal.Scope { return t.Scope() }, func(i int) error {
			j := list[i]
			if j.Key == "" {
				j.Key = strconv.Itoa(i + 1)
			}
			var err error
			results[i], err = work(ctx, t, defs[i], &j, state, o.Settled)
			return err
		})
		if err := verdict(errs); err != nil {
			return u, err
		}
		return merge(s, results)
	}
	return n
}

// assign finds the agents of jobs, and reports every mistake in them.
func assign(jobs []Job, agents []*agent.Agent) ([]*agent.Agent, error) {
	defs, errs := make([]*agent.Agent, len(jobs)), []error(nil)
	seen := map[string]bool{}
	for i, j := range jobs {
		key := j.Key
		if key == "" {
			key = strconv.Itoa(i + 1)
		}
		if seen[key] {
			errs = append(errs, fmt.Errorf("job %q is there twice; give each a key of its own", key))
		}
		seen[key] = true
		var err error
		if defs[i], err = pick(agents, j.Agent); err != nil {
			errs = append(errs, fmt.Errorf("job %q: %w", key, err))
		}
	}
	return defs, errors.Join(errs...)
}

// work does one job. If settled is set, a failure is recorded and returned as a result.
func work(ctx context.Context, t *graph.Task, def *agent.Agent, j *Job, state func() (json.RawMessage, error), settled bool) (Result[*agent.Outcome], error) {
	scope := t.Scope().Reuse() // it may go on within the same attempt
	r := Result[*agent.Outcome]{Name: j.Key}
	prompt := withFeedback(j.Prompt, t.Feedback())
	key := "job/" + j.Key
	w := &agent.Work{Key: key, Prompt: prompt, State: state, Stopped: stopped(t)}
	if !settled {
		var err error
		if r.Value, err = def.RunAgain(ctx, scope, w); err != nil {
			return r, fmt.Errorf("job %q: %w", j.Key, err)
		}
		return r, nil
	}
	hash, err := journal.Hash([]string{def.Name, prompt})
	if err != nil {
		return r, err
	}
	// The log already has the agent's turns, so the outcome of the job records only whether it
	// failed.
	end := &journal.Effect{Key: key, Kind: "job", Name: def.Name, Hash: hash, Inside: true}
	why, err := journal.Do(ctx, scope, end, func(ctx context.Context, _ string) (string, error) {
		var err error
		r.Value, err = def.RunAgain(ctx, scope, w)
		if err != nil && (ctx.Err() != nil || fatal(err)) {
			return "", err
		}
		return text(err), nil
	})
	if err != nil {
		return r, fmt.Errorf("job %q: %w", j.Key, err)
	}
	if r.Error = why; why != "" {
		r.Value = nil
	} else if r.Value == nil {
		r.Value, err = def.RunAgain(ctx, scope, w)
	}
	return r, err
}

// fatal reports whether an error concerns the run and not the job.
func fatal(err error) bool { return agent.OfRun(err) }

// stopped returns a channel that is closed when the run is told to stop, or nil if the task has no
// handle.
func stopped(t *graph.Task) <-chan struct{} {
	if t == nil {
		return nil
	}
	return t.Stopped()
}

// snapshot returns a function that returns the state for tools: encoded when it is first needed,
// with a copy for each tool.
func snapshot[S any](s S) func() (json.RawMessage, error) {
	encoded := sync.OnceValues(func() (json.RawMessage, error) {
		b, err := json.Marshal(s)
		if err != nil {
			return nil, fmt.Errorf("the state cannot be encoded for tools: %w", err)
		}
		return b, nil
	})
	return func() (json.RawMessage, error) {
		b, err := encoded()
		return slices.Clone(b), err
	}
}

// text returns the text of an error.
func text(err error) string {
	switch {
	case err == nil:
		return ""
	case err.Error() == "":
		return "it failed without saying why"
	}
	return err.Error()
}

// converse runs an agent for a task.
func converse(ctx context.Context, t *graph.Task, def *agent.Agent, w *agent.Work) (*agent.Outcome, error) {
	w.Stopped = stopped(t)
	return def.RunAgain(ctx, t.Scope(), w)
}

func withFeedback(prompt string, feedback []string) string {
	if len(feedback) == 0 {
		return prompt
	}
	var b strings.Builder
	b.WriteString(prompt)
	b.WriteString("\n\nWhat you gave for this before could not be used:\n")
	for _, f := range feedback {
		b.WriteString("- " + f + "\n")
	}
	b.WriteString("Do it again so that this does not happen.")
	return b.String()
}

// pick finds an agent by name, "" for the only one.
func pick(agents []*agent.Agent, name string) (*agent.Agent, error) {
	var names []string
	for _, a := range agents {
		if a == nil {
			continue
		}
		if a.Name == name || name == "" && len(agents) == 1 {
			return a, nil
		}
		names = append(names, a.Name)
	}
	switch {
	case len(names) == 0:
		return nil, fmt.Errorf("there is no agent %q: there are no agents", name)
	case name == "":
		return nil, fmt.Errorf("which agent is not said; the agents are: %s", strings.Join(names, ", "))
	}
	return nil, fmt.Errorf("there is no agent %q%s", name, suggest.Hint(name, names))
}

func whole(a *agent.Agent) error {
	switch {
	case a == nil:
		return errors.New("its agent is nil")
	case a.Model == nil:
		return fmt.Errorf("agent %s has no model", a.Name)
	}
	return nil
}

func wholeList(agents []*agent.Agent) error {
	if len(agents) == 0 {
		return errors.New("it has no agents")
	}
	var errs []error
	seen := map[string]bool{}
	for _, a := range agents {
		errs = append(errs, whole(a))
		if a != nil && seen[a.Name] {
			errs = append(errs, fmt.Errorf("agent %q is there twice", a.Name))
		} else if a != nil {
			seen[a.Name] = true
		}
	}
	return errors.Join(errs...)
}
