package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/transcript"
	"github.com/superstep-dev/superstep/workflow/recipe"
)

// importedJSON is the mark of an imported run.
type importedJSON struct {
	Time    time.Time `json:"time"`
	Dir     string    `json:"dir"` // the folder that it works in, which is the importer's
	Digest  string    `json:"digest"`
	Records uint64    `json:"records"` // how many of the first records come from the file; 0 in a fork
	Trusted bool      `json:"trusted"`
}

// origin returns the mark of an imported run, nil for any other.
func (a *app) origin(ctx context.Context, id string) (*importedJSON, error) {
	im, err := runlog.Origin(ctx, a.store, id)
	if err != nil || im == nil {
		return nil, err
	}
	ok, err := a.host().TrustsRun(im)
	return &importedJSON{im.Time, im.Dir, im.Digest, im.Records, ok}, err
}

// untrusted is the error of a command that would continue an imported run.
func (a *app) untrusted(id string) *Error {
	return &Error{
		Exit: ExitDenied, Code: "untrusted", Err: &superstep.UntrustedError{ID: id}, Message: (&superstep.UntrustedError{ID: id}).Error(),
		Next: []string{"see what it would execute, and decide: " + a.hint("runs", "trust", id), "trust it without being asked: " + a.hint("runs", "trust", id, "--yes")},
	}
}

// vouch returns an error unless a run may be continued: one that was imported is shown to the
// user, who is asked whether to trust it.
func (a *app) vouch(ctx context.Context, info runlog.Info) error {
	im, err := runlog.Origin(ctx, a.store, info.ID)
	if err != nil || im == nil {
		return err
	}
	if ok, err := a.host().TrustsRun(im); err != nil || ok {
		return err
	}
	if !a.asks() {
		return a.untrusted(info.ID)
	}
	return a.askTrust(ctx, info, im)
}

// askTrust shows what an imported run would execute, and asks whether to trust it.
func (a *app) askTrust(ctx context.Context, info runlog.Info, im *runlog.Imported) error {
	b, err := a.brought(ctx, info, im)
	if err != nil {
		return err
	}
	for _, l := range b.lines(a.set.verbose, a.hint("runs", "trust", info.ID, "-v")) {
		a.err.line(l)
	}
	_ = a.in.fresh(ctx) // what was typed before this is shown is no answer
	fmt.Fprint(a.err, "\nTrust it? What it executes runs with your rights, under your rules. [y/N] ")
	line, ok := a.in.line(ctx)
	if answer := strings.ToLower(strings.TrimSpace(line)); !ok || answer != "y" && answer != "yes" {
		a.err.line("nothing was changed")
		return &Error{Exit: ExitDenied, Code: "untrusted", Message: "not trusted", shown: true}
	}
	return a.host().TrustRun(im)
}

func (a *app) trustRunCommand() *cobra.Command {
	var yes, revoke bool
	cmd := &cobra.Command{
		Use: "trust ID", Short: "Show what an imported run would execute, and decide whether to trust it", Args: oneRun, ValidArgsFunction: a.ids,
		Long: `Show what an imported run would execute, and decide whether to trust it

An imported run is not resumed, answered or forked before you trust it. It works in the folder in which you imported
it, under your rules and with your models. What you trust is the content of the file, in that folder: a file with one
other byte, and the same file in another folder, is shown to you again.`,
		Example: examples(a.cfg.Name, "runs trust @last", "see it, and be asked", "runs trust 7f3a --yes", "without being asked", "runs trust 7f3a -o json", "all of it, for programs", "runs trust 7f3a --revoke", ""),
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "trust it without being asked")
	cmd.Flags().BoolVar(&revoke, "revoke", false, "trust it no longer")
	acts(cmd, "yes", "revoke")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if yes && revoke {
			return usage("runs trust: --yes or --revoke, not both")
		}
		ctx := cmd.Context()
		_, info, err := a.find(ctx, args[0])
		if err != nil {
			return err
		}
		im, err := runlog.Origin(ctx, a.store, info.ID)
		if err != nil {
			return err
		}
		if im == nil {
			return usage(fmt.Sprintf("run %s was not imported: there is nothing to decide", info.ID))
		}
		return a.decideRun(ctx, info, im, yes, revoke)
	}
	return cmd
}

func (a *app) decideRun(ctx context.Context, info runlog.Info, im *runlog.Imported, yes, revoke bool) error {
	if revoke {
		err := a.host().RevokeRun(im)
		if err == nil {
			a.note("run " + info.ID + " is not trusted")
		}
		return err
	}
	trusted, err := a.host().TrustsRun(im)
	if err != nil {
		return err
	}
	if !trusted && !yes && a.asks() {
		if err := a.askTrust(ctx, info, im); err != nil {
			return err
		}
		a.note("run " + info.ID + " is trusted")
		return nil
	}
	b, err := a.brought(ctx, info, im)
	if err != nil {
		return err
	}
	if yes && !trusted {
		if err := a.host().TrustRun(im); err != nil {
			return err
		}
		trusted = true
	}
	b.Trusted = trusted
	switch {
	case a.programs():
		if err := a.out.json(b, a.set.output == "json"); err != nil {
			return err
		}
	case !yes:
		for _, l := range b.lines(a.set.verbose, a.hint("runs", "trust", info.ID, "-v")) {
			a.out.line(l)
		}
	}
	if !trusted {
		e := a.untrusted(info.ID)
		e.Exit, e.shown = ExitPaused, a.programs() // who reads "trusted" there
		return e
	}
	a.note("run " + info.ID + " is trusted")
	return nil
}

// broughtJSON is what an imported run would execute, and what its file claims.
type broughtJSON struct {
	Run      string `json:"run"`
	Workflow string `json:"workflow"`
	importedJSON
	Inputs  json.RawMessage `json:"inputs,omitempty"`
	Recipes []keptFile      `json:"recipes,omitempty"`
	Agents  []string        `json:"agents,omitempty"` // of steps
	Tools   []string        `json:"tools,omitempty"`  // of steps
	Calls   []string        `json:"calls,omitempty"`  // other workflows
	Parts   []string        `json:"parts,omitempty"`  // what the agents and tools were made of, which has to be the same here
	Dropped []string        `json:"dropped,omitempty"`
	// What the file says has happened. Nothing here has seen it.
	Effects   []claimJSON `json:"effects,omitempty"`
	Answers   []claimJSON `json:"answers,omitempty"`
	Questions []claimJSON `json:"questions,omitempty"` // open ones

	Budget *runlog.Budget `json:"budget,omitempty"` // nil for no limit
	at     map[string]int // where an effect, or a question, is in its list
}

// claimJSON is an effect, or a question, that the file has.
type claimJSON struct {
	Task    string `json:"task"`
	What    string `json:"what"`
	With    string `json:"with,omitempty"`
	Outcome string `json:"outcome,omitempty"`
	Result  string `json:"result,omitempty"` // what the run continues from, such as the calls that a model asked for
	once    bool
	closed  bool
}

// brought reads what an imported run would execute.
func (a *app) brought(ctx context.Context, info runlog.Info, im *runlog.Imported) (*broughtJSON, error) {
	b := &broughtJSON{Run: info.ID, Workflow: info.Workflow, importedJSON: importedJSON{im.Time, im.Dir, im.Digest, im.Records, false}, at: map[string]int{}}
	for rec, err := range runlog.Records(ctx, a.store, info.ID, 0) {
		if err != nil {
			return nil, err
		}
		if im.Records > 0 && rec.Seq > im.Records {
			break
		}
		if err := b.read(&rec); err != nil {
			return nil, fmt.Errorf("run %s, record %d (%s): %w", info.ID, rec.Seq, rec.Kind, err)
		}
	}
	for _, q := range b.Questions {
		if q.closed {
			b.Answers = append(b.Answers, q)
		}
	}
	b.Questions = slices.DeleteFunc(b.Questions, func(q claimJSON) bool { return q.closed })
	return b, nil
}

func (b *broughtJSON) read(rec *runlog.Record) error {
	switch rec.Kind {
	case runlog.KindRunStarted:
		var d runlog.RunStarted
		if err := json.Unmarshal(rec.Data, &d); err != nil {
			return err
		}
		b.Workflow, b.Inputs, b.Budget = d.Workflow, d.Inputs, d.Budget
		return b.pinned(&d)
	case runlog.KindRunResumed:
		var d runlog.RunResumed
		if err := json.Unmarshal(rec.Data, &d); err == nil && d.Budget != nil {
			b.Budget = d.Budget
		}
	case runlog.KindIntended, runlog.KindSettled:
		var d struct {
			runlog.Settled
			Once bool `json:"once"`
		}
		if err := json.Unmarshal(rec.Data, &d); err != nil {
			return err
		}
		b.effect(rec, &d.Settled, d.Once)
	case runlog.KindCarried:
		var d runlog.Carried
		if err := json.Unmarshal(rec.Data, &d); err != nil {
			return err
		}
		for _, r := range d.Inner {
			if err := b.read(&runlog.Record{Kind: r.Kind, Path: r.Path, Data: r.Data}); err != nil {
				return err
			}
		}
		for _, s := range d.Scopes {
			at := &runlog.Record{Kind: runlog.KindSettled, Path: s.Path}
			for i := range s.Settled {
				b.effect(at, &s.Settled[i], false)
			}
			for i := range s.Asked {
				b.ask(s.Path, &s.Asked[i])
			}
			for i := range s.Answers {
				b.answer(s.Path, &s.Answers[i])
			}
		}
	case runlog.KindAsked:
		var d runlog.Question
		if err := json.Unmarshal(rec.Data, &d); err != nil {
			return err
		}
		b.ask(rec.Path, &d)
	case runlog.KindAnswered:
		var d runlog.Answer
		if err := json.Unmarshal(rec.Data, &d); err != nil {
			return err
		}
		b.answer(rec.Path, &d)
	}
	return nil
}

// pinned takes what a run of a recipe is made of, and names what of it is not used.
func (b *broughtJSON) pinned(d *runlog.RunStarted) error {
	var p struct {
		Files   []keptFile
		Setting struct {
			Dir, Model string
			OnAsk      string `json:"on_ask"`
			Rules      []string
			Parts      map[string]string
		}
	}
	raw := d.Pinned
	if len(raw) == 0 { // the workflow "agent" has them among its inputs
		raw, _ = json.Marshal(map[string]json.RawMessage{"setting": d.Inputs})
	}
	if json.Unmarshal(raw, &p) != nil {
		return nil // of another workflow, which knows what it has pinned
	}
	b.recipes(p.Files)
	for part := range p.Setting.Parts {
		b.Parts = append(b.Parts, part)
	}
	slices.Sort(b.Parts)
	if p.Setting.Dir != "" {
		b.Dropped = append(b.Dropped, "folder "+p.Setting.Dir)
	}
	for _, r := range p.Setting.Rules {
		b.Dropped = append(b.Dropped, "rule "+r)
	}
	if p.Setting.Model != "" {
		b.Dropped = append(b.Dropped, "model "+p.Setting.Model)
	}
	return nil
}

// recipes adds what the run, or a workflow within it, executes.
func (b *broughtJSON) recipes(files []keptFile) {
	add := func(list *[]string, name string) {
		if !slices.Contains(*list, name) {
			*list = append(*list, name)
		}
	}
	for _, f := range files {
		if slices.Contains(b.Recipes, f) {
			continue
		}
		b.Recipes = append(b.Recipes, f)
		r, _ := recipe.Parse(f.Name, []byte(f.Text))
		if r == nil {
			continue
		}
		r.Walk(func(s *recipe.Step, _ int) bool {
			switch {
			case s.Agent != nil:
				add(&b.Agents, s.Agent.Name)
			case s.Tool != nil:
				add(&b.Tools, s.Tool.Name)
			case s.Workflow != nil:
				add(&b.Calls, s.Workflow.Name)
			}
			return true
		})
	}
}

// nested takes the recipes out of the inputs of a workflow within the run, which are an outcome of its own: the run goes on
// with these, whatever recipe of that name there is here. In the background the inputs are within what says that it began.
func (b *broughtJSON) nested(output json.RawMessage) {
	type inputs struct{ Pinned struct{ Files []keptFile } }
	var out struct {
		inputs
		Inputs inputs
	}
	_ = json.Unmarshal(output, &out) // anything else has no recipes
	b.recipes(out.Pinned.Files)
	b.recipes(out.Inputs.Pinned.Files)
}

// effect notes that an effect was begun, or how it ended.
func (b *broughtJSON) effect(rec *runlog.Record, d *runlog.Settled, once bool) {
	id := "effect " + rec.Path + " " + d.Key
	i, known := b.at[id]
	if !known {
		i = len(b.Effects)
		b.at[id], b.Effects = i, append(b.Effects, claimJSON{Task: rec.Path, What: strings.TrimSpace(d.Kind + " " + d.Name), With: string(d.Input)})
	}
	c := &b.Effects[i]
	c.once = c.once || once
	b.nested(d.Output)
	switch {
	case rec.Kind == runlog.KindIntended:
		c.Outcome = "unknown"
	case d.Error != "":
		c.Outcome = "failed"
	default:
		c.Outcome = "done"
	}
	c.Result = string(d.Output)
	if c.once {
		c.Outcome += ", once"
	}
}

func (b *broughtJSON) ask(path string, q *runlog.Question) {
	b.at["question "+path+" "+q.Key] = len(b.Questions)
	b.Questions = append(b.Questions, claimJSON{Task: path, What: q.Text})
}

func (b *broughtJSON) answer(path string, d *runlog.Answer) {
	i, known := b.at["question "+path+" "+d.Key]
	if !known {
		return
	}
	c := &b.Questions[i]
	c.closed, c.Outcome = true, string(d.Value)
	if d.Denied {
		c.Outcome = "denied"
	}
}

// lines is it for people. Unless all is wanted, long parts are cut, and say so.
func (b *broughtJSON) lines(all bool, more string) []string {
	var out []string
	put := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	list := func(label string, values []string) {
		if len(values) > 0 {
			put("  %-10s %s", label, transcript.Line(strings.Join(values, ", ")))
		}
	}
	block := func(text string, most int) {
		lines := strings.Split(strings.TrimRight(transcript.Clean(text), "\n"), "\n")
		rest := len(lines) - most
		if !all && rest > 0 {
			lines = lines[:most]
		}
		for _, l := range lines {
			if !all {
				l = ansi.Truncate(l, 400, "… (cut: "+more+")")
			}
			put("    %s", l)
		}
		if !all && rest > 0 {
			put("    … %s: %s", plural(rest, "more line"), more)
		}
	}
	put("run %s  %s  imported %s, sha256 %s", b.Run, transcript.Line(b.Workflow), b.Time.Local().Format(time.DateTime), strings.TrimPrefix(b.Digest, "sha256:"))
	put("  works in   %s, under your rules and with your models", transcript.Line(b.Dir))
	list("not used", b.Dropped)
	limits := "none, as the file says"
	if b.Budget != nil {
		if raw, err := json.Marshal(b.Budget); err == nil {
			limits = string(raw) + ", as the file says"
		}
	}
	list("limits", []string{limits})
	list("tools", b.Tools)
	list("agents", b.Agents)
	list("workflows", b.Calls)
	list("made of", b.Parts)
	for _, f := range b.Recipes {
		put("\nrecipe %s:", transcript.Line(f.Name))
		block(f.Text, mostShown)
	}
	if len(b.Inputs) > 0 && string(b.Inputs) != "{}" {
		put("\ninputs:")
		text, err := prettyJSON(b.Inputs)
		if err != nil {
			text = string(b.Inputs)
		}
		block(text, mostShown/3)
	}
	claims := func(head string, claims []claimJSON) {
		if len(claims) == 0 {
			return
		}
		var lines []string
		for _, c := range claims {
			l := transcript.Line(strings.TrimSpace(c.Task + ": " + c.What + " " + c.With))
			if c.Outcome != "" {
				l += " -> " + transcript.Line(c.Outcome)
			}
			if all && c.Result != "" {
				l += ": " + transcript.Line(c.Result)
			}
			lines = append(lines, l)
		}
		put("\n%s", head)
		block(strings.Join(lines, "\n"), mostShown/3)
	}
	claims("effects, as the file claims (their outcomes are used and not checked):", b.Effects)
	claims("answers, as the file claims (none of them permits anything here):", b.Answers)
	claims("open questions:", b.Questions)
	return out
}

// twice is a file that can be read twice: r itself, or a copy of what comes through a pipe.
func twice(r io.Reader) (_ io.ReadSeeker, done func(), err error) {
	if s, ok := r.(io.ReadSeeker); ok {
		if _, err := s.Seek(0, io.SeekCurrent); err == nil {
			return s, func() {}, nil
		}
	}
	f, err := os.CreateTemp("", "import-*")
	if err != nil {
		return nil, nil, err
	}
	done = func() { _ = errors.Join(f.Close(), os.Remove(f.Name())) } // it is a copy
	if _, err = io.Copy(f, r); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		done()
		return nil, nil, err
	}
	return f, done, nil
}
