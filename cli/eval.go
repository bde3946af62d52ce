package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/arguments"
	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/evaluate"
	"github.com/superstep-dev/superstep/internal/inside"
	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/recipe"
	"github.com/superstep-dev/superstep/internal/signals"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/internal/tui"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/workflow"
)

// maxBaseline is how many bytes the results of an evaluation may have to be compared with.
const maxBaseline = 64 << 20

// judgeWorkflow is the built-in workflow that decides on checks in words.
const judgeWorkflow = "judge-result"

func evalCommand(a *app) *cobra.Command {
	var r running
	ev := evaluating{app: a, flags: &r}
	n := a.cfg.Name
	cmd := &cobra.Command{
		Use: "eval FILE", Short: "Evaluate a workflow: run cases, check results, compare variants",
		Long: `Evaluate a workflow: run cases, check results, compare variants

FILE has the cases: inputs, and checks of the output by conditions, schemas or a judge. Each case is run as
often as the file says, with each variant of the workflow. The runs are ordinary runs: they are listed, can
be opened, and are reused. So an evaluation that was interrupted continues when it is started again, and a
changed check costs nothing. A changed recipe, input or model is run anew. Nobody is asked anything: what
needs permission is denied unless a rule allows it.

The exit code is 1 if a case does not pass or a variant is significantly worse.`,
		Example: examples(n, "eval brief.eval.yaml", "", "eval brief.eval.yaml --junit report.xml", "in continuous integration",
			"eval brief.eval.yaml --case pregel --runs 1", "a quick look", "eval brief.eval.yaml -o json > base.json", "keep the results",
			"eval brief.eval.yaml --baseline base.json", "and compare later ones with them",
			"runs export @last --case --file brief.eval.yaml", "make a case of a run"),
		Args: nargs(1, 1, "eval: name one file with cases"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
		},
	}
	f := cmd.Flags()
	f.StringVar(&a.set.model, "model", "", "the model of variants that name none, as provider/name; also SUPERSTEP_MODEL")
	f.IntVar(&ev.runs, "runs", 0, "run each case this often with each variant (default: as the file says)")
	f.StringSliceVar(&ev.only, "case", nil, "only this case (may be repeated)")
	f.IntVar(&ev.jobs, "jobs", 4, "execute this many runs at once")
	f.BoolVar(&ev.fresh, "fresh", false, "run everything anew, and reuse these runs from now on")
	f.StringVar(&ev.junit, "junit", "", "write the results as JUnit XML into this `file`")
	f.StringVar(&ev.baseline, "baseline", "", "compare with the results in this `file`, which eval -o json wrote")
	f.Float64Var(&ev.most, "total-cost", 0, "start no run once all of them have cost this many US dollars (0: no limit)")
	f.Var(&r.answers, "answer", "answer a question of every run: PATH=value, or PATH:KEY=value where a task asks several (may be repeated)")
	r.addLimits(f)
	r.leave.add(f)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if _, err := r.check(a); err != nil {
			return err
		}
		for flag, n := range map[string]int{"runs": ev.runs, "jobs": ev.jobs} {
			if n < 1 && f.Changed(flag) {
				return usage("--" + flag + ": want a positive number")
			}
		}
		if !(ev.most >= 0) {
			return usage(fmt.Sprintf("--total-cost: want a number of US dollars such as 1.50, got %g", ev.most))
		}
		a.set.leave.headless = true
		return a.allowing(cmd.Context(), func() error { return ev.evaluate(cmd.Context(), args[0]) })
	}
	return cmd
}

// evaluating is an evaluation by the command.
type evaluating struct {
	*app
	flags                 *running
	runs, jobs            int
	only                  []string // cases
	fresh                 bool
	junit, baseline, path string
	most                  float64 // US dollars

	file       *recipe.Evaluation
	subjects   []*subject // by variant
	judge      *subject   // nil if no check needs one
	prefix     string
	generation int

	mu    sync.Mutex
	spent int64 // millionths of a US dollar
	ended int   // runs
	of    int
}

// A subject is a workflow that is run, with its model.
type subject struct {
	host   *host.Host
	engine *superstep.Engine
	flow   *workflow.Workflow
	model  string // "" if none was named
	given  string // what the inputs of the workflow say instead, see arguments.TakesModel
}

// An attempt is a run that is about to be executed, or was already.
type attempt struct {
	*subject
	id      string
	title   string
	inputs  json.RawMessage // as the run begins with them
	answers []string
}

func (ev *evaluating) evaluate(ctx context.Context, path string) error {
	if err := ev.read(path); err != nil {
		return err
	}
	var base *evaluate.Report
	if ev.baseline != "" {
		b, err := inside.ReadFile(ev.host().Abs(ev.baseline), maxBaseline)
		if err == nil {
			err = json.Unmarshal(b, &base)
		}
		if err != nil || base == nil || len(base.Variants) == 0 {
			to := ev.baseline
			for n := 1; !missing(ev.host().Abs(to)); n++ { // what is there may be anything
				if to = "baseline.json"; n > 1 {
					to = fmt.Sprintf("baseline-%d.json", n)
				}
			}
			return usage(fmt.Sprintf("--baseline: %s has no results of an evaluation: %v", ev.baseline, cmp.Or(err, errors.New("it has no variants"))),
				"write them: "+ev.hint("eval", clean.Shell(path), "-o", "json", ">", clean.Shell(to)))
		}
	}
	if err := ev.open(ctx); err != nil {
		return err
	}
	cells := evaluate.Cells(ev.file)
	attempts, err := ev.attempts(ctx, cells)
	if err != nil {
		return err
	}
	r, err := ev.execute(ctx, cells, attempts)
	if err != nil {
		return err
	}
	r.Finish(ev.file.Pass, base)
	return ev.report(r)
}

// missing reports whether nothing has the name.
func missing(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// read reads the file, and applies the flags to it.
func (ev *evaluating) read(path string) error {
	abs := ev.host().Abs(path)
	text, err := inside.ReadFile(abs, recipe.MaxBytes)
	if err != nil {
		return usage(fmt.Sprintf("cannot read the file: %v", err), "make one of a run: "+ev.hint("runs", "export", "@last", "--case", "--file", clean.Shell(path)))
	}
	file, problems := recipe.ParseEvaluation(transcript.Line(path), text)
	if problems.Err() != nil {
		return &host.RecipeError{File: transcript.Line(path), Text: text, Problems: problems}
	}
	for _, p := range problems {
		ev.tty.Warn(p.Error())
	}
	ev.path, ev.file, ev.prefix = abs, file, evaluate.Prefix(abs)
	file.Runs = cmp.Or(ev.runs, file.Runs)
	for _, name := range ev.only {
		if !slices.ContainsFunc(file.Cases, func(c recipe.Case) bool { return c.Name == name }) {
			var names []string
			for i := range file.Cases {
				names = append(names, file.Cases[i].Name)
			}
			return usage(fmt.Sprintf("--case: %s has no case %q", file.File, name), "its cases: "+clean.Clip(strings.Join(names, ", "), 1000))
		}
	}
	if len(ev.only) > 0 {
		file.Cases = slices.DeleteFunc(file.Cases, func(c recipe.Case) bool { return !slices.Contains(ev.only, c.Name) })
	}
	return nil
}

// open finds the workflows, which have to be trusted, and checks that they can run.
func (ev *evaluating) open(ctx context.Context) (err error) {
	base := ev.host()
	defer func() { ev.opened = base }()
	for i := range ev.file.Variants {
		v := &ev.file.Variants[i]
		s, err := ev.subject(ctx, base, v.Workflow, v.Model)
		if err != nil {
			return err
		}
		ev.subjects = append(ev.subjects, s)
	}
	if slices.ContainsFunc(ev.file.Cases, func(c recipe.Case) bool {
		return slices.ContainsFunc(c.Checks, func(c recipe.Criterion) bool { return c.Judge != "" })
	}) {
		ev.judge, err = ev.subject(ctx, base, cmp.Or(ev.file.Judge.Workflow, judgeWorkflow), ev.file.Judge.Model)
	}
	return err
}

func (ev *evaluating) subject(ctx context.Context, base *host.Host, name, model string) (*subject, error) {
	ev.opened = base
	s := &subject{model: cmp.Or(model, ev.set.model)}
	if model != "" { // it goes before everything that recipes and configurations say
		set := base.Settings()
		set.Model, set.UserModel = model, ""
		ev.opened = base.With(set)
	}
	if base.IsFile(name) {
		if !filepath.IsAbs(name) {
			name = filepath.Join(filepath.Dir(ev.path), name)
		}
		name = ev.shownPath(name)
		if !strings.ContainsRune(name, filepath.Separator) {
			name = "." + string(filepath.Separator) + name
		}
	}
	w, err := chooseWorkflow(ev.app, name)
	if err != nil {
		return nil, err
	}
	s.host, s.flow = ev.opened, w
	if err = s.host.Quotable(w, s.model); err == nil {
		s.flow, err = s.host.Ready(w.Name)
	}
	if err == nil {
		s.engine, err = ev.engine(ctx, w.Name, ev.flags.engine())
	}
	if arguments.TakesModel(w) {
		s.given = s.model
	}
	return s, explainLacking(ev.app, w, err)
}

// attempts prepares the runs. Nothing runs if one of them cannot.
func (ev *evaluating) attempts(ctx context.Context, cells []evaluate.Cell) ([]*attempt, error) {
	infos, err := ev.store.Runs(ctx, &runlog.Filter{Prefix: ev.prefix})
	if err != nil {
		return nil, err
	}
	ended := map[string]bool{}
	var ids []string
	for i := range infos {
		ids = append(ids, infos[i].ID)
		ended[infos[i].ID] = infos[i].Status.Ended()
	}
	if ev.generation = evaluate.Generation(ev.prefix, ids); ev.fresh {
		ev.generation++
	}
	var out []*attempt
	var problems []string
	recorded := 0
	prepared := map[[2]int]*preparation{} // by variant and case
	for _, cell := range cells {
		v, c := &ev.file.Variants[cell.Variant], &ev.file.Cases[cell.Case]
		s, key := ev.subjects[cell.Variant], [2]int{cell.Variant, cell.Case}
		if _, known := prepared[key]; !known {
			inputs, err := v.Merged(c)
			if err != nil {
				return nil, err
			}
			p, err := s.prepare(inputs)
			if err == nil {
				err = ev.answerable(p, c)
			}
			if wrong, ok := errors.AsType[*workflow.InputsError](err); ok {
				for _, why := range wrong.Problems {
					problems = append(problems, fmt.Sprintf("%s:%d: case %s, variant %s: %s", ev.file.File, c.Pos.Line, c.Name, v.Name, why))
				}
			} else if err != nil {
				return nil, explainLacking(ev.app, s.flow, err)
			}
			prepared[key] = p
		}
		if len(problems) > 0 {
			continue
		}
		at, err := ev.attempt(ctx, prepared[key], c.Name, v.Name, cell.Repetition)
		if err != nil {
			return nil, err
		}
		at.title = fmt.Sprintf("%s: case %s, variant %s, run %d of %d", filepath.Base(ev.path), c.Name, v.Name, cell.Repetition+1, ev.file.Runs)
		at.answers = slices.Concat(c.Answers, ev.flags.answers)
		if ended[at.id] {
			recorded++
		}
		out = append(out, at)
	}
	if len(problems) > 0 {
		return nil, usage("the inputs do not fit; nothing ran", problems...)
	}
	ev.of = len(out)
	if !ev.programs() && !ev.set.Quiet {
		ev.err.line(fmt.Sprintf("%s: %s with %s, %s; %d recorded already", inwords.Plural(ev.of, "run"), inwords.Plural(len(ev.file.Cases), "case"),
			inwords.Plural(len(ev.file.Variants), "variant"), fmt.Sprintf("%d of each", ev.file.Runs), recorded))
	}
	return out, nil
}

// A preparation is what the run of a subject with some inputs is made of.
type preparation struct {
	*subject
	inputs     json.RawMessage // as runs begin with them
	definition any
}

func (s *subject) prepare(inputs json.RawMessage) (*preparation, error) {
	if s.given != "" {
		var all map[string]json.RawMessage
		err := json.Unmarshal(inputs, &all)
		if err == nil && all["model"] == nil {
			all["model"], err = json.Marshal(s.given)
		}
		if err == nil {
			inputs, err = json.Marshal(all)
		}
		if err != nil {
			return nil, err
		}
	}
	inputs, err := s.flow.Settle(inputs)
	p := &preparation{subject: s, inputs: inputs}
	switch {
	case err != nil:
		return nil, err
	case s.flow.Pin != nil:
		var pinned json.RawMessage
		pinned, err = s.flow.Pin(inputs)
		p.definition = pinned
	case s.flow.Flow != nil:
		flow, err := s.flow.Flow(inputs)
		if err != nil {
			return nil, err
		}
		p.definition = flow.Shape()
	}
	return p, err
}

// answerable returns an error if the answers of a case fit no step.
func (ev *evaluating) answerable(p *preparation, c *recipe.Case) error {
	answers, err := tui.ParseAnswers("the answer of case "+c.Name+":", c.Answers)
	if err != nil {
		return err
	}
	before := ev.opened
	defer func() { ev.opened = before }()
	ev.opened = p.host
	return checkAhead(ev.app, p.flow, p.inputs, answers)
}

// attempt returns a run, whose ID says all that it depends on. It returns an error if a run of that ID is of a file, which says what it likes.
func (ev *evaluating) attempt(ctx context.Context, p *preparation, names ...any) (*attempt, error) {
	id, err := evaluate.ID(ev.prefix, ev.generation, p.flow.Name, p.model, p.definition, p.inputs, names)
	if err != nil {
		return nil, err
	}
	origin, err := runlog.Origin(ctx, ev.store, id)
	switch {
	case errors.As(err, new(*runlog.NotFoundError)):
	case err != nil:
		return nil, err
	case origin != nil:
		return nil, usage(fmt.Sprintf("run %s was imported from a file, so it is no result of this evaluation", id), "delete it: "+ev.hint("runs", "rm", "--now", id), "run everything anew: --fresh")
	}
	return &attempt{subject: p.subject, inputs: p.inputs, id: id}, nil
}

// execute executes the runs, some at once, and returns what became of them.
func (ev *evaluating) execute(ctx context.Context, cells []evaluate.Cell, attempts []*attempt) (*evaluate.Report, error) {
	ctx, done := ev.stoppable(ctx, func() {
		if !ev.programs() {
			ev.tty.Notify("stopping at a safe point; once more to stop at once")
		}
	})
	defer done()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	results := make([]*evaluate.Run, len(cells))
	var judged *transcript.Cost
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(ev.jobs, len(cells)) {
		workers.Go(func() {
			for i := range next {
				c := &ev.file.Cases[cells[i].Case]
				run, judging, err := ev.result(ctx, attempts[i], c)
				if err != nil {
					stop(err)
					continue
				}
				results[i] = run
				ev.mu.Lock()
				judged = added(judged, judging)
				ev.mu.Unlock()
				ev.progress(&ev.file.Variants[cells[i].Variant], c, cells[i].Repetition, run)
			}
		})
	}
feed:
	for i := range cells {
		if err := ev.affordable(); err != nil {
			stop(err)
		}
		if ctx.Err() != nil {
			break
		}
		select {
		case next <- i:
		case <-ctx.Done():
			break feed
		}
	}
	close(next)
	workers.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, ev.cut(err)
	}
	r := &evaluate.Report{File: ev.file.File, Judge: judged}
	for i := range ev.file.Variants {
		v := evaluate.Variant{Name: ev.file.Variants[i].Name, Workflow: ev.subjects[i].flow.Name, Model: ev.subjects[i].model}
		for j := range ev.file.Cases {
			v.Cases = append(v.Cases, evaluate.Case{Name: ev.file.Cases[j].Name})
		}
		r.Variants = append(r.Variants, v)
	}
	for i, c := range cells {
		to := &r.Variants[c.Variant].Cases[c.Case]
		to.Runs = append(to.Runs, *results[i])
	}
	return r, nil
}

// added returns the sum of two costs, of which nil is none.
func added(a, b *transcript.Cost) *transcript.Cost {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	return &transcript.Cost{Micros: a.Micros + b.Micros, More: a.More || b.More}
}

// affordable returns an error if the runs have cost too much.
func (ev *evaluating) affordable() error {
	ev.mu.Lock()
	defer ev.mu.Unlock()
	if ev.most == 0 || float64(ev.spent) < ev.most*1e6 {
		return nil
	}
	return &Error{Exit: ExitLimit, Code: "budget", Message: fmt.Sprintf("the runs have cost %s, and --total-cost is %g", inwords.Dollars(ev.spent), ev.most)}
}

// cut returns the error of an evaluation that was cut short.
func (ev *evaluating) cut(why error) error {
	var e Error
	if sig, ok := errors.AsType[*signals.Error](why); ok {
		e = Error{Exit: sig.Exit(), Code: "interrupted", Message: "the evaluation was " + sig.Error()}
	} else {
		e = *classify(why)
		e.Next = append(slices.Clip(e.Next), remedies(ev.app, why)...)
	}
	e.Err = why
	e.Message += fmt.Sprintf("; %d of %s have finished", ev.ended, inwords.Plural(ev.of, "run"))
	words := slices.DeleteFunc(slices.Clone(ev.opt.Args), func(w string) bool { return w == "--fresh" || w == "--fresh=true" })
	for i := range words {
		words[i] = clean.Shell(words[i])
	}
	if ev.kept() {
		e.Next = append(slices.Clip(e.Next), "continue: "+ev.program()+" "+strings.Join(words, " "))
	}
	return &e
}

// progress says how a run ended.
func (ev *evaluating) progress(v *recipe.Variant, c *recipe.Case, repetition int, r *evaluate.Run) {
	ev.mu.Lock()
	defer ev.mu.Unlock()
	if ev.ended++; ev.programs() || ev.set.Quiet {
		return
	}
	word := ev.tty.Err.Green("passed")
	if !r.Passed {
		word = ev.tty.Err.Red("failed")
	}
	line := fmt.Sprintf("%*d/%d  %s  %s, %s, run %d  %s", len(fmt.Sprint(ev.of)), ev.ended, ev.of, word, c.Name, v.Name, repetition+1, inwords.Brief(r.Took()))
	if r.Cost != nil && r.Cost.Micros > 0 {
		line += "  " + r.Cost.String()
	}
	fmt.Fprintln(ev.err, line)
}

// result executes a run and its checks. The error is of what keeps the evaluation from continuing.
func (ev *evaluating) result(ctx context.Context, at *attempt, c *recipe.Case) (*evaluate.Run, *transcript.Cost, error) {
	e, err := ev.perform(ctx, at)
	if err != nil {
		return nil, nil, err
	}
	used := e.run.Used()
	r := &evaluate.Run{Run: at.id, Status: e.status, Duration: e.duration.Milliseconds(), Cost: used.Cost}
	switch {
	case e.err != nil:
		r.Why = transcript.Line(strings.ReplaceAll(e.err.Message, "run "+at.id, "the run"))
		r.Next = slices.DeleteFunc(slices.Clone(e.err.Next), func(s string) bool { return strings.Contains(s, "--on-ask") }) // nobody is asked here
	case !e.status.Ended():
		r.Why = fmt.Sprintf("the run is %s", e.status)
		if len(e.open) > 0 {
			r.Why, r.Next = "the run waits for an answer: "+e.open[0].Headline(), []string{"answer ahead, in the file or by --answer; or " + ev.hint("runs", "answer", at.id)}
		}
	}
	if e.status == runlog.Partial && r.Why == "" && !slices.ContainsFunc(c.Checks, func(k recipe.Criterion) bool { return k.LooksAt("status") }) {
		r.Why = "the run completed in part: " + transcript.Line(strings.Join(lacking(e.run), "; "))
		r.Next = []string{"run it anew: --fresh; or let it pass by a check of status"}
	}
	if r.Why != "" {
		return r, nil, nil
	}
	ran := &recipe.Ran{Inputs: at.inputs, Output: e.output, Expected: c.Expected, Status: string(e.status), Seconds: e.duration.Seconds(),
		Tokens: int64(used.In + used.Out), Turns: e.run.Spent.Turns, Calls: e.run.Spent.Calls}
	if used.Cost != nil && !used.Cost.More {
		usd := float64(used.Cost.Micros) / 1e6
		ran.Cost = &usd
	}
	r.Passed = true
	var judging *transcript.Cost
	for i := range c.Checks {
		v := evaluate.Verdict{}
		if k := &c.Checks[i]; k.Judge == "" {
			v = evaluate.Check(k, ran)
		} else {
			cost, err := ev.judgement(ctx, at, k, ran, &v)
			if err != nil {
				return nil, nil, err
			}
			judging = added(judging, cost)
		}
		r.Passed = r.Passed && v.Passed
		r.Checks = append(r.Checks, v)
	}
	return r, judging, nil
}

// judgement has the judge decide on a check, in a run of its own.
func (ev *evaluating) judgement(ctx context.Context, at *attempt, k *recipe.Criterion, ran *recipe.Ran, v *evaluate.Verdict) (*transcript.Cost, error) {
	inputs, err := json.Marshal(map[string]string{"criterion": k.Judge, "result": transcript.Value(ran.Output), "task": string(ran.Inputs), "expected": transcript.Value(ran.Expected)})
	if err != nil {
		return nil, err
	}
	p, err := ev.judge.prepare(inputs)
	if err != nil {
		return nil, err
	}
	judge, err := ev.attempt(ctx, p, at.id)
	if err != nil {
		return nil, err
	}
	judge.title = fmt.Sprintf("%s: judge of %s: %s", filepath.Base(ev.path), at.id, transcript.Line(k.Judge))
	e, err := ev.perform(ctx, judge)
	if err != nil {
		return nil, err
	}
	*v = evaluate.Verdict{Check: k.String(), Run: judge.id}
	var verdict struct {
		Pass *bool
		Why  string
	}
	switch {
	case e.err != nil:
		v.Why = "the judge failed: " + transcript.Line(e.err.Message)
	case json.Unmarshal(e.output, &verdict) != nil || verdict.Pass == nil:
		v.Why = fmt.Sprintf("workflow %s has no verdict; its output must have pass, a boolean, and why", ev.judge.flow.Name)
	default:
		v.Passed, v.Why = *verdict.Pass, transcript.Line(verdict.Why)
	}
	return e.run.Used().Cost, nil
}

// perform executes a run as `run` does without a terminal. A run that has ended already is read.
func (ev *evaluating) perform(ctx context.Context, at *attempt) (*ending, error) {
	answers, err := tui.ParseAnswers("answer", at.answers)
	if err != nil {
		return nil, err
	}
	screen := tui.New(strings.NewReader(""), io.Discard, io.Discard, ev.cfg.Env)
	screen.Look(&tui.Settings{Quiet: true, NoInput: true})
	s := screen.Follow(0, nil)
	s.Ask(ctx, &tui.AskOptions{Answers: answers, Give: func(ctx context.Context, path string, given *runlog.Answer) error {
		return at.engine.Answer(ctx, at.id, path, given)
	}})
	run, err := at.engine.Start(ctx, at.flow.Name, at.inputs, &superstep.StartOptions{ID: at.id, Title: at.title, Answer: s.Answer, Observe: s.Observe, Budget: ev.flags.budget()})
	if err != nil {
		s.Close()
		var ended *runlog.EndedError
		if errors.As(err, &ended) {
			s.Begin(at.id)
			return &ending{run: s.Run(), id: at.id, status: ended.Status, err: &Error{Message: "the run was " + string(ended.Status), Next: []string{"run it anew: --fresh"}}}, nil
		}
		return nil, stopped(ctx, err)
	}
	s.Begin(at.id)
	out, _ := run.Wait(context.Background()) // a run that is told to stop ends in its own time
	s.Close()
	if s.Run().Seq == 0 { // it has ended already
		for rec, err := range run.Follow(context.WithoutCancel(ctx), 0) {
			if err != nil {
				return nil, err
			}
			s.Observe(rec, nil)
		}
	}
	if err := context.Cause(ctx); err != nil && !out.Status.Ended() {
		return nil, err
	}
	e := endingOf(ctx, s, &out)
	if e.err != nil && e.err.Exit == ExitNoModel { // no other run has one either
		return nil, e.err
	}
	if cost := e.run.Used().Cost; cost != nil {
		ev.mu.Lock()
		ev.spent += cost.Micros
		ev.mu.Unlock()
	}
	return e, nil
}

// report prints the results.
func (ev *evaluating) report(r *evaluate.Report) error {
	if ev.junit != "" {
		b, err := r.JUnit()
		if err == nil {
			err = replaceFile(ev.host().Abs(ev.junit), b)
		}
		if err != nil {
			return &Error{Exit: ExitFailed, Code: "output", Message: fmt.Sprintf("cannot write the results: %v", err), Err: err}
		}
	}
	failed := &Error{Exit: ExitFailed, Code: "evaluation", Message: "not passed", shown: true}
	if ev.programs() {
		if err := ev.out.value(r); err != nil || r.Passed {
			return err
		}
		return failed
	}
	ev.out.table(r.Table(), 0, ev.tty.Width())
	if len(r.Comparisons) > 0 {
		ev.out.line("")
	}
	for i := range r.Comparisons {
		ev.out.line(ev.tty.Wrap(r.Comparisons[i].Sentence()))
	}
	if r.Judge != nil {
		ev.out.line("the judge has cost " + r.Judge.String())
	}
	for i := range r.Variants {
		for j := range r.Variants[i].Cases {
			ev.failures(&r.Variants[i], &r.Variants[i].Cases[j])
		}
	}
	if r.Passed {
		return nil
	}
	return failed
}

// replaceFile writes a file anew. It writes through no link, which an agent may have left.
func replaceFile(path string, content []byte) error {
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", path)
	}
	temporary := filepath.Join(filepath.Dir(path), ".write-"+rand.Text())
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666) //nolint:gosec // a report, for others to read
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		_ = os.Remove(temporary)
	}
	return err
}

func (ev *evaluating) failures(v *evaluate.Variant, c *evaluate.Case) {
	for _, f := range c.Failures() {
		ev.out.line(fmt.Sprintf("\n%s, %s: %d of %s", transcript.Line(c.Name), transcript.Line(v.Name), len(f.Runs), inwords.Plural(len(c.Runs), "run")))
		ev.out.line(ev.tty.Wrap("  " + transcript.Line(f.What)))
		if f.Why != "" {
			ev.out.line(ev.tty.Wrap("  " + transcript.Clean(f.Why)))
		}
		for _, n := range f.Next {
			ev.out.line("  " + transcript.Line(n))
		}
		ev.out.line("  " + ev.hint("runs", "show", f.Runs[0]))
	}
}
