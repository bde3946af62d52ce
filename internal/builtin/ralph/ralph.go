// Package ralph is the built-in workflow "ralph": it turns a specification into merged work.
//
//	begin → planner → approve → work (a graph of tasks) → planner → review (a task per reviewer) → judge ⟲ → finish
//
// The planner cuts the work into tasks that wait for each other. Each task is done in a git worktree of its own: an agent works, the check command
// decides, and what passes is committed and merged into the branch of the run, one task at a time. Reviewers see the diff and the acceptance criteria;
// what they find becomes tasks again. The user's checkout, index and branches are never touched; see package gitwork.
package ralph

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/gitwork"
	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/plan"
	"github.com/superstep-dev/superstep/workflow"
)

// Name is the name of the workflow.
const Name = "ralph"

// Options configure the workflow. All but Publish and Environ are required.
type Options struct {
	// Prepare checks what a run needs besides its repository, such as models, and adds it to the inputs.
	Prepare func(in *Inputs) error
	// Open returns what works in a folder: the worktree of a task, or that of the run for the planner. Role is planner, worker or reviewer. In a replay
	// it starts nothing.
	Open func(ctx context.Context, in *Inputs, role, dir string) (*Crew, error)
	// Readable returns why the file that a prompt names may not be read: whoever starts a run may be a model. If nil, all may be.
	Readable func(in *Inputs, file string) error
	// Publish pushes a branch of the repository with that checkout, opens a pull request, and returns its address. If nil, there are none.
	Publish func(ctx context.Context, top string, p *PullRequest) (string, error)
	Dir     func() string // returns the folder of the project
	Here    string        // where the user stands, to whom file names are relative; "" for Dir
	Trees   func() string // returns the folder for worktrees, see gitwork.Options
	Environ []string      // of git; defaults to that of this process
}

// A PullRequest describes the pull request of a run.
type PullRequest struct{ Branch, Base, Title, Body string }

// A Crew works in one folder.
type Crew struct {
	Agent *agent.Agent
	// Run runs a command of the user within the sandbox. Failed reports that the command itself failed, or ended at the timeout.
	Run   func(ctx context.Context, command string, timeout time.Duration) (output string, failed bool, err error)
	Close func() error
}

// Inputs are the inputs of the workflow.
type Inputs struct {
	Prompt    string  `json:"prompt" jsonschema:"what to build, or the file that says it; a file with a list of tasks is the plan"`
	Check     string  `json:"check,omitempty" jsonschema:"the command that decides whether a task is done, such as go test ./..."`
	Setup     string  `json:"setup,omitempty" jsonschema:"a command to run in each worktree before the work, such as npm ci"`
	Base      string  `json:"base,omitempty" jsonschema:"the branch or commit to begin with; defaults to HEAD"`
	Workers   int     `json:"workers,omitempty" jsonschema:"how many tasks to work on at once; defaults to 4"`
	MaxLoops  int     `json:"max_loops,omitempty" jsonschema:"how many reviews there are at most; defaults to 10"`
	Reviewers string  `json:"reviewers,omitempty" jsonschema:"what reviewers look for, one each, such as security,correctness"`
	Agent     string  `json:"agent,omitempty" jsonschema:"what the workers are: a model, or an agent such as acp:opencode"`
	Model     string  `json:"model,omitempty" jsonschema:"the model of planner and reviewers, and of workers without --agent"`
	Minutes   float64 `json:"check_minutes,omitempty" jsonschema:"how long the check and the setup may take; defaults to 10"`
	Dirty     bool    `json:"include_uncommitted,omitempty" jsonschema:"begin with your uncommitted changes, which stay as they are"`
	PlanOnly  bool    `json:"plan_only,omitempty" jsonschema:"only make the plan, and print it"`
	PR        bool    `json:"pr,omitempty" jsonschema:"ask to push the result and to open a pull request with gh"`

	Plan   string   `json:"plan,omitempty" jsonschema:"set by the run itself: the plan that the prompt named"`
	Dir    string   `json:"dir,omitempty" jsonschema:"set by the run itself: the checkout"`
	Commit string   `json:"commit,omitempty" jsonschema:"set by the run itself: the commit that base was"`
	Branch string   `json:"branch,omitempty" jsonschema:"set by the run itself: the branch that base was"`
	Notes  []string `json:"notes,omitempty" jsonschema:"set by the run itself: what to know of the repository"`
	Rules  []string `json:"rules,omitempty" jsonschema:"set by the run itself: the permission rules"`
	OnAsk  string   `json:"on_ask,omitempty" jsonschema:"set by the run itself"`
	Yes    bool     `json:"yes,omitempty" jsonschema:"set by the run itself: its user works on the plan without being asked"`
}

// New creates the workflow.
func New(opt *Options) (*workflow.Workflow, error) {
	if opt == nil || opt.Prepare == nil || opt.Open == nil || opt.Dir == nil || opt.Trees == nil {
		return nil, errors.New("workflow ralph: it needs agents, a folder to work in and one for worktrees")
	}
	w, err := workflow.Func(Name, "Turn a specification into merged work: plan, tasks in git worktrees, checks, reviews",
		func(ctx context.Context, in Inputs, e *workflow.Exec) (Output, error) {
			err := e.Journal.Afresh(func() error {
				switch {
				case e.Journal.Imported() != nil:
					return errors.New("this run of ralph was imported, and its commands and its branches are of another machine; start one here with its plan")
				case in.Commit != "" || in.Workers != 0:
					return nil
				}
				return prepare(ctx, opt, &in) // for hosts that began the run without Prepare
			})
			if err != nil {
				return Output{}, err
			}
			r := newRunner(opt, &in)
			r.id, r.parent = e.Journal.ID(), e.Journal.Info().Parent
			in.Yes = in.Yes && r.parent == "" // a model may begin a child, and a fork asks again
			flow, err := r.flow()
			if err != nil {
				return Output{}, err
			}
			final, err := flow.Run(ctx, state{}, &e.Graph)
			return final.Output, err
		})
	if err != nil {
		return nil, err
	}
	w.NeedsModel = true
	read := func(raw json.RawMessage) (in Inputs, err error) {
		if len(raw) > 0 {
			err = json.Unmarshal(raw, &in)
		}
		if err != nil {
			err = fmt.Errorf("workflow ralph: its inputs: %w", err)
		}
		return in, err
	}
	w.Flow = func(raw json.RawMessage) (graph.Reading, error) {
		in, err := read(raw)
		if err != nil {
			return nil, err
		}
		return newRunner(opt, &in).flow()
	}
	w.Prepare = func(raw json.RawMessage) (json.RawMessage, error) {
		in, err := read(raw)
		if err == nil {
			err = prepare(context.Background(), opt, &in)
		}
		if err != nil {
			return nil, err
		}
		return json.Marshal(in)
	}
	return w, nil
}

// prepare checks whether a run is possible and adds to its inputs what depends on the place and time of its start. It may be called again with its own
// result. It changes nothing.
func prepare(ctx context.Context, opt *Options, in *Inputs) error {
	wrong := func(text string) error { return &workflow.InputsError{Workflow: Name, Problems: []string{text}} }
	here := in.Dir
	if in.Dir == "" {
		in.Dir = opt.Dir()
		here = cmp.Or(opt.Here, in.Dir)
	}
	if err := in.read(opt, here); err != nil {
		return wrong("prompt: " + err.Error())
	}
	in.Workers, in.MaxLoops, in.Minutes = cmp.Or(in.Workers, 4), cmp.Or(in.MaxLoops, 10), cmp.Or(in.Minutes, 10)
	const day = 24 * 60
	if in.Minutes <= 0 || in.Minutes > day {
		return wrong(fmt.Sprintf("check_minutes: want more than 0 and at most %d, got %g", day, in.Minutes))
	}
	for _, n := range []struct {
		name       string
		value, top int
	}{{"workers", in.Workers, 64}, {"max_loops", in.MaxLoops, 1000}} {
		if n.value < 1 || n.value > n.top {
			return wrong(fmt.Sprintf("%s: want 1 to %d, got %d", n.name, n.top, n.value))
		}
	}
	r := newRunner(opt, in)
	repo, err := r.repository(ctx)
	if err != nil {
		return wrong("ralph works in a git repository: " + err.Error())
	}
	in.Dir = repo.Top
	if in.Commit == "" {
		if err := in.begin(ctx, repo); err != nil {
			return wrong(err.Error())
		}
	}
	return opt.Prepare(in)
}

// namesFile reports whether a text can only be the name of a file.
func namesFile(text string) bool {
	return len(strings.Fields(text)) == 1 && !strings.Contains(text, "://") &&
		(strings.Contains(text, "/") || slices.Contains([]string{".md", ".txt", ".yaml", ".yml", ".json"}, filepath.Ext(text)))
}

// read replaces a prompt that names a file, from where the user stands or else from the project, by the text of the file.
func (in *Inputs) read(opt *Options, here string) error {
	in.Prompt = strings.TrimSpace(in.Prompt)
	if in.Prompt == "" {
		return errors.New("is empty; say what to build")
	}
	if in.Plan != "" || strings.Contains(in.Prompt, "\n") || len(in.Prompt) > 1000 {
		return nil
	}
	file := in.Prompt
	if !filepath.IsAbs(file) {
		file = filepath.Join(here, in.Prompt)
	}
	info, err := os.Stat(file)
	if err != nil && !filepath.IsAbs(in.Prompt) {
		file = filepath.Join(in.Dir, in.Prompt)
		info, err = os.Stat(file)
	}
	switch {
	case err != nil && namesFile(in.Prompt):
		return fmt.Errorf("there is no file %s; name one, or say in words what to build", in.Prompt)
	case err != nil || !info.Mode().IsRegular():
		return nil //nolint:nilerr // it is a text
	case info.Size() > plan.MaxText:
		return fmt.Errorf("%s has over %d KiB; name a shorter file, which may name this one", file, plan.MaxText>>10)
	}
	if opt.Readable != nil {
		if err := opt.Readable(in, file); err != nil {
			return err
		}
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	in.Prompt = strings.TrimSpace(string(b))
	if in.Prompt == "" {
		return fmt.Errorf("%s is empty; say what to build", file)
	}
	if p, err := plan.Read(in.Prompt); err == nil && len(p.Tasks) > 0 {
		if err := usable(p, nil); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		var titles []string
		for _, t := range p.Tasks {
			titles = append(titles, t.Title)
		}
		in.Plan, in.Prompt = in.Prompt, clean.Clip(strings.Join(titles, "; "), 200)
	} else if err != nil && !errors.Is(err, plan.ErrNone) && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(file)) {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// work returns what is to be built: the plan if there is one, else the prompt.
func (in *Inputs) work() string { return cmp.Or(in.Plan, in.Prompt) }

// begin pins the commit that the run begins with, and notes what the user should know of the repository.
func (in *Inputs) begin(ctx context.Context, repo *gitwork.Repo) error {
	s, err := repo.State(ctx)
	if err != nil {
		return err
	}
	in.Notes = nil
	if in.Base == "" {
		in.Commit, in.Branch = s.Head, s.Branch
	} else if in.Commit, err = repo.Resolve(ctx, in.Base); err != nil {
		return fmt.Errorf("base: %w", err)
	} else {
		in.Branch = in.Base
	}
	if in.Dirty && in.Commit != s.Head {
		return errors.New("include_uncommitted: your changes belong to HEAD; leave out --base, or check it out")
	}
	if n := len(s.Dirty); n > 0 && !in.Dirty {
		in.Notes = append(in.Notes, fmt.Sprintf("not part of it: %s, such as %s; add them with --include-uncommitted",
			inwords.Plural(n, "uncommitted change"), s.Dirty[0].Path))
	}
	if in.Commit == "" {
		return nil
	}
	missing, err := repo.Unsupported(ctx, in.Commit)
	in.Notes = append(in.Notes, missing...)
	return err
}

// A runner executes one run.
type runner struct {
	opt     *Options
	in      *Inputs
	id      string        // of the run
	parent  string        // that it is a fork of, "" if it is none
	merging chan struct{} // holds a value while a task is merged

	mu   sync.Mutex
	repo *gitwork.Repo
	tree *gitwork.Tree // of the run
}

func newRunner(opt *Options, in *Inputs) *runner {
	return &runner{opt: opt, in: in, merging: make(chan struct{}, 1)}
}

func (r *runner) repository(ctx context.Context) (*gitwork.Repo, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var err error
	if r.repo == nil {
		r.repo, err = gitwork.Open(ctx, r.in.Dir, &gitwork.Options{Data: r.opt.Trees(), Environ: r.opt.Environ})
	}
	return r.repo, err
}

// trunk opens the worktree of the run, again if somebody has removed it. A fork begins with what its parent came to, or else the run that the parent was
// a fork of.
func (r *runner) trunk(ctx context.Context, s *state, run string) (*gitwork.Tree, error) {
	repo, err := r.repository(ctx)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tree != nil {
		if _, err := os.Stat(r.tree.Path); err == nil {
			return r.tree, nil
		}
	}
	from := r.in.Commit
	if s.forked(run) {
		for _, before := range []string{r.parent + strings.TrimPrefix(run, r.id), s.Run} {
			last, err := repo.Last(ctx, before, []string{"Superstep-Run: " + before, "Superstep-Attempt: merge"}, r.in.Commit)
			if err != nil {
				return nil, err
			}
			if last != "" {
				from = last
				break
			}
		}
	}
	r.tree, err = repo.Tree(ctx, run, "", from)
	return r.tree, err
}

// reviewers returns what the reviewers look for.
func (in *Inputs) reviewers() []string {
	var out []string
	for name := range strings.SplitSeq(in.Reviewers, ",") {
		if name = strings.Join(strings.Fields(name), " "); name != "" && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	if out == nil {
		out = []string{"everything"}
	}
	return out
}
