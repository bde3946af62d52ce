package console

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/transcript"
)

// historyHandler answers GET /runs/{id}/history: the checkpoints of a run, and the state at one of them with what the superstep before it changed.
func (s *server) historyHandler(w http.ResponseWriter, r *http.Request) error {
	info, err := s.engine.Find(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	q := r.URL.Query()
	var all []graph.Checkpoint[json.RawMessage]
	for m, err := range s.engine.History(r.Context(), info.ID) {
		if err != nil {
			return err
		}
		all = append(all, m)
	}
	at := len(all) - 1
	if text := q.Get("step"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n >= len(all) {
			return refuse(http.StatusNotFound, "Run %s has no checkpoint %q.", info.ID, text)
		}
		at = n
	}
	data := map[string]any{"Title": "History", "ID": info.ID, "Acts": s.acts(r), "Program": s.opt.Program, "At": at}
	var rows []map[string]any
	for i, m := range all {
		var done []string
		for _, t := range m.Tasks {
			done = append(done, transcript.Line(t.Path))
		}
		rows = append(rows, map[string]any{"N": i, "Step": m.Step, "Seq": m.Seq, "Done": strings.Join(done, ", "), "Next": transcript.Line(strings.Join(m.Next, ", ")), "Here": i == at})
	}
	data["Rows"] = rows
	if at >= 0 {
		m := all[at]
		data["State"], data["Step"], data["Seq"] = pretty(m.State), m.Step, m.Seq
		var before json.RawMessage
		if at > 0 {
			before = all[at-1].State
		}
		changes, err := superstep.Diff(before, m.State)
		if err != nil {
			return err
		}
		data["Changes"] = changesOf(changes)
		data["Command"] = fmt.Sprintf("%s runs show %s --at @%d --state", s.opt.Program, info.ID, m.Step)
		data["Fork"] = fmt.Sprintf("%s runs fork %s --from %d", s.opt.Program, info.ID, m.Step)
	}
	s.page(w, r, http.StatusOK, "history", data)
	return nil
}

// change is a place where two states differ.
type change struct{ Path, Before, After string }

func changesOf(list []superstep.Change) []change {
	var out []change
	for _, c := range list {
		out = append(out, change{transcript.Line(c.Path), pretty(c.Before), pretty(c.After)})
	}
	return out
}

// diffHandler answers GET /diff: how two runs differ.
func (s *server) diffHandler(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	data := map[string]any{"Title": "Compare", "A": q.Get("a"), "B": q.Get("b"), "Program": s.opt.Program}
	if q.Get("a") != "" && q.Get("b") != "" {
		a, err := s.engine.Find(r.Context(), q.Get("a"))
		if err != nil {
			return err
		}
		b, err := s.engine.Find(r.Context(), q.Get("b"))
		if err != nil {
			return err
		}
		d, err := s.engine.Diff(r.Context(), a.ID, b.ID)
		if err != nil {
			return err
		}
		var tasks []map[string]any
		for _, t := range d.Tasks {
			tasks = append(tasks, map[string]any{"Step": t.Step, "Path": transcript.Line(t.Path), "How": t.How, "Changes": changesOf(t.Changes)})
		}
		data["Same"], data["Tasks"], data["State"], data["Command"] = d.Same, tasks, changesOf(d.State), s.opt.Program+" runs diff "+a.ID+" "+b.ID
	}
	s.page(w, r, http.StatusOK, "diff", data)
	return nil
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
