package console

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/detach"
	"github.com/superstep-dev/superstep/internal/question"
	"github.com/superstep-dev/superstep/internal/summary"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
)

// A reply is what an action was answered with.
type reply struct {
	asked string        // what was sent
	ready chan struct{} // closed when it is known
	to    string        // the address to look at
	err   error
}

// keptReplies is how many answers to actions are kept, in case that a browser sends one twice.
const keptReplies = 1000

// A partial is the error of an action that has changed something before it failed. Such an action is not carried out again.
type partial struct{ error }

func (e partial) Unwrap() error { return e.error }

// partly marks the error of an action that has changed something.
func partly(err error) error {
	if err == nil {
		return nil
	}
	return partial{err}
}

// once carries out an action, and an action with the key of an earlier one not again. A key is free again if its action failed before it changed anything.
func (s *server) once(key string, r *http.Request, do func() (to string, err error)) (string, error) {
	if key == "" {
		return do()
	}
	form := maps.Clone(r.PostForm)
	form.Del("once")
	asked := short("", r.URL.Path, form.Encode())
	s.mu.Lock()
	had := s.done[key]
	if had == nil {
		had = &reply{asked: asked, ready: make(chan struct{})}
		s.done[key] = had
		if s.order = append(s.order, key); len(s.order) > keptReplies {
			delete(s.done, s.order[0])
			s.order = s.order[1:]
		}
		s.mu.Unlock()
		defer close(had.ready)
		if had.to, had.err = do(); had.err != nil && !errors.As(had.err, new(partial)) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.done[key] == had {
				delete(s.done, key)
				s.order = slices.DeleteFunc(s.order, func(k string) bool { return k == key })
			}
		}
		return had.to, had.err
	}
	s.mu.Unlock()
	if had.asked != asked {
		return "", refuse(http.StatusUnprocessableEntity, "The Idempotency-Key %.80q was used for another request: with other content, or for another address. Send this one with a new key.", key)
	}
	<-had.ready
	return had.to, had.err
}

// An act carries out what a form asks for, and returns the address to look at.
type act func(ctx context.Context, r *http.Request) (to string, err error)

// action registers an act. A browser is led to where its outcome can be seen.
func (s *server) action(pattern string, do act) {
	s.route(pattern, operating, func(w http.ResponseWriter, r *http.Request) error {
		if err := formed(r); err != nil {
			return err
		}
		ctx := context.WithoutCancel(r.Context()) // it is not left half done if the page is closed
		to, err := s.once(keyOf(r), r, func() (string, error) {
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			return do(ctx, r)
		})
		if err != nil {
			return err
		}
		if r.Header.Get("Superstep-Fragment") != "" {
			w.Header().Set("Superstep-Location", to)
			w.WriteHeader(http.StatusNoContent)
			return nil
		}
		http.Redirect(w, r, to, http.StatusSeeOther)
		return nil
	})
}

// keyOf returns what identifies an action that may be sent twice, "" for nothing.
func keyOf(r *http.Request) string {
	return cmp.Or(r.Header.Get("Idempotency-Key"), r.PostForm.Get("once"))
}

// runAct is an act on a run, which leads back to its page.
func (s *server) runAct(do func(ctx context.Context, id string, form url.Values) (to string, err error)) act {
	return func(ctx context.Context, r *http.Request) (string, error) {
		info, err := s.engine.Find(ctx, r.PathValue("id"))
		if err != nil {
			return "", err
		}
		to, err := do(ctx, info.ID, r.PostForm)
		s.poke(info.ID)
		if to == "" {
			to = "/runs/" + info.ID
		}
		return to, err
	}
}

// answer answers a question, if it is still the one that was shown.
func (s *server) answer(ctx context.Context, id string, form url.Values) (string, error) {
	path, key := form.Get("path"), form.Get("key")
	h, err := s.hub(ctx, id)
	if err != nil {
		return "", err
	}
	h.mu.Lock()
	var found, answered *transcript.Question
	for _, q := range h.run.Questions {
		if q.Path == path && q.Key == key {
			if found = q; q.Answered {
				answered = q
			} else {
				answered = nil
			}
		}
	}
	var asked runlog.Question
	var was string
	if found != nil {
		asked = found.Asked
	}
	if answered != nil {
		was = " at " + answered.Until.Local().Format("15:04:05") + by(answered.By) + ": " + transcript.Line(answered.Answer)
	}
	h.mu.Unlock()
	switch {
	case found == nil:
		return "", refuse(http.StatusNotFound, "Run %s has no such question.", id)
	case answered != nil:
		return "", refuse(http.StatusConflict, "This question was answered already%s.", strings.TrimSuffix(was, ": "))
	case form.Get("digest") != digest(&asked):
		return "", refuse(http.StatusConflict, "Another question is asked now. Reload the page and read it first.")
	}
	value, err := valueOf(&asked, form)
	if err != nil {
		return "", refuse(http.StatusUnprocessableEntity, "%v", err)
	}
	a := &runlog.Answer{Key: key, Value: value, By: "person"}
	if output := form.Get("output"); output != "" && question.Kind(&asked) == runlog.QuestionUnknown {
		if a.Output = json.RawMessage(output); !json.Valid(a.Output) {
			if !asked.TextOutput {
				return "", refuse(http.StatusUnprocessableEntity, `What it returned is JSON, such as "a text" in quotes; got %q.`, output)
			}
			if a.Output, err = json.Marshal(output); err != nil {
				return "", err
			}
		}
	}
	err = s.reply(ctx, id, path, a)
	if errors.As(err, new(*journal.AnsweredError)) || errors.As(err, new(*journal.UnaskedError)) { // and this console has not seen it yet
		err = refuse(http.StatusConflict, "This question was answered already.")
	}
	return "", err
}

// reply answers a question and resumes the run where that is due.
func (s *server) reply(ctx context.Context, id, path string, a *runlog.Answer) error {
	_, err := host.Answer(ctx, s.engine, id, path, a, func(ctx context.Context) error {
		_, err := s.start(ctx, &Start{Run: id})
		return partly(err)
	})
	return err
}

// valueOf returns the answer of a form.
func valueOf(q *runlog.Question, form url.Values) (json.RawMessage, error) {
	if fields := question.FormOf(q.Schema); fields != nil && len(q.Options) == 0 {
		values := make([]json.RawMessage, len(fields))
		for i := range fields {
			v, err := fields[i].Read(form.Get("field." + fields[i].Name))
			if err != nil {
				return nil, err
			}
			values[i] = v
			if no, ok := fields.Decline(values[0]); ok {
				return question.Fit(q, no)
			}
		}
		return question.Fit(q, fields.Object(values))
	}
	if q.Several() {
		list, err := json.Marshal(append([]string{}, form["value"]...))
		if err != nil {
			return nil, err
		}
		return question.Fit(q, string(list))
	}
	value, why := form.Get("value"), strings.TrimSpace(form.Get("text:"+form.Get("value")))
	if value == "" {
		value = strings.TrimSpace(form.Get("own"))
	}
	if why != "" {
		value += ": " + why
	}
	if value == "" {
		return nil, fmt.Errorf("choose or write an answer")
	}
	return question.Fit(q, value)
}

// A breakdown is an error of this machine, such as of a process that cannot be started.
type breakdown struct{ error }

func (e breakdown) Unwrap() error { return e.error }

// start executes a run: in a process of its own if the program offers that, else here.
func (s *server) start(ctx context.Context, st *Start) (string, error) {
	if s.opt.Start != nil {
		id, err := s.opt.Start(ctx, st)
		if err != nil && !errors.As(err, new(*host.Error)) && !errors.As(err, new(*detach.EndedError)) {
			err = breakdown{err}
		}
		return id, err
	}
	var run *superstep.Run
	var err error
	switch {
	case st.Run != "" && st.Message != "":
		run, err = s.engine.Continue(s.ctx, st.Run, st.Message, nil)
	case st.Run != "":
		run, err = s.engine.Resume(s.ctx, st.Run, nil)
	default:
		run, err = s.with(st.Model).Start(s.ctx, st.Workflow, st.Inputs, &superstep.StartOptions{ID: st.ID, Trace: st.Trace})
	}
	if err != nil {
		return "", err
	}
	return run.ID(), nil
}

func (s *server) pause(ctx context.Context, id string, _ url.Values) (string, error) {
	return "", s.engine.Pause(ctx, id, "console")
}

func (s *server) cancel(ctx context.Context, id string, _ url.Values) (string, error) {
	return "", s.engine.Cancel(ctx, id)
}

func (s *server) resume(ctx context.Context, id string, _ url.Values) (string, error) {
	_, err := s.start(ctx, &Start{Run: id})
	return "", err
}

// steer sends a message to an agent, or the next message of a conversation.
func (s *server) steer(ctx context.Context, id string, form url.Values) (string, error) {
	text := strings.TrimSpace(form.Get("text"))
	if text == "" {
		return "", refuse(http.StatusUnprocessableEntity, "There is no message.")
	}
	info, err := s.engine.Find(ctx, id)
	if err != nil {
		return "", err
	}
	if form.Get("agent") == "" {
		q, err := s.awaits(ctx, id)
		if err != nil {
			return "", err
		}
		if q != nil {
			value, err := json.Marshal(text)
			if err != nil {
				return "", err
			}
			return "/runs/" + id + "?tab=" + chatTab, s.reply(ctx, id, q.Path, &runlog.Answer{Key: q.Key, Value: value, By: "person"})
		}
	}
	if form.Get("agent") != "" || info.Status == runlog.Running || info.Workflow != "agent" {
		return "", partly(s.engine.Steer(ctx, id, form.Get("agent"), text))
	}
	next, err := s.start(ctx, &Start{Run: id, Message: text})
	if err != nil && !errors.As(err, new(*host.Error)) && !errors.As(err, new(*detach.EndedError)) { // something may have been started
		err = partly(err)
	}
	if err != nil {
		return "", err
	}
	return "/runs/" + next + "?tab=" + chatTab, nil
}

func (s *server) stopAgent(ctx context.Context, id string, form url.Values) (string, error) {
	return "", s.engine.CancelAgent(ctx, id, form.Get("agent"))
}

// interrupt breaks off the current turn of an agent, the lead if none is named.
func (s *server) interrupt(ctx context.Context, id string, form url.Values) (string, error) {
	return "", s.engine.Interrupt(ctx, id, form.Get("agent"))
}

// budget raises the budget, and continues the run if it waits for that.
func (s *server) budget(ctx context.Context, id string, form url.Values) (string, error) {
	var b runlog.Budget
	dollars := strings.TrimPrefix(strings.TrimSpace(form.Get("money")), "$")
	if dollars != "" {
		f, err := strconv.ParseFloat(dollars, 64)
		if err != nil || f <= 0 || f > 1e9 {
			return "", refuse(http.StatusUnprocessableEntity, "money: %q is no amount in dollars, such as 2.50.", dollars)
		}
		b.Money = int64(f * 1e6)
	}
	for name, to := range map[string]*int64{"tokens": &b.Tokens, "turns": &b.Turns, "calls": &b.Calls} {
		text := strings.TrimSpace(form.Get(name))
		if text == "" {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n <= 0 {
			return "", refuse(http.StatusUnprocessableEntity, "%s: %q is no number above zero.", name, text)
		}
		*to = n
	}
	if b == (runlog.Budget{}) {
		return "", refuse(http.StatusUnprocessableEntity, "Give a new limit for something.")
	}
	if err := s.engine.Budget(ctx, id, b); err != nil {
		return "", err
	}
	infos, err := s.engine.Runs(ctx, &runlog.Filter{ID: id})
	if err != nil || len(infos) == 0 || infos[0].Status != runlog.Paused {
		return "", err
	}
	if sum := summary.Of(&infos[0]); sum == nil || sum.Waits != summary.Budget || sum.Open > 0 {
		return "", nil
	}
	return s.resume(ctx, id, nil)
}

// forkOf makes the fork that a form describes, or previews it.
func (s *server) forkOf(ctx context.Context, id string, form url.Values, preview bool) (*superstep.Fork, error) {
	info, err := s.engine.Find(ctx, id)
	if err != nil {
		return nil, err
	}
	var sets []string
	for line := range strings.SplitSeq(form.Get("set"), "\n") {
		if line = strings.TrimSpace(line); line != "" {
			sets = append(sets, line)
		}
	}
	at, opt := uint64(0), &superstep.ForkOptions{}
	switch from := form.Get("from"); from {
	case "edited":
		was, set := s.host.Pinned(ctx, info.ID).Setting, s.host.Settings()
		if len(was.Rules) > 0 {
			return nil, refuse(http.StatusConflict, "Run %s has rules of its own: fork it with `%s runs fork %[1]s --recipe FILE`.", info.ID, s.opt.Program)
		}
		set.Model = cmp.Or(was.Model, set.Model)
		s.host.Refresh()
		w, err := s.host.With(set).Ready(info.Workflow)
		if err != nil {
			return nil, refuse(http.StatusUnprocessableEntity, "%v", err)
		}
		return s.engine.ForkTo(ctx, info.ID, w)
	case "failed":
		in, tasks, err := s.engine.Failed(ctx, info.ID)
		if err == nil && in != info.ID {
			err = refuse(http.StatusConflict, "Run %s began after task %s had failed: fork run %s.", info.ID, tasks[0], in)
		}
		if err != nil {
			return nil, err
		}
		opt.Again = tasks
	default:
		if at, opt, err = s.host.ForkAt(ctx, s.engine, &info, from, sets); err != nil {
			return nil, err
		}
	}
	opt.Preview = preview
	return s.engine.Fork(ctx, info.ID, at, opt)
}

// fork makes a run that begins at a point of another, with edits of its state, and executes it.
func (s *server) fork(ctx context.Context, id string, form url.Values) (string, error) {
	fork, err := s.forkOf(ctx, id, form, false)
	if err != nil {
		return "", err
	}
	to := "/runs/" + fork.ID
	if form.Get("rest") == "yes" {
		return to, nil
	}
	_, err = s.start(ctx, &Start{Run: fork.ID})
	return to, partly(err)
}

// rerun does the failed steps of a run again, in a new one, unless that would repeat an effect that must not happen twice and may have happened.
func (s *server) rerun(ctx context.Context, id string, _ url.Values) (string, error) {
	failed := url.Values{"from": {"failed"}}
	fork, err := s.forkOf(ctx, id, failed, true)
	if err != nil {
		return "", err
	}
	for _, x := range fork.Repeats {
		if x.Unknown {
			return "", refuse(http.StatusConflict, "%v. If it did not happen, or may again, fork the run from %s.", &superstep.RepeatError{Run: id, Effect: x}, transcript.Top(x.Path))
		}
	}
	return s.fork(ctx, id, failed)
}

// again continues a run that failed, or does the failed steps of one that completed in part in a new run.
func (s *server) again(ctx context.Context, id string, form url.Values) (string, error) {
	info, err := s.engine.Find(ctx, id)
	switch {
	case err != nil:
		return "", err
	case info.Status == runlog.Partial:
		return s.rerun(ctx, id, form)
	case info.Status == runlog.Failed:
		return s.resume(ctx, id, form)
	}
	return "", refuse(http.StatusConflict, "it is %s and has nothing that failed", info.Status)
}

// bulk does the same with several runs.
func (s *server) bulk(ctx context.Context, r *http.Request) (string, error) {
	do, ok := map[string]func(ctx context.Context, id string, _ url.Values) (string, error){
		"cancel": s.cancel, "resume": s.resume, "pause": s.pause, "again": s.again,
	}[r.PostForm.Get("do")]
	if !ok {
		return "", refuse(http.StatusBadRequest, "There is no action %q.", r.PostForm.Get("do"))
	}
	var wrong []string
	for _, id := range slices.Compact(slices.Sorted(slices.Values(r.PostForm["run"]))) {
		if _, err := do(ctx, id, nil); err != nil {
			wrong = append(wrong, id+": "+err.Error())
		}
	}
	to := r.PostForm.Get("to")
	if u, err := url.Parse(to); err != nil || u.IsAbs() || u.Host != "" || u.Path != "/runs" {
		to = "/runs"
	}
	if len(wrong) > 0 {
		return "", partly(refuse(http.StatusConflict, "%s", strings.Join(wrong, "\n")))
	}
	return to, nil
}

func (s *server) register() {
	s.route("GET /{$}", viewing, func(w http.ResponseWriter, r *http.Request) error {
		http.Redirect(w, r, "/runs", http.StatusSeeOther)
		return nil
	})
	s.route("GET /static/", public, s.static)
	s.route("GET /runs", viewing, s.runsHandler)
	s.route("GET /runs/events", viewing, s.runsEvents)
	s.route("GET /runs/{id}", viewing, s.runHandler)
	s.route("GET /runs/{id}/events", viewing, s.runEvents)
	s.route("GET /runs/{id}/graph.svg", viewing, s.graphHandler)
	for _, k := range kinds {
		s.route("GET /"+k.Name, viewing, s.itemsHandler)
		if k.Name != host.Workflows {
			s.route("GET /"+k.Name+"/{name}", viewing, s.itemHandler)
		}
	}
	s.route("GET /workflows/{name}", viewing, s.flowHandler)
	s.route("GET /schedules", viewing, s.schedulesHandler)
	for _, verb := range []string{"pause", "resume", "rm"} {
		s.action("POST /schedules/{id}/"+verb, s.changeSchedule(verb))
	}
	s.route("GET /settings", viewing, s.settingsHandler)
	s.route("POST /lint", viewing, s.lintHandler)
	s.action("POST /runs", s.startRun)
	s.action("POST /workflows/{name}/approve", s.draft(true))
	s.action("POST /workflows/{name}/reject", s.draft(false))
	s.action("POST /settings/forget", s.forget)
	s.route("GET /runs/{id}/history", viewing, s.historyHandler)
	s.route("GET /runs/{id}/fork", viewing, s.forkHandler)
	s.route("GET /runs/{id}/definition", viewing, s.definitionHandler)
	s.route("GET /chats", viewing, s.chatsHandler)
	s.route("GET /runs/{id}/records", viewing, s.recordsHandler)
	s.route("GET /runs/{id}/export", viewing, s.exportHandler)
	s.route("GET /diff", viewing, s.diffHandler)
	s.registerAPI()
	s.action("POST /runs/bulk", s.bulk)
	for name, do := range map[string]func(ctx context.Context, id string, form url.Values) (string, error){
		"answer": s.answer, "pause": s.pause, "cancel": s.cancel, "resume": s.resume, "steer": s.steer, "stop": s.stopAgent, "interrupt": s.interrupt,
		"budget": s.budget, "fork": s.fork, "rerun": s.rerun,
	} {
		s.action("POST /runs/{id}/"+name, s.runAct(do))
	}
}

// static serves the files of the pages.
func (s *server) static(w http.ResponseWriter, r *http.Request) error {
	b, err := files.ReadFile(strings.TrimPrefix(r.URL.Path, "/"))
	switch {
	case r.URL.Path == "/static/graph.css":
		b = graphStyle()
	case err != nil:
		return refuse(http.StatusNotFound, "There is no page %s.", r.URL.Path)
	}
	w.Header().Set("Cache-Control", "max-age=604800") // the address has a digest of the file
	s.write(w, r, http.StatusOK, mime.TypeByExtension(path.Ext(r.URL.Path)), b)
	return nil
}
