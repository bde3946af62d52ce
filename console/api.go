package console

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/promtext"
	"github.com/superstep-dev/superstep/internal/strict"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/runlog"
)

// An operation is an entry of the interface for programs, and of its description.
type operation struct {
	method, path, about string
	query               []string        // names and meanings of parameters, with a colon between
	body                json.RawMessage // the schema of what is sent, nil for nothing
	gives               string          // the kind of the answer: json or jsonl
	access              access
	do                  func(w http.ResponseWriter, r *http.Request) error
}

func reply200(w http.ResponseWriter, v any) error {
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(v)
}

// operations are the entries below /api/v1.
func (s *server) operations() []operation {
	run := json.RawMessage(`{"type":"object","required":["workflow"],"properties":{"workflow":{"type":"string"},"inputs":{"type":"object"},"model":{"type":"string"},
		"queue":{"type":"object","description":"leave the run to a worker","properties":{"place":{"type":"array","items":{"type":"string"}},"priority":{"type":"integer"},"key":{"type":"string"},"limit":{"type":"integer"},"not_before":{"type":"string","description":"such as 2026-12-24T18:00:00Z"}},"additionalProperties":false}},"additionalProperties":false}`)
	answer := json.RawMessage(`{"type":"object","required":["path","key"],"properties":{"path":{"type":"string"},"key":{"type":"string"},"answer":{},"digest":{"type":"string"}},"additionalProperties":false}`)
	fork := json.RawMessage(`{"type":"object","required":["from"],"properties":{"from":{"type":"string"},"set":{"type":"array","items":{"type":"string"}},"rest":{"type":"boolean"}},"additionalProperties":false}`)
	steer := json.RawMessage(`{"type":"object","required":["text"],"properties":{"text":{"type":"string"},"agent":{"type":"string"}},"additionalProperties":false}`)
	budget := json.RawMessage(`{"type":"object","properties":{"money":{"type":"number","description":"in US dollars"},"tokens":{"type":"integer"},"turns":{"type":"integer"},"calls":{"type":"integer"}},"additionalProperties":false}`)
	stop := json.RawMessage(`{"type":"object","required":["agent"],"properties":{"agent":{"type":"string","description":"its path"}},"additionalProperties":false}`)
	interrupt := json.RawMessage(`{"type":"object","properties":{"agent":{"type":"string","description":"its path, the lead if left out"}},"additionalProperties":false}`)
	approve := json.RawMessage(`{"type":"object","properties":{"replace":{"type":"boolean"}},"additionalProperties":false}`)
	forget := json.RawMessage(`{"type":"object","required":["rule"],"properties":{"rule":{"type":"string"}},"additionalProperties":false}`)
	lint := json.RawMessage(`{"type":"object","required":["text"],"properties":{"text":{"type":"string"},"name":{"type":"string"}},"additionalProperties":false}`)
	none := json.RawMessage(`{"type":"object","additionalProperties":false}`)
	id := func(do func(ctx context.Context, id string, form url.Values) (string, error)) func(http.ResponseWriter, *http.Request) error {
		return s.api(s.runAct(do))
	}
	return []operation{
		{"GET", "/runs", "Runs, the newest first", []string{"status: only these, with commas between", "workflow: only of this one", "limit: at most this many, 50 if left out"}, nil, "json", viewing, s.apiRuns},
		{"POST", "/runs", "Start a run", nil, run, "json", operating, s.api(s.startRun)},
		{"GET", "/runs/{id}", "A run with its supersteps and tasks, as of its last record or another", []string{"at: the number of a record"}, nil, "json", viewing, s.apiRun},
		{"GET", "/runs/{id}/view", "The view of a run: a snapshot, then what changes, as JSON Lines", nil, nil, "jsonl", viewing, s.apiView},
		{"GET", "/runs/{id}/records", "The records of a run, as JSON Lines", []string{"from: the first one", "limit: at most this many, 200 if left out"}, nil, "jsonl", viewing, s.apiRecords},
		{"POST", "/runs/{id}/answer", "Answer a question", nil, answer, "json", operating, s.apiAnswer},
		{"POST", "/runs/{id}/steer", "Tell an agent something, or send the next message of a conversation", nil, steer, "json", operating, id(s.steer)},
		{"POST", "/runs/{id}/pause", "Start no new task", nil, none, "json", operating, id(s.pause)},
		{"POST", "/runs/{id}/resume", "Continue", nil, none, "json", operating, id(s.resume)},
		{"POST", "/runs/{id}/cancel", "End for good", nil, none, "json", operating, id(s.cancel)},
		{"POST", "/runs/{id}/budget", "Set new limits", nil, budget, "json", operating, id(s.budget)},
		{"POST", "/runs/{id}/fork", "Make a new run of a point of this one", nil, fork, "json", operating, id(s.fork)},
		{"GET", "/runs/{id}/fork", "What a fork would be, before it is made", []string{"from: the point", "set: changes of the state, one to a line"}, nil, "json", viewing, s.apiPreview},
		{"POST", "/runs/{id}/stop", "Stop one agent", nil, stop, "json", operating, id(s.stopAgent)},
		{"POST", "/runs/{id}/interrupt", "Break off the current turn of an agent", nil, interrupt, "json", operating, id(s.interrupt)},
		{"GET", "/runs/{id}/history", "The checkpoints of a run with their states", []string{"inside: a task, for those of the graph inside of it"}, nil, "json", viewing, s.apiHistory},
		{"GET", "/runs/{id}/export", "A run as a file that can be imported, as JSON Lines", nil, nil, "jsonl", viewing, s.exportHandler},
		{"GET", "/diff", "How two runs differ", []string{"a: a run", "b: another run"}, nil, "json", viewing, s.apiDiff},
		{"POST", "/runs/{id}/rerun", "Make a new run that does what failed again", nil, none, "json", operating, id(s.rerun)},
		{"GET", "/inbox", "What waits for somebody, of all runs: questions, budgets, workers that are missing", nil, nil, "json", viewing, s.apiInbox},
		{"POST", "/workflows/{name}/approve", "Approve a draft", nil, approve, "json", operating, s.api(s.draft(true))},
		{"POST", "/workflows/{name}/reject", "Remove a draft", nil, none, "json", operating, s.api(s.draft(false))},
		{"POST", "/lint", "The problems of a recipe", nil, lint, "json", viewing, s.apiLint},
		{"GET", "/settings", "Settings and permission rules, each with its source", nil, nil, "json", viewing, s.apiSettings},
		{"POST", "/permissions/forget", "Forget a rule that was an answer of \"always\"", nil, forget, "json", operating, s.api(s.forget)},
		{"GET", "/workflows", "What can be run", nil, nil, "json", viewing, s.apiItems(host.Workflows)},
		{"GET", "/agents", "Agents", nil, nil, "json", viewing, s.apiItems(host.Agents)},
		{"GET", "/tools", "Tools", nil, nil, "json", viewing, s.apiItems(host.Tools)},
		{"GET", "/skills", "Skills", nil, nil, "json", viewing, s.apiItems(host.Skills)},
	}
}

// api is an act for programs: what is sent is JSON, and the answer names the run.
func (s *server) api(do act) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := s.match(r); err != nil {
			return err
		}
		ctx := context.WithoutCancel(r.Context())
		to, err := s.once(r.Header.Get("Idempotency-Key"), r, func() (string, error) { return do(ctx, r) })
		if err != nil {
			return err
		}
		to, _, _ = strings.Cut(to, "?")
		run, of := strings.CutPrefix(to, "/runs/")
		if !of {
			return reply200(w, map[string]string{"see": to})
		}
		return reply200(w, map[string]string{"run": run})
	}
}

// checked reads what a program sends, JSON that fits a schema, into the form that a page would send.
func checked(schema json.RawMessage, do handler) handler {
	read, err := strict.SchemaReader{}.Read(schema, true)
	var fits *jsonschema.Resolved
	if err == nil {
		fits, err = read.Resolve(nil)
	}
	if err != nil {
		panic(err) // of a schema above
	}
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := sentAs(r, "application/json"); err != nil {
			return err
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return err
		}
		if r.ContentLength == 0 {
			body = []byte("{}")
		}
		v, err := strict.Decode(body)
		if err != nil {
			return refuse(http.StatusBadRequest, "What was sent cannot be read: %v.", err)
		}
		if faults := strict.Faults(fits, v); len(faults) > 0 {
			return refuse(http.StatusUnprocessableEntity, "%s", strings.Join(faults, "\n"))
		}
		if r.PostForm, err = formOf(body); err != nil {
			return err
		}
		return do(w, r)
	}
}

// formOf turns a JSON object into the form of a page.
func formOf(text []byte) (url.Values, error) {
	var body map[string]json.RawMessage
	if err := json.Unmarshal(text, &body); err != nil {
		return nil, err
	}
	form := url.Values{}
	for k, v := range body {
		var list []string
		switch {
		case k == "inputs":
			form.Set("json", string(v))
		case k == "queue":
			form.Set(k, string(v))
		case (k == "rest" || k == "replace") && string(v) == "true":
			form.Set(k, "yes")
		case json.Unmarshal(v, &list) == nil:
			form.Set(k, strings.Join(list, "\n"))
		default:
			form.Set(k, transcript.Value(v))
		}
	}
	return form, nil
}

// match checks the header If-Match, which has the number of the last record that the program knows.
func (s *server) match(r *http.Request) error {
	want := r.Header.Get("If-Match")
	if want == "" || r.PathValue("id") == "" {
		return nil
	}
	info, err := s.engine.Find(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	if tag(info.Head) != want {
		return refuse(http.StatusPreconditionFailed, "Run %s has changed: its last record is %d.", info.ID, info.Head)
	}
	return nil
}

func tag(head uint64) string { return fmt.Sprintf(`"%d"`, head) }

func (s *server) apiRuns(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	limit := 50
	if text := q.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 1000 {
			return refuse(http.StatusBadRequest, "limit: want a number from 1 to 1000.")
		}
		limit = n
	}
	infos, err := s.engine.Runs(r.Context(), nil)
	if err != nil {
		return err
	}
	status, workflow := q.Get("status"), q.Get("workflow")
	infos = slices.DeleteFunc(infos, func(i runlog.Info) bool {
		return workflow != "" && i.Workflow != workflow || status != "" && !slices.Contains(strings.Split(status, ","), string(i.Status))
	})
	items, _, err := s.host.RunItems(r.Context(), infos[:min(limit, len(infos))])
	if err != nil {
		return err
	}
	return reply200(w, map[string]any{"runs": items})
}

func (s *server) apiRun(w http.ResponseWriter, r *http.Request) error {
	info, err := s.engine.Find(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	var run *transcript.Run
	if at, err := strconv.ParseUint(r.URL.Query().Get("at"), 10, 63); err == nil && at > 0 {
		m, _, err := s.past(r.Context(), info.ID, at)
		if err != nil {
			return err
		}
		m.mu.Lock()
		run = m.run.Clone()
		m.mu.Unlock()
	} else {
		h, err := s.hub(r.Context(), info.ID)
		if err != nil {
			return err
		}
		h.mu.Lock()
		run = h.run.Clone()
		h.mu.Unlock()
	}
	etag := tag(run.Seq)
	out := map[string]any{}
	if wait := run.Wait(); wait != nil && wait.What == "worker" {
		items, _, err := s.host.RunItems(r.Context(), []runlog.Info{info})
		if err != nil {
			return err
		}
		if out["reason"], out["next"] = items[0].Reason, items[0].Next; items[0].Reason != "" {
			etag = "" // it changes without the run
		}
	}
	if etag != "" {
		if w.Header().Set("ETag", etag); r.Header.Get("If-None-Match") == etag {
			w.WriteHeader(http.StatusNotModified)
			return nil
		}
	}
	var view transcript.Feed
	changes := view.Next(run)
	at := slices.IndexFunc(changes, func(c transcript.Change) bool { return c.Run != nil }) // behind the line that says what comes
	var open []*transcript.Question
	var digests []string
	for _, q := range run.Open() {
		open, digests = append(open, q), append(digests, digest(&q.Asked))
	}
	maps.Copy(out, map[string]any{"id": info.ID, "seq": run.Seq, "run": changes[at].Run, "steps": run.Report(s.opt.Now()), "questions": open, "digests": digests})
	return reply200(w, out)
}

// apiView sends the view of a run until the reader leaves.
func (s *server) apiView(w http.ResponseWriter, r *http.Request) error {
	info, err := s.engine.Find(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	h, err := s.hub(r.Context(), info.ID)
	if err != nil {
		return err
	}
	closed, err := s.opened(w)
	if err != nil {
		return err
	}
	defer closed()
	wakes, leave := h.watch(r.Context())
	defer leave()
	w.Header().Set("Content-Type", "application/x-ndjson")
	out, enc := http.NewResponseController(w), json.NewEncoder(w)
	var feed transcript.Feed
	for {
		h.mu.Lock()
		changes := feed.Next(&h.run)
		over := h.status.Ended()
		h.mu.Unlock()
		for i := range changes {
			if err := enc.Encode(&changes[i]); err != nil {
				return nil //nolint:nilerr // the reader has left
			}
		}
		if err := out.Flush(); err != nil || over {
			return nil //nolint:nilerr // as above
		}
		select {
		case <-r.Context().Done():
			return nil
		case <-s.ctx.Done():
			return nil
		case <-wakes:
		}
	}
}

func (s *server) apiRecords(w http.ResponseWriter, r *http.Request) error {
	info, err := s.engine.Find(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	number := func(name string, def, most uint64) (uint64, error) {
		text := r.URL.Query().Get(name)
		if text == "" {
			return def, nil
		}
		n, err := strconv.ParseUint(text, 10, 63)
		if err != nil || n < 1 || n > most {
			return 0, refuse(http.StatusBadRequest, "%s: want a number from 1 to %d.", name, most)
		}
		return n, nil
	}
	from, err := number("from", 1, 1<<62)
	if err != nil {
		return err
	}
	limit, err := number("limit", recordsPage, 10_000)
	if err != nil {
		return err
	}
	store, err := s.host.Store(r.Context(), true)
	if err != nil {
		return err
	}
	recs, err := store.Read(r.Context(), info.ID, from, int(limit)) //nolint:gosec // at most 10,000
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	enc := json.NewEncoder(w)
	for i := range recs {
		rec := &recs[i]
		line := map[string]any{"seq": rec.Seq, "time": rec.Time, "kind": rec.Kind, "path": rec.Path, "data": json.RawMessage(s.host.Redactor().JSON(rec.Data))}
		if len(rec.Data) == 0 {
			delete(line, "data")
		}
		if err := enc.Encode(line); err != nil {
			return nil //nolint:nilerr // the reader has left
		}
	}
	return nil
}

// apiAnswer answers a question with a value, or with a word as people type it.
func (s *server) apiAnswer(w http.ResponseWriter, r *http.Request) error {
	return s.api(s.runAct(func(ctx context.Context, id string, form url.Values) (string, error) {
		form.Set("value", form.Get("answer"))
		if form.Get("digest") == "" {
			h, err := s.hub(ctx, id)
			if err != nil {
				return "", err
			}
			h.mu.Lock()
			for _, q := range h.run.Open() {
				if q.Path == form.Get("path") && q.Key == form.Get("key") {
					form.Set("digest", digest(&q.Asked))
				}
			}
			h.mu.Unlock()
		}
		return s.answer(ctx, id, form)
	}))(w, r)
}

func (s *server) apiInbox(w http.ResponseWriter, r *http.Request) error {
	items, err := s.host.Inbox(r.Context())
	if err != nil {
		return err
	}
	return reply200(w, map[string]any{"questions": items})
}

func (s *server) apiItems(kind string) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		items, _, err := s.host.List(r.Context(), kind, false)
		if err != nil {
			return err
		}
		return reply200(w, map[string]any{kind: items})
	}
}

func (s *server) apiPreview(w http.ResponseWriter, r *http.Request) error {
	fork, err := s.forkOf(r.Context(), r.PathValue("id"), r.URL.Query(), true)
	if err != nil {
		return err
	}
	return reply200(w, fork)
}

func (s *server) apiHistory(w http.ResponseWriter, r *http.Request) error {
	info, err := s.engine.Find(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	all := []map[string]any{}
	for m, err := range s.engine.History(r.Context(), info.ID, r.URL.Query().Get("inside")) {
		if err != nil {
			return err
		}
		all = append(all, map[string]any{"seq": m.Seq, "step": m.Step, "state": m.State, "tasks": m.Tasks, "next": m.Next})
	}
	return reply200(w, map[string]any{"checkpoints": all})
}

func (s *server) apiDiff(w http.ResponseWriter, r *http.Request) error {
	d, _, err := s.compare(r.Context(), r.URL.Query())
	if err != nil {
		return err
	}
	return reply200(w, d)
}

func (s *server) apiLint(w http.ResponseWriter, r *http.Request) error {
	problems, err := s.lint(r.PostForm)
	if err != nil {
		return err
	}
	return reply200(w, map[string]any{"problems": problems})
}

func (s *server) apiSettings(w http.ResponseWriter, _ *http.Request) error {
	settings, rules, err := s.effective()
	if err != nil {
		return err
	}
	list := []map[string]string{}
	for _, x := range rules {
		list = append(list, map[string]string{"decision": string(x.Decision), "rule": x.String(), "layer": string(x.Layer), "source": x.Source, "ignored": x.Ignored})
	}
	return reply200(w, map[string]any{"settings": settings, "rules": list})
}

// registerAPI registers the interface for programs, with its description.
func (s *server) registerAPI() {
	paths := map[string]map[string]any{}
	for _, o := range s.operations() {
		do := handler(o.do)
		if o.body != nil {
			do = checked(o.body, do)
		}
		s.route(o.method+" /api/v1"+o.path, o.access, do)
		if o.access == operating && s.opt.ReadOnly {
			continue
		}
		entry := map[string]any{"summary": o.about, "responses": map[string]any{
			"200":     map[string]any{"description": "as asked for", "content": map[string]any{map[string]string{"json": "application/json", "jsonl": "application/x-ndjson"}[o.gives]: map[string]any{}}},
			"default": map[string]any{"description": "a problem, see RFC 9457", "content": map[string]any{"application/problem+json": map[string]any{}}},
		}}
		var params []map[string]any
		if strings.Contains(o.path, "{id}") {
			params = append(params, map[string]any{"name": "id", "in": "path", "required": true, "schema": map[string]string{"type": "string"}, "description": "of the run, or the beginning of it"})
		}
		if strings.Contains(o.path, "{name}") {
			params = append(params, map[string]any{"name": "name", "in": "path", "required": true, "schema": map[string]string{"type": "string"}})
		}
		for _, q := range o.query {
			name, about, _ := strings.Cut(q, ": ")
			params = append(params, map[string]any{"name": name, "in": "query", "schema": map[string]string{"type": "string"}, "description": about})
		}
		if o.method == http.MethodPost {
			params = append(params, map[string]any{"name": "Idempotency-Key", "in": "header", "schema": map[string]string{"type": "string"}, "description": "a request with the key of an earlier one is not carried out again; with other content it is refused"},
				map[string]any{"name": "If-Match", "in": "header", "schema": map[string]string{"type": "string"}, "description": "the ETag of the run as it is known"})
			entry["requestBody"] = map[string]any{"content": map[string]any{"application/json": map[string]any{"schema": o.body}}}
		}
		if len(params) > 0 {
			entry["parameters"] = params
		}
		if paths["/api/v1"+o.path] == nil {
			paths["/api/v1"+o.path] = map[string]any{}
		}
		paths["/api/v1"+o.path][strings.ToLower(o.method)] = entry
	}
	doc := map[string]any{"openapi": "3.1.0", "info": map[string]string{"title": "Superstep", "version": "1"}, "paths": paths,
		"components": map[string]any{"securitySchemes": map[string]any{"token": map[string]string{"type": "http", "scheme": "bearer"}}}, "security": []map[string][]string{{"token": {}}}}
	s.route("GET /api/v1/openapi.json", viewing, func(w http.ResponseWriter, _ *http.Request) error { return reply200(w, doc) })
	s.route("GET /healthz", public, func(w http.ResponseWriter, _ *http.Request) error {
		return reply200(w, map[string]string{"status": "ok"})
	})
	s.route("GET /readyz", public, func(w http.ResponseWriter, r *http.Request) error {
		if _, err := s.engine.Runs(r.Context(), &runlog.Filter{Limit: 1}); err != nil {
			return refuse(http.StatusServiceUnavailable, "the store does not answer")
		}
		return reply200(w, map[string]string{"status": "ok"})
	})
	s.route("GET /metrics", viewing, s.metrics)
}

// metrics answers with the counts of runs, as Prometheus reads them.
func (s *server) metrics(w http.ResponseWriter, r *http.Request) error {
	infos, err := s.engine.Runs(r.Context(), nil)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", promtext.ContentType)
	return promtext.Write(w, append(promtext.Runs(infos), promtext.Metric{Name: "superstep_console_streams", Help: "Streams of pages and programs that are open.",
		Values: map[string]float64{"": float64(s.streams.Load())}}))
}
