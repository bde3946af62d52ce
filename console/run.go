package console

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/graph/draw"
	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/question"
	"github.com/superstep-dev/superstep/internal/summary"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/runlog"
)

const (
	tasksPage = 200 // rows of the table of tasks
	partsPage = 200 // of a task, the newest
	liveTail  = 8 << 10
)

// runPage is the page of a run: a fold of its log, and what is selected on it.
type runPage struct {
	s    *server
	acts bool // the reader is an operator
	id   string
	at   uint64 // the record up to which it is shown, 0 for all
	task string // the path of the selected task
	tab  string
	from int // the first row of the table

	r        *transcript.Run
	progress *draw.Progress
	shape    func() (*svgShape, error)
	status   runlog.Status
	listed   host.RunItem // of a run that waits for a worker
	problem  error
	stored   bool
	now      time.Time
}

// runOf reads the parameters of the page.
func (s *server) runOf(r *http.Request) (*runPage, error) {
	q := r.URL.Query()
	info, err := s.engine.Find(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	p := &runPage{s: s, acts: s.acts(r), id: info.ID, task: q.Get("task"), tab: cmp.Or(q.Get("tab"), "trace"), now: s.opt.Now()}
	for name, to := range map[string]func(n uint64){"at": func(n uint64) { p.at = n }, "from": func(n uint64) { p.from = int(min(n, 1<<20)) }} {
		if text := q.Get(name); text != "" {
			n, err := strconv.ParseUint(text, 10, 63)
			if err != nil {
				return nil, refuse(http.StatusBadRequest, "%s: %q is not a number.", name, text)
			}
			to(n)
		}
	}
	p.shape = func() (*svgShape, error) {
		return s.shapes.of(info.ID, func() (*svgShape, error) { return s.shapeOf(info.ID) })
	}
	return p, nil
}

// query returns the address of the page with another parameter.
func (p *runPage) query(pairs ...string) string {
	q := url.Values{}
	set := func(k, v string) {
		if q.Del(k); v != "" && v != "0" {
			q.Set(k, v)
		}
	}
	set("task", p.task)
	if p.tab != "trace" {
		set("tab", p.tab)
	}
	set("at", strconv.FormatUint(p.at, 10))
	set("from", strconv.Itoa(p.from))
	for i := 0; i+1 < len(pairs); i += 2 {
		set(pairs[i], pairs[i+1])
	}
	u := url.URL{Path: "/runs/" + p.id, RawQuery: q.Encode()}
	return u.String()
}

// live returns the view of the page, which changes while the run does.
func (p *runPage) live(ctx context.Context) (*view, *hub, error) {
	h, err := p.s.hub(ctx, p.id)
	if err != nil {
		return nil, nil, err
	}
	key := fmt.Sprintf("run %t %s", p.acts, p.query())
	v := p.s.view(key, func(v *view) {
		v.draw = func(use func([]list)) {
			h.mu.Lock()
			defer h.mu.Unlock()
			p := *p
			p.r, p.progress, p.status, p.listed, p.problem, p.stored, p.now = &h.run, &h.progress, h.status, h.listed, h.err, h.stored, p.s.opt.Now()
			use(p.lists())
		}
	})
	return v, h, nil
}

// runHandler answers GET /runs/{id}.
func (s *server) runHandler(w http.ResponseWriter, r *http.Request) error {
	p, err := s.runOf(r)
	if err != nil {
		return err
	}
	data := map[string]any{"ID": p.id, "At": p.at, "Query": p.query, "Tab": p.tab, "Acts": p.acts, "Program": s.opt.Program}
	if p.at > 0 {
		m, head, err := s.past(r.Context(), p.id, p.at)
		if err != nil {
			return err
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		p.r, p.progress, p.status, p.acts, p.now = &m.run, &m.progress, m.run.Status, false, m.run.Last()
		data["Head"] = head
		for _, l := range p.lists() {
			var b strings.Builder
			for _, x := range l.pieces {
				b.WriteString(x.say())
			}
			data[l.id] = template.HTML(b.String())
		}
	} else {
		v, h, err := p.live(r.Context())
		if err != nil {
			return err
		}
		v.mu.Lock()
		n := v.update()
		for id := range v.order {
			data[id] = template.HTML(v.html(id))
		}
		v.mu.Unlock()
		h.mu.Lock()
		data["Head"], data["Title"], data["Chat"] = h.run.Seq, h.titled(), chats(&h.run)
		over := h.run.Status == runlog.Completed || h.run.Status == runlog.Cancelled
		h.mu.Unlock()
		if info, err := s.engine.Find(r.Context(), p.id); err == nil && !over {
			s.host.Refresh()
			if file, changed := s.host.Edited(r.Context(), &info); changed {
				data["Edited"] = transcript.Line(file)
			}
		}
		data["Stream"] = fmt.Sprintf("/runs/%s/events?%s", p.id, r.URL.Query().Encode())
		data["Since"] = fmt.Sprintf("%s.%d", s.epoch, n)
	}
	if p.at > 0 {
		data["Title"] = title(p.r, p.id)
	}
	name := "run"
	if p.tab == chatTab {
		name = "chat"
	}
	s.page(w, r, http.StatusOK, name, data)
	return nil
}

func title(r *transcript.Run, id string) string {
	return cmp.Or(transcript.Line(r.Title), transcript.Line(r.Workflow), id)
}

// titled is the title of the run of a hub. The caller holds mu.
func (h *hub) titled() string { return title(&h.run, h.id) }

// runEvents answers GET /runs/{id}/events.
func (s *server) runEvents(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	q.Del("since")
	r2 := r.Clone(r.Context())
	r2.URL.RawQuery = q.Encode()
	p, err := s.runOf(r2)
	if err != nil {
		return err
	}
	v, h, err := p.live(r.Context())
	if err != nil {
		return err
	}
	return s.stream(w, r, v, h.watch)
}

// lists draws the page.
func (p *runPage) lists() []list {
	if p.tab == chatTab {
		return []list{{"head", []piece{{"run-head", 0, p.head}}}, {"why", p.why()}, {"asks", p.asks()}, p.conversation()}
	}
	out := []list{{"head", []piece{{"run-head", 0, p.head}}}, {"why", p.why()}, {"asks", p.asks()}, p.graph(), p.timeline(), p.tasks(), p.todos()}
	if p.at == 0 {
		seq := p.r.Seq
		out = append(out, list{"last", []piece{{"last-record", 0, func() string { return fmt.Sprintf(`<data id="last-record" value="%d">%[1]d</data>`, seq) }}}})
	}
	return append(out, p.detail()...)
}

// html returns a template as text.
func (s *server) html(name string, data any) string {
	var b bytes.Buffer
	if err := s.pages.ExecuteTemplate(&b, name, data); err != nil {
		return template.HTMLEscapeString(err.Error())
	}
	return strings.TrimSpace(b.String())
}

// money is a cost with its limit.
func (p *runPage) money() string {
	s := p.r.Cost().String()
	if n := p.r.Budget.Money; n > 0 {
		s += " of " + inwords.Dollars(n)
	}
	return s
}

func (p *runPage) head() string {
	r := p.r
	used := r.Used()
	status := p.current()
	return p.s.html("run-head", map[string]any{
		"ID": p.id, "Title": title(r, p.id), "Workflow": transcript.Line(r.Workflow), "Status": p.shown(), "Time": p.clock(r.Time), "Tokens": inwords.Count(used.In + used.Out),
		"Agents": used.Agents, "Money": p.money(), "Spent": used.Agents > 0 || used.In+used.Out > 0 || r.Budget.Money > 0, "Parent": transcript.Line(r.Parent), "Started": r.Started, "Retries": r.Retries, "Error": transcript.Clean(r.Error),
		"Acts": p.acts, "Actions": p.actions(status), "Sandbox": transcript.Line(r.Sandbox), "Imported": r.Imported, "Stored": p.stored && status == runlog.Running,
		"Inputs": pretty(r.Inputs), "Output": p.s.valued(r.Output), "Budget": p.budget(), "Chat": p.tab == chatTab, "Code": r.Code,
	})
}

// current is the status of the run, which the store may know better than its log.
func (p *runPage) current() runlog.Status {
	if p.at == 0 && p.status != "" && !(p.status == runlog.Running && p.r.Status != "") {
		return p.status
	}
	return p.r.Status
}

// shown is the status of the run as lists show it.
func (p *runPage) shown() string {
	status, wait := p.current(), p.r.Wait()
	switch asks := slices.ContainsFunc(p.r.Open(), func(q *transcript.Question) bool { return q.Kind != runlog.QuestionMessage }); {
	case p.at == 0 && asks && !status.Ended() && status != runlog.Failed:
		return "needs you"
	case p.at == 0 && status == runlog.Running && wait != nil && wait.What == summary.RateLimit:
		return "rate limit"
	case p.at == 0 && status == runlog.Running && wait != nil && wait.What == summary.Retry:
		return "retrying"
	case status == runlog.Running && p.r.Waits():
		return "waiting"
	}
	return string(status)
}

// An action is a button of the page of a run.
type action struct {
	Name, Verb, About, Command string
	Sure                       bool // it is asked about first
}

// actions returns what may be done with the run as it is.
func (p *runPage) actions(status runlog.Status) []action {
	if !p.acts {
		return nil
	}
	command := func(verb string) string { return p.s.opt.Program + " runs " + verb + " " + p.id }
	pause := action{"Pause", "pause", "No new task starts. What runs may end.", command("pause"), false}
	resume := action{"Resume", "resume", "It continues where it stopped.", command("resume"), false}
	cancel := action{"Cancel", "cancel", "It ends for good.", command("cancel"), true}
	switch status {
	case runlog.Running:
		if slices.ContainsFunc(p.r.Active(), func(t *transcript.Task) bool { return len(t.Agents) > 0 }) {
			interrupt := action{"Interrupt", "interrupt", "The agent's current turn ends. What it has said stays.", command("interrupt"), false}
			return []action{interrupt, pause, cancel}
		}
		return []action{pause, cancel}
	case runlog.Completed, runlog.Cancelled:
		return nil
	case runlog.Partial:
		return []action{{"Run failed again", "rerun", "A new run does the failed steps again, and what follows them.", command("resume"), false}}
	case runlog.Failed:
		return []action{resume}
	}
	return []action{resume, cancel}
}

// budget describes the limits of the run, nil if it has none.
func (p *runPage) budget() [][2]string {
	b, spent := p.r.Budget, p.r.Spent
	var out [][2]string
	add := func(name string, limit int64, used string, most string) {
		if limit > 0 {
			out = append(out, [2]string{name, used + " of " + most})
		}
	}
	add("money", b.Money, inwords.Dollars(spent.Money), inwords.Dollars(b.Money))
	add("tokens", b.Tokens, inwords.Count(int(spent.Tokens)), inwords.Count(int(b.Tokens)))
	add("model turns", b.Turns, strconv.FormatInt(spent.Turns, 10), strconv.FormatInt(b.Turns, 10))
	add("tool calls", b.Calls, strconv.FormatInt(spent.Calls, 10), strconv.FormatInt(b.Calls, 10))
	return out
}

// why says why nothing moves.
func (p *runPage) why() []piece {
	var text string
	r := p.r
	open := slices.DeleteFunc(r.Open(), func(q *transcript.Question) bool { return q.Kind == runlog.QuestionMessage })
	var active int
	for _, t := range r.Active() {
		if t.State == transcript.Running && len(t.Children) == 0 && !t.Queued {
			active++
		}
	}
	wait := r.Wait()
	switch {
	case p.problem != nil:
		text = "The log of the run cannot be followed: " + transcript.Clean(p.problem.Error())
	case len(open) > 0:
		text = "Waiting for you: " + inwords.Plural(len(open), "question") + "."
		if active > 0 {
			text += " " + inwords.Plural(active, "other task") + " continue."
		}
	case wait == nil:
		queued := 0
		for _, t := range r.Active() {
			if t.Queued {
				queued++
			}
		}
		if r.Status != runlog.Running || active > 0 || queued == 0 {
			return nil
		}
		text = inwords.Plural(queued, "task") + " wait for a place: as many run at once, here or elsewhere, as the setting parallel-agents lets."
	case wait.What == "budget":
		text = "Paused: its budget is used up. Raise it to continue."
		if r.Short != nil {
			text = "Paused: " + transcript.Line(r.Short.Error()) + "."
		}
	case wait.What == summary.RateLimit || wait.What == summary.Retry || wait.What == summary.Date:
		text = map[string]string{summary.RateLimit: "Waiting: every task waits for the end of a rate limit", summary.Retry: "Waiting: every task waits to try again",
			summary.Date: "Waiting for a date"}[wait.What]
		if wait.Until != nil {
			text += " until " + wait.Until.Local().Format("15:04:05")
		}
		text += "."
	case wait.What == "worker" && p.listed.Next != "":
		text = "Waiting: " + p.listed.Reason + ". Start one with `" + p.s.opt.Program + " " + p.listed.Next + "`, or resume it here."
	case wait.What == "worker" && r.Status == runlog.Queued && strings.HasPrefix(p.listed.Reason, "not before"):
		text = "Queued: no worker takes it " + strings.TrimPrefix(p.listed.Reason, "not ") + "."
	case wait.What == "worker" && r.Status == runlog.Queued:
		text = "Queued: a worker takes it when it has room."
	case wait.What == "worker":
		text = "Interrupted" + by(r.By) + ": no process executes it. Resume it, or start a worker with `" + p.s.opt.Program + " worker`."
	case wait.What == "operator":
		text = "Paused" + by(r.By) + ": no process executes it. Resume it to continue."
	case wait.What == "storage":
		text = "Waiting: the store could take no more. Resume it once there is room."
	case wait.What == "person" && r.AwaitsMessage():
		text = "It waits for the next message of the conversation."
	default:
		return nil
	}
	return []piece{{"run-why", 0, func() string {
		return p.s.html("run-why", map[string]any{"Text": text, "Quiet": len(open) > 0 && p.problem == nil, "Budget": wait != nil && wait.What == "budget" && p.acts, "ID": p.id, "Program": p.s.opt.Program})
	}}}
}

func by(who string) string {
	if who = transcript.Line(who); who != "" {
		return " by " + who
	}
	return ""
}

// digest identifies a question as it was shown.
func digest(q *runlog.Question) string {
	b, err := json.Marshal(q)
	if err != nil {
		return "" // no such value
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:12])
}

// asks draws the open questions.
func (p *runPage) asks() []piece {
	var out []piece
	for _, q := range p.r.Open() {
		if p.tab == chatTab && q.Kind == runlog.QuestionMessage {
			continue // the page has a place for the next message
		}
		id := short("ask-", q.Path, q.Key)
		out = append(out, piece{id, 1, func() string { return p.s.html("ask", p.s.card(id, p.id, q, p.acts)) }})
	}
	return out
}

// askCard is a question for its template.
type askCard struct {
	ID, Run, Path, Key, Digest string
	Kind                       runlog.QuestionKind
	Who, Task, Text            string
	Words                      string // of a stranger, behind Text
	Call                       *runlog.QuestionCall
	Body                       string // of the call, in full
	Lines                      []diffLine
	Hidden                     bool // the text has characters that are not shown
	Because                    string
	Parts                      []string
	Choices                    []askChoice
	Several                    bool
	Form                       question.Form
	Free                       bool // any text may be answered
	Default                    string
	Acts                       bool
	Wanted                     string // the type of the answer, in words
	Unknown                    bool   // whether an effect happened is not known
	Command                    string
}

type askChoice struct {
	question.Choice
	Chosen bool   // the default
	Text   string // asked for with it, "" for none
}

// A diffLine is a line of a unified diff.
type diffLine struct{ Class, Text string }

func diffLines(text string) []diffLine {
	var out []diffLine
	head := true // up to the first hunk, where the files are named
	for line := range strings.SplitSeq(strings.TrimRight(transcript.Clean(text), "\n"), "\n") {
		class := ""
		switch {
		case head && (strings.HasPrefix(line, "--- ") || strings.HasPrefix(line, "+++ ")):
			class = "hunk"
		case strings.HasPrefix(line, "@@"):
			class, head = "hunk", false
		case strings.HasPrefix(line, "+"):
			class = "add"
		case strings.HasPrefix(line, "-"):
			class = "del"
		}
		out = append(out, diffLine{class, line})
	}
	return out
}

func (s *server) card(id, run string, q *transcript.Question, acts bool) *askCard {
	asked := &q.Asked
	c := &askCard{ID: id, Run: run, Path: q.Path, Key: q.Key, Digest: digest(asked), Kind: question.Kind(asked), Who: transcript.Line(q.Agent), Text: q.Question,
		Task: (&transcript.Task{Path: q.Path}).Label(), Call: asked.Call, Acts: acts, Several: asked.Several(), Default: q.Default}
	if q.Header != "" {
		c.Text = q.Header + ": " + c.Text
	}
	for _, m := range question.Menu(asked) {
		if m.Answer == "" {
			continue
		}
		choice := askChoice{m, question.IsDefault(asked, m.Answer), ""}
		if word, open := question.Opening(asked, m.Answer); open {
			choice.Text, choice.Answer = "the text to continue with", word
		} else if m.Why {
			choice.Text = "why"
		}
		c.Choices = append(c.Choices, choice)
	}
	switch form := question.FormOf(asked.Schema); {
	case len(asked.Options) > 0:
		c.Free = question.Others(asked) && c.Kind != runlog.QuestionPermission && c.Kind != runlog.QuestionGate
	case form != nil:
		c.Form = form.With(asked.Default)
		if form.Declinable() {
			c.Text, c.Words, _ = strings.Cut(strings.ReplaceAll(c.Text, "\n> ", "\n"), "\n\n")
		}
	default:
		c.Free = true
		if t := question.TypeOf(asked.Schema); t == "boolean" {
			c.Free, c.Choices = false, []askChoice{{Choice: question.Choice{Answer: "true", Name: "yes"}}, {Choice: question.Choice{Answer: "false", Name: "no"}}}
		} else if t != "" && t != "string" {
			c.Wanted = question.KindOf(t)
		}
	}
	_, c.Unknown = asked.Unknown()
	if call := asked.Call; call != nil {
		c.Text = question.Wants(call)
		c.Because = question.Because(call.Rule, call.Origin, call.Reason)
		switch {
		case call.Diff != "":
			c.Lines, c.Hidden = diffLines(call.Diff), question.Hidden(call.Diff)
		default:
			text := question.InFull(call)
			c.Body, c.Hidden = transcript.Clean(text), question.Hidden(text)
		}
		for _, part := range call.Parts {
			if part.Allowed {
				c.Parts = append(c.Parts, "✓ "+transcript.Line(part.Text)+" – "+question.AllowedBy(&part))
			} else {
				c.Parts = append(c.Parts, "? "+transcript.Line(part.Text)+" – "+question.Because(part.Rule, part.Origin, part.Reason))
			}
		}
	}
	c.Command = s.opt.Program + " runs answer " + run + " " + clean.Shell(q.Path+":"+q.Key+"=ANSWER")
	if c.Unknown {
		c.Command = s.opt.Program + " runs resolve " + run + " " + clean.Shell(q.Path) + " --result OUTPUT"
	}
	return c
}

// graph draws the graph of the run, if its workflow is known.
func (p *runPage) graph() list {
	states := p.progress.Status()
	h := fnv.New64a()
	for _, k := range slices.Sorted(mapKeys(states)) {
		fmt.Fprintf(h, "%s %+v\n", k, states[k])
	}
	fmt.Fprint(h, p.task)
	return list{"graph", []piece{{"run-graph", h.Sum64() | 1, func() string {
		shape, err := p.shape()
		if err != nil {
			return p.s.html("run-graph", map[string]any{"None": transcript.Line(err.Error())})
		}
		return p.s.html("run-graph", map[string]any{"SVG": shape.draw(states, p.task), "Nodes": len(shape.Nodes)})
	}}}}
}

// todos draws the plans of agents: of the selected task, or else of all.
func (p *runPage) todos() list {
	l := list{id: "todos"}
	for _, t := range p.r.Tasks {
		if len(t.Todos) == 0 || p.task != "" && t.Path != p.task {
			continue
		}
		done, items := 0, slices.Clone(t.Todos)
		for i, x := range items {
			if items[i].BlockedBy = transcript.Blockers(t.Todos, &x); x.Status == "completed" {
				done++
			}
		}
		l.pieces = append(l.pieces, piece{short("todo-", t.Path), t.Rev + 1, func() string {
			return p.s.html("todo", map[string]any{"ID": short("todo-", t.Path), "Task": t.Label(), "Items": items, "Done": done})
		}})
	}
	return l
}

// taskRow is a task for its template.
type taskRow struct {
	ID, Path, Label, Link, Agent, Doing string
	Depth                               int
	State                               string
	Step, Attempt, Tools                int
	Time                                clocked
	Tokens, Cost, Note, About           string
	Visit                               string // of a node that has run before
	Selected, OnError                   bool
}

// state is the state of a task in a word.
func state(t *transcript.Task) string {
	switch {
	case t.AwaitsRun():
		return "waiting"
	case t.State == transcript.Waiting:
		return "needs you"
	case t.State == transcript.Running && t.Limit != "":
		return "rate limit"
	case t.State == transcript.Running && !t.RetryAt.IsZero():
		return "retrying"
	case t.State == transcript.Running && t.Queued:
		return "queued"
	}
	return string(t.State)
}

// sorted returns the tasks as they are declared, each below the one that it is in.
func (p *runPage) sorted() []*transcript.Task {
	var out []*transcript.Task
	var add func(tasks []*transcript.Task)
	add = func(tasks []*transcript.Task) {
		for _, t := range slices.SortedFunc(slices.Values(tasks), p.r.Compare) {
			out = append(out, t)
			add(t.Children)
		}
	}
	for _, s := range p.r.Steps {
		add(s.Own())
	}
	return out
}

// tasks draws the table of tasks.
func (p *runPage) tasks() list {
	l := list{id: "tasks"}
	all := p.sorted()
	from := min(p.from, len(all))
	for _, t := range all[from:min(from+tasksPage, len(all))] {
		id := short("task-", t.Path)
		l.pieces = append(l.pieces, piece{id, t.Rev + 1, func() string {
			cost, tools := t.Total()
			name, visit := named(t)
			row := &taskRow{ID: id, Path: t.Path, Label: name, Visit: visit, Link: p.query("task", t.Path), Agent: t.Agent, Depth: t.Depth, State: state(t), Step: t.Step + 1,
				Attempt: t.Attempt, Tools: tools, Time: p.clock(t.Time), Selected: t.Path == p.task, OnError: len(t.Bad) > 0, Note: cmp.Or(t.Error, t.Why)}
			if n := t.Usage.In + t.Usage.Out; n > 0 {
				row.Tokens, row.Cost = inwords.Count(n), cost.String()
			}
			if len(t.Children) > 0 && cost != nil {
				row.Cost = cost.String() // with theirs
			}
			if len(t.Agents) > 0 && (t.Key != "" || t.Parent != nil) {
				row.About = t.Agents[0].Title() // what tells the items of a list apart
			}
			if tool := t.Current(); tool != nil {
				row.Doing = strings.TrimSpace(tool.Name + " " + tool.Arg)
			} else if t.Thinking {
				row.Doing = "thinking"
			}
			if row.OnError {
				row.Note = "ran on the error of " + strings.Join(t.Bad, ", ")
			}
			return p.s.html("task-row", row)
		}})
	}
	if p.from == 0 {
		for _, n := range p.r.Pending() {
			id := short("pending-", n)
			l.pieces = append(l.pieces, piece{id, 1, func() string { return p.s.html("task-row", &taskRow{ID: id, Label: n, State: "pending"}) }})
		}
	}
	more := list{id: "more"}
	if len(all) > tasksPage || p.from > 0 {
		more.pieces = []piece{{"task-more", 0, func() string {
			data := map[string]any{"From": from + 1, "To": min(from+tasksPage, len(all)), "All": len(all)}
			if from > 0 {
				data["Before"] = p.query("from", strconv.Itoa(max(0, from-tasksPage)))
			}
			if from+tasksPage < len(all) {
				data["After"] = p.query("from", strconv.Itoa(from+tasksPage))
			}
			return p.s.html("task-more", data)
		}}}
		l.pieces = append(l.pieces, more.pieces...)
	}
	return l
}

// detail draws the selected task: what it is, and the parts of its output.
func (p *runPage) detail() []list {
	about, parts := list{id: "detail"}, list{id: "parts"}
	t := p.r.Task(p.task)
	if t == nil {
		if all := p.within(); len(all) > 0 {
			about.pieces = []piece{{"task-about", 0, func() string {
				return p.s.html("task-group", map[string]any{"Node": p.task, "N": len(all), "Rows": p.group(all)})
			}}}
			return []list{about, parts}
		}
		about.pieces = []piece{{"task-about", 1, func() string { return p.s.html("task-none", map[string]any{"Task": p.task}) }}}
		return []list{about, parts}
	}
	about.pieces = []piece{{"task-about", t.Rev + 2, func() string {
		var agents []map[string]any
		for _, a := range t.Agents {
			agents = append(agents, map[string]any{"Name": a.Name, "Model": a.Model, "Effort": a.Effort, "Prompt": a.Prompt, "Turns": a.Turns, "Calls": a.Called,
				"In": inwords.Count(a.Usage.In), "Out": inwords.Count(a.Usage.Out), "Cost": a.Cost().String(), "Used": a.Used, "Window": a.Window})
		}
		up := ""
		if t.Parent != nil {
			up = p.query("task", t.Parent.Path)
		}
		return p.s.html("task-about", map[string]any{"Task": t, "State": state(t), "Time": p.clock(t.Time), "Agents": agents, "Up": up, "Tab": p.tab,
			"Tabs": p.tabs(), "Attempts": attempts(t), "Within": p.group(t.Children), "Output": p.output(t), "Cost": first(t.Total()), "Acts": p.acts && !t.Ended() && t.Agent != "", "Rerun": p.acts && t.Ended() && t.Depth == 0, "Run": p.id, "Program": p.s.opt.Program,
			"Command": p.s.opt.Program + " runs fork " + p.id + " --from " + clean.Shell(t.Path), "Key": "", "Stop": p.acts && !t.Ended() && t.Depth > 0})
	}}}
	if p.tab != "trace" {
		return []list{about, parts}
	}
	shown := t.Parts[max(0, len(t.Parts)-partsPage):]
	if left := len(t.Parts) - len(shown) + t.Dropped; left > 0 {
		parts.pieces = append(parts.pieces, piece{"part-left", uint64(left) + 1, func() string {
			return p.s.html("part-left", map[string]any{"Left": left, "Command": p.s.opt.Program + " runs show " + p.id + " -v"})
		}})
	}
	for i := range shown {
		x := &shown[i]
		id := short("part-", t.Path, x.ID)
		parts.pieces = append(parts.pieces, piece{id, x.Rev + 1, func() string { return p.part(id, x) }})
	}
	if text := t.LiveTail(liveTail); text != "" {
		parts.pieces = append(parts.pieces, piece{"part-live", 0, func() string { return p.s.html("part-live", map[string]any{"Text": text, "Summing": t.Summing}) }})
	}
	return []list{about, parts}
}

func first(c *transcript.Cost, _ int) string { return c.String() }

// named returns the name of a task, and which run of its node it is, "" for the first.
func named(t *transcript.Task) (name, visit string) {
	name = t.Label()
	if i := strings.LastIndexByte(name, '#'); i >= 0 && strings.HasSuffix(t.Path, name[i:]) {
		return name[:i], "iteration " + name[i+1:]
	}
	return name, ""
}

// bare returns the path of a task as a graph has it: without keys and visits.
func bare(path string) string {
	elements := strings.Split(path, "/")
	for i, e := range elements {
		elements[i], _ = transcript.Names(e)
	}
	return strings.Join(elements, "/")
}

// within returns the tasks of the selected node, of which there may be many.
func (p *runPage) within() []*transcript.Task {
	if p.task == "" {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(p.r.Tasks), func(t *transcript.Task) bool { return bare(t.Path) != p.task })
}

// group returns the tasks of one node, or within one, to choose from.
func (p *runPage) group(tasks []*transcript.Task) []map[string]any {
	all := slices.SortedStableFunc(slices.Values(tasks), p.r.Compare)
	var rows []map[string]any
	for _, t := range all[:min(len(all), tasksPage)] {
		name, visit := named(t)
		about := ""
		if len(t.Agents) > 0 {
			about = t.Agents[0].Title()
		}
		rows = append(rows, map[string]any{"Name": name, "Visit": visit, "About": about, "State": state(t), "Link": p.query("task", t.Path), "Time": p.clock(t.Time), "Note": cmp.Or(t.Error, t.Why)})
	}
	return rows
}

// attempts returns what went wrong in a task before.
func attempts(t *transcript.Task) []string {
	var out []string
	for i := range t.Parts {
		if x := &t.Parts[i]; x.Kind == transcript.Retry || x.Kind == transcript.Failure {
			out = append(out, x.Text)
		}
	}
	return out
}

// output returns what a task has given: its update of the state, or the text that its agent said last.
func (p *runPage) output(t *transcript.Task) template.HTML {
	if p.tab != "output" || !t.Ended() {
		return ""
	}
	if t.Depth == 0 {
		ctx, cancel := context.WithTimeout(p.s.ctx, 10*time.Second)
		defer cancel()
		for m, err := range p.s.engine.History(ctx, p.id, "") {
			if err != nil {
				break
			}
			for _, x := range m.Tasks {
				if x.Path == t.Path {
					return p.s.valued(x.Update)
				}
			}
		}
	}
	return markdown(t.Last())
}

func (p *runPage) tabs() [][2]string {
	var out [][2]string
	for _, tab := range []string{"trace", "input", "output", "tokens"} {
		out = append(out, [2]string{tab, p.query("tab", strings.TrimPrefix(tab, "trace"))})
	}
	return out
}

// part draws one part of a task.
func (p *runPage) part(id string, x *transcript.Part) string {
	data := map[string]any{"ID": id, "Kind": x.Kind, "Text": x.Text, "Cut": x.Cut, "Agent": x.Agent}
	switch {
	case x.Tool != nil:
		u := x.Tool
		data["Tool"], data["Arg"], data["State"], data["Result"], data["Input"] = u.Name, u.Arg, string(u.State), u.Result, pretty(u.Input)
		data["Time"] = p.clock(u.Time)
		if u.Child != nil {
			data["Child"], data["ChildName"] = p.query("task", u.Child.Path), u.Child.Label()
		}
	case x.Question != nil:
		data["Question"] = x.Question
	case x.Kind == transcript.Text:
		data["HTML"] = markdown(x.Text)
	}
	return p.s.html("part", data)
}
