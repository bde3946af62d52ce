// Package rundir writes what a run did as files, for people and for other tools:
//
//	run.json           what it is, what went in and came out, its supersteps and tasks
//	agents/NAME.json   one per agent: what it was asked, what it did and said
//	reports/NAME.md    the texts of its output
//	tasks.json         the task list of a run that has one, with the states of its tasks
//	progress.md        the same for people
//	logs/run.log       what happened, a line for each thing
//	logs/run.jsonl     its log, which archive.Import reads, if that is asked for
//
// The files are a reading of the log and nothing is read back from them. Secrets are
// taken out of them unless that is turned off.
package rundir

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/renameio/v2/maybe"

	"github.com/superstep-dev/superstep/internal/archive"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/redact"
)

// Options are the settings of Write. Nil means the defaults.
type Options struct {
	Redactor *redact.Redactor // defaults to one that knows the shapes of credentials
	Plain    bool             // take nothing out
	Log      bool             // write logs/run.jsonl too, which is as large as the log
	Now      func() time.Time // says how long what is under way has taken; defaults to time.Now
}

// A Folder is the directory of a run, which is kept up to date. Its methods are called by one goroutine at a time.
type Folder struct {
	store   runlog.Store
	id, dir string
	opt     Options
	run     transcript.Run
	log     bytes.Buffer // of logs/run.log
	next    uint64       // the record to read next
	ended   bool         // the log does not hold how the run ended, so that it must be read anew
}

// Open returns the directory of a run in a store. It touches nothing.
func Open(store runlog.Store, id, dir string, opt *Options) *Folder {
	f := &Folder{store: store, id: id, dir: dir, next: 1}
	if opt != nil {
		f.opt = *opt
	}
	switch o := &f.opt; {
	case o.Plain:
		o.Redactor = nil
	case o.Redactor == nil:
		o.Redactor = redact.New()
	}
	if f.opt.Now == nil {
		f.opt.Now = time.Now
	}
	return f
}

// Write brings the directory of a run up to date once, see [Folder.Update].
func Write(ctx context.Context, store runlog.Store, id, dir string, opt *Options) error {
	return Open(store, id, dir, opt).Update(ctx)
}

// Update writes the directory of a run, or brings it up to date: it makes what is missing and replaces what has
// changed, each file whole or not at all, for the user alone. It reads the records that the Update before has not
// read, and keeps in memory what it writes. What else is in the directory it leaves as it is.
//
// It does nothing if run.json says that the run was written when it had the same last record
// and status, with the secrets of the same names taken out, unless Log is set. Run.json is
// written last.
func (f *Folder) Update(ctx context.Context) error {
	infos, err := f.store.Runs(ctx, &runlog.Filter{ID: f.id})
	if err != nil {
		return err
	}
	if len(infos) == 0 {
		return &runlog.NotFoundError{ID: f.id, Store: "the store"}
	}
	info, o := infos[0], &f.opt
	out := rules(o.Redactor)
	if now := (stamp{marker, format, f.id, info.Head, info.Status, out}); !o.Log && written(f.dir) == now {
		return nil
	}
	if f.ended {
		f.run, f.next, f.ended = transcript.Run{}, 1, false
		f.log.Reset()
	}
	for r, err := range runlog.Records(ctx, f.store, f.id, f.next) {
		if err != nil {
			return err
		}
		f.next = r.Seq + 1
		r.Path, r.Data = o.Redactor.Text(r.Path), o.Redactor.JSON(r.Data)
		f.run.Apply(r)
		f.note(&r)
	}
	info.Workflow, info.Title = o.Redactor.Text(info.Workflow), o.Redactor.Text(info.Title)
	f.ended = f.run.Status == runlog.Running && info.Status != runlog.Running
	f.run.End(info.Status)
	d := &directory{root: f.dir}
	now := o.Now()
	var names names
	for _, a := range f.run.Agents {
		d.json(filepath.Join("agents", names.next(label(a))+".json"), describeAgent(a, now))
	}
	d.reports(f.run.Output)
	d.plan(&f.run)
	d.file(filepath.Join("logs", "run.log"), f.log.Bytes())
	if o.Log && d.err == nil {
		d.err = d.export(ctx, f.store, f.id, o)
	}
	d.json(runName, describe(&f.run, &info, now, out)) // last, since it says that the others are there
	if d.err != nil {
		return fmt.Errorf("writing the directory of run %s: %w", f.id, d.err)
	}
	return nil
}

// A directory takes files until one cannot be written.
type directory struct {
	root string
	made map[string]bool
	err  error
}

// file replaces a file if it has other contents.
func (d *directory) file(name string, data []byte) {
	if d.err != nil {
		return
	}
	path := filepath.Join(d.root, name)
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, data) {
		return
	}
	if parent := filepath.Dir(path); !d.made[parent] {
		if d.err = os.MkdirAll(parent, 0o700); d.err != nil {
			return
		}
		if d.made == nil {
			d.made = map[string]bool{}
		}
		d.made[parent] = true
	}
	d.err = maybe.WriteFile(path, data, 0o600)
}

func (d *directory) json(name string, v any) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		d.err = errors.Join(d.err, fmt.Errorf("%s: %w", name, err))
		return
	}
	d.file(name, b.Bytes())
}

// reports writes the texts of an output: one that is a text, and the fields of an object
// that people are to read.
func (d *directory) reports(output json.RawMessage) {
	var text string
	if json.Unmarshal(output, &text) == nil {
		if text != "" {
			d.report("report", text)
		}
		return
	}
	dec := json.NewDecoder(bytes.NewReader(output))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return
	}
	var names names
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return
		}
		var v any
		if dec.Decode(&v) != nil {
			return
		}
		text, _ := v.(string)
		switch {
		case text != "" && (name == "text" || name == "answer"):
			d.report(names.next("report"), text)
		case strings.Contains(strings.TrimSpace(text), "\n"):
			d.report(names.next(fmt.Sprint(name)), text)
		}
	}
}

func (d *directory) report(name, text string) {
	d.file(filepath.Join("reports", name+".md"), []byte(strings.TrimRight(transcript.Clean(text), "\n")+"\n"))
}

func (d *directory) export(ctx context.Context, store runlog.Store, id string, o *Options) error {
	tmp, err := os.CreateTemp(filepath.Join(d.root, "logs"), ".run-*.jsonl") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // nothing, once it is renamed
	if err := archive.Export(ctx, store, id, tmp, o.Redactor); err != nil {
		return errors.Join(err, tmp.Close())
	}
	if err := errors.Join(tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), filepath.Join(d.root, "logs", "run.jsonl"))
}

// plan writes the task list of a run: what its tasks have, beside the lists of the agents within them.
func (d *directory) plan(r *transcript.Run) {
	var b strings.Builder
	list := []transcript.Todo{}
	for _, t := range r.Tasks {
		if t.Parent == nil {
			list = append(list, t.Todos...)
		}
	}
	if len(list) == 0 {
		return
	}
	done := 0
	for _, t := range list {
		if t.Status == "completed" {
			done++
		}
		mark := map[string]string{"completed": "x", "in_progress": "~", "error": "!"}[t.Status]
		fmt.Fprintf(&b, "- [%s] %s %s", cmp.Or(mark, " "), t.ID, t.Content)
		if len(t.BlockedBy) > 0 {
			b.WriteString(" (after " + strings.Join(t.BlockedBy, ", ") + ")")
		}
		b.WriteByte('\n')
	}
	d.json(tasksName, list)
	d.file(progressName, fmt.Appendf(nil, "# %s: %d of %d tasks done\n\n%s", cmp.Or(transcript.Line(string(r.Status)), "running"), done, len(list), b.String()))
}

// FileName creates a safe file name of a label: what is not a letter or digit of ASCII, or one
// of . - _, becomes a _. It is not empty, hidden, too long, or a name that some system
// keeps for itself.
func FileName(label string) string {
	const most = 80
	var b strings.Builder
	gap := false
	for _, c := range label {
		safe := c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '.' || c == '-' || c == '_'
		if !safe {
			gap = true
			continue
		}
		if gap && b.Len() > 0 {
			b.WriteByte('_')
		}
		gap = false
		b.WriteRune(c)
	}
	name := strings.Trim(b.String(), "._-")
	if len(name) > most {
		name = strings.TrimRight(name[:most], "._-")
	}
	stem, _, _ := strings.Cut(strings.ToLower(name), ".")
	device := len(stem) == 4 && (stem[:3] == "com" || stem[:3] == "lpt") && stem[3] >= '0' && stem[3] <= '9'
	switch {
	case name == "":
		return "unnamed"
	case device, stem == "con", stem == "prn", stem == "aux", stem == "nul":
		return "_" + name
	}
	return name
}

// names assigns each file a name of its own, on systems that do not tell case apart too.
type names map[string]bool

func (n *names) next(label string) string {
	if *n == nil {
		*n = names{}
	}
	base := FileName(label)
	name := base
	for i := 2; (*n)[strings.ToLower(name)]; i++ {
		name = fmt.Sprintf("%s-%d", base, i)
	}
	(*n)[strings.ToLower(name)] = true
	return name
}
