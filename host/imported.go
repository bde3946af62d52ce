package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/internal/carry"
	"github.com/superstep-dev/superstep/internal/catalog/trust"
	"github.com/superstep-dev/superstep/internal/inside"
	"github.com/superstep-dev/superstep/internal/mail"
	"github.com/superstep-dev/superstep/internal/recipe"
	"github.com/superstep-dev/superstep/runlog"
)

// An Origin is the mark of an imported run.
type Origin struct {
	Time    time.Time `json:"time"`
	Dir     string    `json:"dir"` // the folder that it works in, which is the importer's
	Digest  string    `json:"digest"`
	Records uint64    `json:"records"` // how many of the first records come from the file; 0 in a fork
	Trusted bool      `json:"trusted"`
	item    trust.Item
}

// runItem returns the item that is trusted for an imported run: the content of the file, in one
// folder.
func runItem(im *runlog.Imported) trust.Item {
	sum := sha256.Sum256([]byte(im.Digest + "\n" + im.Dir))
	digest := hex.EncodeToString(sum[:])
	return trust.Item{Kind: trust.Run, Name: digest[:12], Path: ".", Digest: "sha256:" + digest}
}

func (h *Host) trustStore() (*trust.Store, error) {
	return trust.Open(filepath.Join(h.ConfigDir(), "trust.json"))
}

// trustsRun reports whether the user trusts what an imported run would execute.
func (h *Host) trustsRun(im *runlog.Imported) (bool, error) {
	s, err := h.trustStore()
	if err != nil {
		return false, err
	}
	states, err := s.Status(trust.Runs, []trust.Item{runItem(im)})
	return err == nil && states[0].State == trust.Trusted, err
}

// TrustRun records that the user trusts the definitions that an imported run would execute, or revokes that.
func (h *Host) TrustRun(o *Origin, yes bool) error {
	s, err := h.trustStore()
	switch {
	case err != nil:
		return err
	case yes:
		return s.Trust(trust.Runs, []trust.Item{o.item})
	}
	_, err = s.Revoke(trust.Runs, []string{o.item.Name})
	return err
}

// A KeptRecipe is the text of a recipe that a run has recorded.
type KeptRecipe struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// Pinned holds the definitions that a run of a recipe has pinned. The workflow "agent" has no
// Files.
type Pinned struct {
	Files   []KeptRecipe // the first is that of the run
	Setting struct {
		Dir, Model string
		OnAsk      string `json:"on_ask"`
		Rules      []string
		Parts      map[string]string
	}
}

// Pinned returns the definitions that a run has pinned; it is empty if the run is not of a recipe
// or cannot be read. For an imported run the models, rules and answers to questions in the file are
// ignored.
func (h *Host) Pinned(ctx context.Context, id string) (out Pinned) {
	store, err := h.Store(ctx, true)
	if err != nil {
		return out
	}
	recs, err := store.Read(ctx, id, 1, 1)
	var d runlog.RunStarted
	if err != nil || len(recs) == 0 || recs[0].Kind != runlog.KindRunStarted || json.Unmarshal(recs[0].Data, &d) != nil {
		return out // who needs it says what is wrong
	}
	_ = json.Unmarshal(d.Pinned, &out) // nothing, or of another kind
	if d.Imported != nil {
		out.Setting.Model, out.Setting.OnAsk, out.Setting.Rules = "", "", nil
	}
	return out
}

// Edited returns the file of a run's recipe, and whether it has changed since the run pinned it.
func (h *Host) Edited(ctx context.Context, info *runlog.Info) (file string, changed bool) {
	p := h.Pinned(ctx, info.ID)
	if len(p.Files) == 0 {
		return "", false
	}
	file = p.Files[0].Name
	if b := h.read(); b.project != nil {
		if e, _, err := b.project.Look(info.Workflow); err == nil && e.File == file {
			return file, string(e.Text) != p.Files[0].Text
		}
	}
	path := file
	if !filepath.IsAbs(path) {
		path = filepath.Join(p.Setting.Dir, path)
	}
	return file, differs(path, p.Files[0].Text)
}

// differs reports whether a file holds another recipe than this text. The file of an imported run may name any path, such as
// an endless device.
func differs(path, text string) bool {
	now, err := inside.ReadFile(path, recipe.MaxBytes)
	return err == nil && string(now) != text // else it was moved, or typed elsewhere
}

// Claims lists the definitions that an imported run would execute, and the claims of its file.
type Claims struct {
	Run      string `json:"run"`
	Workflow string `json:"workflow"`
	Origin
	Inputs  json.RawMessage `json:"inputs,omitempty"`
	Recipes []KeptRecipe    `json:"recipes,omitempty"`
	Agents  []string        `json:"agents,omitempty"` // of steps
	Tools   []string        `json:"tools,omitempty"`  // of steps
	Calls   []string        `json:"calls,omitempty"`  // other workflows
	Parts   []string        `json:"parts,omitempty"`  // what the agents and tools were made of, which has to be the same here
	Dropped []string        `json:"dropped,omitempty"`
	// These fields describe the run according to the file. They are not verified.
	Effects   []Claim `json:"effects,omitempty"`
	Answers   []Claim `json:"answers,omitempty"`
	Questions []Claim `json:"questions,omitempty"` // open ones

	Budget *runlog.Budget `json:"budget,omitempty"` // nil for no limit
	at     map[string]int // where an effect, or a question, is in its list
}

// A Claim is an effect or a question in the file of an imported run.
type Claim struct {
	Task    string `json:"task"`
	What    string `json:"what"`
	With    string `json:"with,omitempty"`
	Outcome string `json:"outcome,omitempty"`
	Result  string `json:"result,omitempty"` // what the run continues from, such as the calls that a model asked for
	once    bool
	closed  bool
}

// Claims reads the definitions that an imported run would execute.
func (h *Host) Claims(ctx context.Context, info *runlog.Info, o *Origin) (*Claims, error) {
	store, err := h.Store(ctx, true)
	if err != nil {
		return nil, err
	}
	b := &Claims{Run: info.ID, Workflow: info.Workflow, Origin: *o, at: map[string]int{}}
	for rec, err := range runlog.Records(ctx, store, info.ID, 0) {
		if err != nil {
			return nil, err
		}
		if o.Records > 0 && rec.Seq > o.Records {
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
	b.Questions = slices.DeleteFunc(b.Questions, func(q Claim) bool { return q.closed })
	return b, nil
}

func (b *Claims) read(rec *runlog.Record) error {
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
	case runlog.KindEvent:
		if m := mail.BudgetOf(rec); m != nil {
			b.Budget = &m.Budget
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
	case carry.Kind:
		var d carry.Data
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

// pinned adds the pinned definitions of a run of a recipe, and names the unused ones.
func (b *Claims) pinned(d *runlog.RunStarted) error {
	var p Pinned
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

// recipes adds the recipes that the run or one of its nested workflows executes.
func (b *Claims) recipes(files []KeptRecipe) {
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

// nested reads the recipes from the recorded inputs of a nested workflow. The run resumes with
// these recipes even if recipes of the same names exist here. The inputs of a background workflow
// are in the record of its start.
func (b *Claims) nested(output json.RawMessage) {
	type inputs struct{ Pinned struct{ Files []KeptRecipe } }
	var out struct {
		inputs
		Inputs inputs
	}
	_ = json.Unmarshal(output, &out) // anything else has no recipes
	b.recipes(out.Pinned.Files)
	b.recipes(out.Inputs.Pinned.Files)
}

// effect notes that an effect was begun, or how it ended.
func (b *Claims) effect(rec *runlog.Record, d *runlog.Settled, once bool) {
	id := "effect " + rec.Path + " " + d.Key
	i, known := b.at[id]
	if !known {
		i = len(b.Effects)
		b.at[id], b.Effects = i, append(b.Effects, Claim{Task: rec.Path, What: strings.TrimSpace(d.Kind + " " + d.Name), With: string(d.Input)})
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

func (b *Claims) ask(path string, q *runlog.Question) {
	b.at["question "+path+" "+q.Key] = len(b.Questions)
	b.Questions = append(b.Questions, Claim{Task: path, What: q.Text})
}

func (b *Claims) answer(path string, d *runlog.Answer) {
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
