package console

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/catalog/trust"
	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/runlog"
)

// historyHandler answers GET /runs/{id}/history: the checkpoints of a run or of a graph inside of it, and the state at one of them with what the superstep
// before it changed.
func (s *server) historyHandler(w http.ResponseWriter, r *http.Request) error {
	info, err := s.engine.Find(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	q := r.URL.Query()
	inside := q.Get("inside")
	var all []graph.Checkpoint[json.RawMessage]
	flow, err := s.engine.Inside(r.Context(), info.ID, inside)
	if errors.As(err, new(*graph.InsideError)) {
		err = fmt.Errorf("%w. All graphs of the run are listed at /runs/%s/history", err, info.ID)
	}
	if err != nil {
		return err
	}
	store, err := s.host.Store(r.Context(), true)
	if err != nil {
		return err
	}
	var graphs []string
	for m, err := range flow.Checkpoints(insides(runlog.Records(r.Context(), store, info.ID, 0), &graphs)) {
		if err != nil {
			return fmt.Errorf("run %s: %w", info.ID, err)
		}
		all = append(all, m)
	}
	more := max(0, len(graphs)-graphsShown)
	at := len(all) - 1
	if text := q.Get("step"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n >= len(all) {
			return refuse(http.StatusNotFound, "Run %s has no checkpoint %q.", info.ID, text)
		}
		at = n
	}
	with := at - 1
	if text := q.Get("with"); text != "" {
		if with, err = strconv.Atoi(text); err != nil || with < 0 || with >= len(all) {
			return refuse(http.StatusNotFound, "Run %s has no checkpoint %q.", info.ID, text)
		}
	}
	ref := info.ID
	if inside != "" {
		ref = clean.Shell(ref + "@" + inside)
	}
	data := map[string]any{"Title": "History", "ID": info.ID, "Acts": s.acts(r), "Program": s.opt.Program, "At": at, "Inside": inside, "Graphs": graphs[:len(graphs)-more], "GraphCount": len(graphs), "More": more, "Ref": ref}
	var rows []map[string]any
	for i, m := range all {
		var done []string
		for _, t := range m.Tasks {
			done = append(done, transcript.Line(t.Path))
		}
		rows = append(rows, map[string]any{"N": i, "Step": m.Step, "Seq": m.Seq, "Done": strings.Join(done, ", "), "Next": transcript.Line(strings.Join(m.Next, ", ")), "Here": i == at, "With": i == with, "Error": failures(m.Tasks)})
	}
	data["Rows"] = rows
	if at >= 0 {
		m := all[at]
		data["State"], data["Step"], data["Seq"] = texts(m.State), m.Step, m.Seq
		if with >= 0 {
			changes, err := superstep.Diff(all[with].State, m.State)
			if err != nil {
				return err
			}
			data["Changes"] = changesOf(changes)
		}
		at, from := fmt.Sprintf("@%d", m.Step), strconv.Itoa(m.Step)
		if inside != "" { // a fork begins at the last checkpoint of the run's own graph up to there
			at, from = clean.Shell(fmt.Sprintf("@%s/%d", inside, m.Step)), fmt.Sprintf("seq:%d", m.Seq)
		}
		data["Command"] = fmt.Sprintf("%s runs show %s --at %s --state", s.opt.Program, info.ID, at)
		data["From"], data["Fork"] = from, fmt.Sprintf("%s runs fork %s --from %s", s.opt.Program, info.ID, from)
	}
	s.page(w, r, http.StatusOK, "history", data)
	return nil
}

// graphsShown is how many of the graphs inside of tasks the history lists.
const graphsShown = 50

// insides passes records on, and collects the tasks that ran a graph within the run, as graph.Insides does.
func insides(records iter.Seq2[runlog.Record, error], paths *[]string) iter.Seq2[runlog.Record, error] {
	return func(yield func(runlog.Record, error) bool) {
		seen := map[string]bool{}
		for rec, err := range records {
			if err == nil && rec.Kind == runlog.KindInner && !seen[rec.Path] {
				seen[rec.Path] = true
				*paths = append(*paths, rec.Path)
			}
			if !yield(rec, err) {
				return
			}
		}
	}
}

func failures(tasks []graph.Result) string {
	var out []string
	for _, t := range tasks {
		if t.Error != "" {
			out = append(out, transcript.Line(t.Path+": "+t.Error))
		}
	}
	return strings.Join(out, "; ")
}

// forkHandler answers GET /runs/{id}/fork: what a fork would be, before it is made.
func (s *server) forkHandler(w http.ResponseWriter, r *http.Request) error {
	info, err := s.engine.Find(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	q := r.URL.Query()
	from, status := strings.TrimSpace(q.Get("from")), http.StatusOK
	data := map[string]any{"Title": "Fork", "ID": info.ID, "From": from, "Set": q.Get("set"), "Acts": s.acts(r), "Program": s.opt.Program}
	if from != "" && from != "edited" {
		q.Set("from", from)
		fork, err := s.forkOf(r.Context(), info.ID, q, true)
		if err != nil {
			status, data["Problem"] = http.StatusUnprocessableEntity, s.clean(err.Error())
		} else {
			data["Fork"], data["State"] = fork, texts(fork.State)
		}
		command := s.opt.Program + " runs fork " + info.ID + " --from " + clean.Shell(from)
		for line := range strings.SplitSeq(q.Get("set"), "\n") {
			if line = strings.TrimSpace(line); line != "" {
				command += " --set " + clean.Shell(line)
			}
		}
		data["Command"] = command
	}
	s.page(w, r, status, "fork", data)
	return nil
}

// definitionHandler answers GET /runs/{id}/definition: the recipe that a run began with, and how it has changed since.
func (s *server) definitionHandler(w http.ResponseWriter, r *http.Request) error {
	info, err := s.engine.Find(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	pinned := s.host.Pinned(r.Context(), info.ID)
	if len(pinned.Files) == 0 {
		return refuse(http.StatusNotFound, "Run %s is not of a recipe.", info.ID)
	}
	was := pinned.Files[0]
	s.host.Refresh()
	data := map[string]any{"Title": "Definition", "ID": info.ID, "Program": s.opt.Program, "Acts": s.acts(r), "File": transcript.Line(was.Name), "Text": s.clean(was.Text),
		"Resumes": info.Status != runlog.Completed && info.Status != runlog.Cancelled && info.Status != runlog.Partial && info.Status != runlog.Running}
	if file, changed := s.host.Edited(r.Context(), &info); changed {
		data["Command"] = s.opt.Program + " runs fork " + info.ID + " --recipe " + clean.Shell(file)
		if now, err := s.host.Show(host.Workflows, info.Workflow); now != nil && now.Text != "" {
			data["Diff"] = trust.Diff(was.Text, s.clean(now.Text))
			data["Forks"] = s.acts(r) && err == nil && len(pinned.Setting.Rules) == 0
		}
	}
	s.page(w, r, http.StatusOK, "definition", data)
	return nil
}

// change is a place where two states differ.
type change struct{ Path, Before, After string }

// texts returns JSON with indentation, and the texts in it as they are.
func texts(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return pretty(raw)
	}
	return transcript.Texts(b.Bytes(), "\n")
}

func changesOf(list []superstep.Change) []change {
	var out []change
	for _, c := range list {
		out = append(out, change{transcript.Line(c.Path), texts(c.Before), texts(c.After)})
	}
	return out
}

// diffHandler answers GET /diff: how two runs differ.
func (s *server) diffHandler(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	if runs := q["run"]; len(runs) > 2 {
		return refuse(http.StatusUnprocessableEntity, "Select two runs to compare, and not %d.", len(runs))
	} else if len(runs) > 0 {
		q.Set("a", runs[0])
		q.Set("b", strings.Join(runs[1:], ""))
	}
	data := map[string]any{"Title": "Compare", "A": q.Get("a"), "B": q.Get("b"), "Program": s.opt.Program}
	if q.Get("a") != "" && q.Get("b") != "" {
		d, command, err := s.compare(r.Context(), q)
		if err != nil {
			return err
		}
		var tasks []map[string]any
		only := map[string]string{superstep.OnlyA: "only in " + q.Get("a"), superstep.OnlyB: "only in " + q.Get("b")}
		for _, t := range d.Tasks {
			tasks = append(tasks, map[string]any{"Step": t.Step, "Path": transcript.Line(t.Path), "How": cmp.Or(only[t.How], t.How), "Only": only[t.How] != "", "Changes": changesOf(t.Changes)})
		}
		data["Same"], data["Tasks"], data["State"], data["Command"] = d.Same, tasks, changesOf(d.State), command
	}
	s.page(w, r, http.StatusOK, "diff", data)
	return nil
}

// compare compares the runs a and b of a query, and returns the command that does.
func (s *server) compare(ctx context.Context, q url.Values) (*superstep.RunDiff, string, error) {
	a, err := s.engine.Find(ctx, q.Get("a"))
	if err != nil {
		return nil, "", err
	}
	b, err := s.engine.Find(ctx, q.Get("b"))
	if err != nil {
		return nil, "", err
	}
	d, err := s.engine.Diff(ctx, a.ID, b.ID)
	return d, s.opt.Program + " runs diff " + a.ID + " " + b.ID, err
}

// recordsPage is how many records a page shows.
const recordsPage = 200

// recordsHandler answers GET /runs/{id}/records.
func (s *server) recordsHandler(w http.ResponseWriter, r *http.Request) error {
	info, err := s.engine.Find(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	from, err := strconv.ParseUint("0"+r.URL.Query().Get("from"), 10, 63)
	if err != nil {
		return refuse(http.StatusBadRequest, "from: want the number of a record.")
	}
	store, err := s.host.Store(r.Context(), true)
	if err != nil {
		return err
	}
	recs, err := store.Read(r.Context(), info.ID, max(1, from), recordsPage)
	if err != nil {
		return err
	}
	var rows []map[string]any
	for _, rec := range recs {
		rows = append(rows, map[string]any{"Seq": rec.Seq, "Time": rec.Time.UTC().Format("15:04:05.000"), "Kind": rec.Kind, "Path": transcript.Line(rec.Path), "Data": pretty(rec.Data)})
	}
	data := map[string]any{"Title": "Records", "ID": info.ID, "Rows": rows, "Head": info.Head, "Command": s.opt.Program + " runs show " + info.ID + " --at N"}
	if n := len(recs); n == recordsPage && recs[n-1].Seq < info.Head {
		data["After"] = fmt.Sprintf("/runs/%s/records?from=%d", info.ID, recs[n-1].Seq+1)
	}
	if from > 1 {
		data["Before"] = fmt.Sprintf("/runs/%s/records?from=%d", info.ID, max(1, int64(from)-recordsPage)) //nolint:gosec // of 63 bits
	}
	s.page(w, r, http.StatusOK, "records", data)
	return nil
}

// exportHandler answers GET /runs/{id}/export with the run as JSON Lines, without secrets.
func (s *server) exportHandler(w http.ResponseWriter, r *http.Request) error {
	info, err := s.engine.Find(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Content-Disposition", `attachment; filename="`+url.PathEscape(info.ID)+`.jsonl"`)
	out := bufio.NewWriter(w)
	if err := s.host.Export(r.Context(), info.ID, &host.ExportOptions{Out: out}); err != nil {
		return err
	}
	return out.Flush()
}
