package acpserve

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	sdk "github.com/coder/acp-go-sdk"

	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/arguments"
	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/question"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/internal/tui"
	"github.com/superstep-dev/superstep/runlog"
)

const (
	chatWorkflow = "agent"         // whose runs are conversations
	stopTime     = 3 * time.Second // that a cancelled turn may take to end
	retryDelay   = 100 * time.Millisecond
	mostOutcome  = 8 << 10  // bytes of the result of a workflow that the chat is told
	mostFile     = 16 << 10 // bytes of a file in a prompt; a message may have runlog's 64 KiB
)

// A session is a conversation of the client. Fields below mu are guarded by it.
type session struct {
	server *server
	id     string
	dir    string
	folder Folder
	ctx    context.Context
	close  context.CancelFunc
	asking chan struct{} // is full while the client is asked; it is asked one thing at a time

	mu       sync.Mutex
	line     []*place      // requests that were read and have not been carried out, in that order
	changed  chan struct{} // closed at any change, and replaced
	mode     string        // see package question
	model    string        // of new runs, "" for the one that is configured
	views    []*view       // the runs of the session, the oldest first
	turn     *turn         // nil while the session waits for a prompt
	outcomes []string      // of workflows, which the chat is told with the next message
	unused   int           // MCP servers of the client that are not used
	greeted  bool
}

// A turn is the answer to a prompt, and to those that come meanwhile.
type turn struct {
	prompts   int // that wait for its end
	view      *view
	asked     int // how often the run asks for a message before the answer to the prompt is complete
	cancelled bool
}

// A view is a run of a session as the client knows it. The session's mutex guards it.
type view struct {
	*painter
	session   *session
	run       transcript.Run
	following bool
	err       error
	asks      map[*transcript.Question]*asking
}

// wake tells everybody who waits that something has changed. The caller holds mu.
func (x *session) wake() {
	close(x.changed)
	x.changed = make(chan struct{})
}

// wait waits until a condition, which is asked with mu held, holds.
func (x *session) wait(ctx context.Context, holds func() bool) error {
	for {
		x.mu.Lock()
		is, changed := holds(), x.changed
		x.mu.Unlock()
		if is {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-x.ctx.Done():
			return errors.New("the session was closed")
		}
	}
}

// send sends an update.
func (x *session) send(update any) {
	_ = x.server.conn.SendNotification(x.ctx, sdk.ClientMethodSessionUpdate, map[string]any{"sessionId": x.id, "update": update}) // the client has left
}

// say sends a text of ours, as a paragraph of its own.
func (x *session) say(text string) { x.send(sdk.UpdateAgentMessageText(text + "\n\n")) }

// view returns the view of a run, a new one if there is none.
func (x *session) view(id string) *view {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, v := range x.views {
		if v.id == id {
			return v
		}
	}
	v := &view{session: x, painter: newPainter(x, id), asks: map[*transcript.Question]*asking{}}
	v.run.Window = 32 << 20
	x.views = append(x.views, v)
	return v
}

// chat returns the conversation, and the last run, nil if there is none. The caller holds mu.
func (x *session) chat() (talks, last *view) {
	for _, v := range x.views {
		if last = v; v.run.Workflow == chatWorkflow {
			talks = v
		}
	}
	return talks, last
}

// next returns the ID of the session's next run that is not its chat.
func (x *session) next(ctx context.Context) (string, error) {
	infos, err := x.server.runs(ctx, x.id)
	n := 2
	for slices.ContainsFunc(infos, func(i runlog.Info) bool { return i.ID == fmt.Sprintf("%s-%d", x.id, n) }) {
		n++
	}
	return fmt.Sprintf("%s-%d", x.id, n), err
}

// follow follows a run until no process executes it.
func (v *view) follow() {
	x, answered := v.session, 0 // how often it is looked at before an answer has it resumed
	for {
		x.mu.Lock()
		from := v.run.Seq + 1
		x.mu.Unlock()
		for rec, err := range x.server.engine.Follow(x.ctx, v.id, from) {
			x.mu.Lock()
			if v.err = err; err == nil {
				v.run.Apply(rec)
				v.paint(&v.run, &rec)
				v.ask()
			}
			x.wake()
			x.mu.Unlock()
		}
		info, err := x.server.engine.Find(x.ctx, v.id)
		x.mu.Lock()
		delay := retryDelay
		switch { // another process resumes it, or has
		case info.Status == runlog.Paused && v.run.By == "" && v.waits():
			answered, delay = 10, 5*retryDelay
		case info.Status == runlog.Interrupted && answered > 0:
			answered--
			delay = 5 * retryDelay
		case info.Status != runlog.Running:
			delay = 0
		}
		if err == nil && delay > 0 && v.err == nil && x.ctx.Err() == nil {
			x.mu.Unlock()
			time.Sleep(delay)
			continue
		}
		if err == nil {
			v.run.End(info.Status)
		}
		v.err, v.following = cmp.Or(v.err, err), false
		v.paint(&v.run, nil)
		x.wake()
		x.mu.Unlock()
		return
	}
}

// catchUp follows a run if nobody does, and waits until all that is stored of it is known.
func (x *session) catchUp(ctx context.Context, v *view, info *runlog.Info) error {
	x.mu.Lock()
	fresh := v.run.Seq == 0
	if v.replay = fresh; !v.following && (v.run.Seq < info.Head || info.Status == runlog.Running) {
		v.following = true
		go v.follow()
	}
	x.mu.Unlock()
	err := x.wait(ctx, func() bool { return v.run.Seq >= info.Head || !v.following })
	x.mu.Lock()
	defer x.mu.Unlock()
	if v.replay, v.mute = false, false; fresh {
		for _, q := range v.run.Open() { // a user has stopped it on purpose, or it only waits for a message
			if v.run.By != "" && info.Status == runlog.Paused {
				v.asks[q] = &asking{left: true, stop: func() {}}
			}
		}
	}
	v.ask()
	return cmp.Or(err, v.err)
}

// watch follows a run that was started for a prompt.
func (x *session) watch(t *turn, run, said string) {
	v := x.view(run)
	x.mu.Lock()
	defer x.mu.Unlock()
	v.expect(said)
	if t.view = v; !v.following {
		v.following, v.err = true, nil
		go v.follow()
	}
}

// prompt carries out a prompt, and returns when its turn has ended.
func (x *session) prompt(ctx context.Context, p *params) (any, error) {
	text, err := textOf(p.Prompt)
	if err != nil {
		return nil, err
	}
	var t *turn
	err = x.wait(ctx, func() bool {
		if p.place.cancelled {
			return true
		}
		if slices.ContainsFunc(p.place.before(), func(b *place) bool { return b.stops }) {
			return false
		}
		if x.turn == nil {
			x.turn = &turn{}
		}
		if t = x.turn; t.cancelled { // it is about to end
			return false
		}
		t.prompts++
		return true
	})
	if err != nil {
		return nil, err
	}
	if t == nil {
		return map[string]any{"stopReason": sdk.StopReasonCancelled}, nil
	}
	defer func() {
		x.mu.Lock()
		if t.prompts--; t.prompts == 0 {
			x.turn = nil
		}
		x.wake()
		x.mu.Unlock()
	}()
	if err := x.wait(ctx, func() bool { return t.cancelled || len(p.place.before()) == 0 }); err != nil {
		return nil, err
	}
	x.greet()
	done, err := x.deliver(ctx, t, text)
	p.place.leave()
	switch {
	case err != nil && t.stopped(x):
		done = true
	case err != nil:
		return nil, err
	}
	stop := sdk.StopReasonEndTurn
	if !done {
		stop, err = x.await(ctx, t)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if t.cancelled {
		stop = sdk.StopReasonCancelled
	}
	out := map[string]any{"stopReason": stop}
	if t.view != nil {
		out["_meta"] = meta(t.view.id)
	}
	return out, err
}

// greet says once what the user should know about the folder.
func (x *session) greet() {
	x.mu.Lock()
	was, unused := x.greeted, x.unused
	x.greeted = true
	x.mu.Unlock()
	if was {
		return
	}
	if c, err := x.folder.Catalog(x.ctx); err == nil {
		if c.Untrusted > 0 {
			x.say(fmt.Sprintf("_not used until you decide: %s of this project: `%s trust`_", inwords.Plural(c.Untrusted, "item"), x.server.opt.Name))
		}
		if c.Broken != "" {
			x.say(fenced(transcript.Clean(c.Broken)))
		}
	}
	if unused > 0 {
		x.say("_The MCP servers of this editor are not used. Those of the project and of your own configuration are._")
	}
}

func (t *turn) stopped(x *session) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return t.cancelled
}

// await waits until a turn has ended, and says how if its run does not.
func (x *session) await(ctx context.Context, t *turn) (sdk.StopReason, error) {
	err := x.wait(ctx, func() bool { return t.cancelled || t.view.rests(t.asked) })
	select {
	case <-x.server.conn.Done(): // the client has left, and the run goes on
		return "", context.Canceled
	default:
	}
	if ctx.Err() != nil { // the client has cancelled the request
		_, err = x.cancel(ctx, nil)
	}
	if err != nil {
		return "", err
	}
	x.mu.Lock()
	v, cancelled, chat := t.view, t.cancelled, t.view.run.Workflow == chatWorkflow
	ended := !v.following || v.run.AwaitsMessage() && v.rests(t.asked) // just then
	x.mu.Unlock()
	if cancelled && !ended {
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
		defer stop()
		if chat {
			if !x.interrupt(ctx, t) {
				_ = x.server.engine.Cancel(ctx, v.id) // what is under way ends at once
			}
		} else if x.server.engine.Pause(ctx, v.id, "person") != nil {
			x.say("_Run " + v.id + " pauses when the steps that are running have ended. /resume resumes it._")
			return sdk.StopReasonCancelled, nil
		}
		_ = x.wait(ctx, func() bool { return !v.following || v.run.Status != runlog.Running || v.run.AwaitsMessage() })
	}
	if cancelled {
		return sdk.StopReasonCancelled, nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	text, stop := v.closing()
	if v.closed == text { // another prompt of this turn was told
		text = ""
	}
	if text != "" {
		v.closed = text
		x.say(text)
	}
	if r := &v.run; !chat && !v.following && r.Status.Ended() && !v.told {
		v.told = true
		result := cmp.Or(r.Result(), r.Error)
		result = strings.ToValidUTF8(result[:min(len(result), mostOutcome)], "")
		x.outcomes = append(x.outcomes, fmt.Sprintf("[The user ran the workflow %s here, as run %s. It is %s. Its result:\n%s]", r.Workflow, v.id, r.Status, result))
	}
	return stop, nil
}

// rests reports whether a run has nothing more to say before the next prompt.
func (v *view) rests(asked int) bool {
	if !v.following {
		return true
	}
	open := v.run.Open()
	if v.run.AwaitsMessage() {
		return messages(&v.run) > asked
	}
	return len(open) > 0 && v.run.Waits() && !slices.ContainsFunc(open, func(q *transcript.Question) bool {
		a := v.asks[q]
		return q.Kind != runlog.QuestionMessage && (a == nil || !a.left)
	})
}

// waits reports whether the client has been asked something and has not answered.
func (v *view) waits() bool {
	return slices.ContainsFunc(v.run.Open(), func(q *transcript.Question) bool { a := v.asks[q]; return a != nil && !a.left })
}

// left reports whether a question waits for the next prompt.
func (v *view) left() bool {
	return slices.ContainsFunc(v.run.Open(), func(q *transcript.Question) bool { a := v.asks[q]; return a != nil && a.left })
}

// messages returns how often a run has asked for a message.
func messages(r *transcript.Run) (n int) {
	for _, q := range r.Questions {
		if q.Kind == runlog.QuestionMessage {
			n++
		}
	}
	return n
}

// closing returns what is to be said about a run that does not go on, "" for nothing, and why its turn has ended.
func (v *view) closing() (text string, stop sdk.StopReason) {
	r, stop := &v.run, sdk.StopReasonEndTurn
	switch {
	case v.err != nil:
		return transcript.Clean(v.err.Error()), stop
	case v.following || r.AwaitsMessage():
		return "", stop
	case r.Short != nil:
		if stop = sdk.StopReasonMaxTurnRequests; r.Short.What == runlog.BudgetTokens {
			stop = sdk.StopReasonMaxTokens
		}
		return transcript.Clean(r.Short.Error()) + "; raise it with /budget, and /resume", stop
	case r.Status == runlog.Completed || r.Status == runlog.Partial:
		text = transcript.Clean(r.Result())
		if r.Status == runlog.Partial {
			text = strings.TrimSpace(text + "\n\n_Completed in part: " + strings.Join(r.Failed, ", ") + " failed._")
		}
		return text, stop
	case r.Status == runlog.Failed:
		return fmt.Sprintf("Run %s failed: %s", v.id, r.Error), stop
	}
	return fmt.Sprintf("_Run %s is %s. /resume resumes it._", v.id, r.Status), stop
}

// interrupt breaks off what the lead of a chat says, and reports whether the chat then waits for the next message. It does not while tools are running or
// something is asked.
func (x *session) interrupt(ctx context.Context, t *turn) bool {
	ctx, stop := context.WithTimeout(ctx, stopTime/2)
	defer stop()
	x.mu.Lock()
	asks := slices.ContainsFunc(t.view.run.Open(), func(q *transcript.Question) bool { return q.Kind != runlog.QuestionMessage })
	x.mu.Unlock()
	return !asks && x.server.engine.Interrupt(ctx, t.view.id, "") == nil &&
		x.wait(ctx, func() bool { return !t.view.following || t.view.run.AwaitsMessage() }) == nil && ctx.Err() == nil
}

// cancel ends the turn. A workflow pauses. The lead of a chat is interrupted; if it does something else than talk, its run is cancelled, so that nothing of
// the turn is repeated, and the next message continues the chat in a run that knows what was said.
func (x *session) cancel(_ context.Context, p *params) (any, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, b := range p.place.before() {
		b.cancelled = true
	}
	if t := x.turn; t != nil && !t.cancelled {
		t.cancelled = true
		if t.view != nil {
			t.view.leave()
		}
	}
	x.wake()
	return struct{}{}, nil
}

// end closes the session. What it has begun ends as when it is cancelled.
func (x *session) end(ctx context.Context, p *params) (any, error) {
	_, _ = x.cancel(ctx, p)
	ctx, stop := context.WithTimeout(ctx, stopTime+time.Second)
	defer stop()
	_ = x.wait(ctx, func() bool { return x.turn == nil })
	x.close()
	x.server.mu.Lock()
	defer x.server.mu.Unlock()
	if x.server.sessions[x.id] == x {
		delete(x.server.sessions, x.id)
	}
	return struct{}{}, nil
}

// deliver carries out a slash command, or sends a message. It is done if nothing more is to be waited for.
func (x *session) deliver(ctx context.Context, t *turn, text string) (done bool, err error) {
	if t.stopped(x) {
		return true, nil
	}
	if name, args, is := slash(text); is {
		if done, known, err := x.command(ctx, t, name, args); known {
			return done, err
		}
	}
	x.mu.Lock()
	v, last := x.chat()
	if last != nil && (last.following || last.run.By == "" && !last.run.Status.Ended() && last.left()) { // a workflow works, or wants an answer
		v = last
	}
	x.mu.Unlock()
	if v == nil {
		return false, x.talk(ctx, t, last, text)
	}
	info, err := x.server.engine.Find(ctx, v.id)
	if err == nil {
		err = x.catchUp(ctx, v, &info)
	}
	if err != nil {
		return false, err
	}
	x.mu.Lock()
	var message, wants *transcript.Question
	for _, q := range v.run.Open() {
		switch kind, a := question.Kind(&q.Asked), v.asks[q]; {
		case kind == runlog.QuestionMessage:
			message = q
		case wants == nil && a != nil && a.left: // else the client shows it
			wants = q
		}
	}
	t.view, t.asked = v, messages(&v.run)
	chat, running, over := v.run.Workflow == chatWorkflow, info.Status == runlog.Running, info.Status.Ended() || info.Status == runlog.Failed
	v.closed = ""
	x.mu.Unlock()
	e := x.server.engine
	switch {
	case wants != nil && !over:
		return x.reply(ctx, t, v, wants, text)
	case !chat:
		if running && e.Steer(ctx, v.id, "", text) == nil {
			return false, nil
		}
		x.say("No agent of this run works now, so nobody would read that.")
		return true, nil
	}
	text = x.briefed(text)
	switch {
	case over:
		return false, x.talk(ctx, t, v, text)
	case message != nil:
		v.expects(text)
		if done, err := v.answer(ctx, t, message.Asked.Path, &runlog.Answer{Key: message.Asked.Key, Value: quoted(text), By: "person"}); err == nil {
			return done, nil
		}
	case running:
		v.expects(text)
		for works := true; works; { // its agent may be about to begin
			if e.Steer(ctx, v.id, "", text) == nil {
				return false, nil
			}
			x.mu.Lock()
			seq := v.run.Seq
			x.mu.Unlock()
			soon, stop := context.WithTimeout(ctx, stopTime)
			works = x.wait(soon, func() bool { return t.cancelled || v.run.Seq > seq || !v.following }) == nil && v.goesOn(t)
			stop()
		}
	default: // it was interrupted, and completes the answer before
		t.asked++
		return false, x.start(ctx, t, &tui.Start{Run: v.id, Message: text}, text)
	}
	return false, x.start(ctx, t, &tui.Start{Run: v.id, Message: text}, "") // its turn, or its process, has ended in between
}

// goesOn reports whether a process executes the run for the turn, and no agent waits for a message.
func (v *view) goesOn(t *turn) bool {
	v.session.mu.Lock()
	defer v.session.mu.Unlock()
	return !t.cancelled && v.following && v.run.Status == runlog.Running && !v.run.AwaitsMessage()
}

// settle notes that a question has an answer, if it has, which the view may learn later.
func (v *view) settle(q *transcript.Question, answered bool) {
	v.session.mu.Lock()
	defer v.session.mu.Unlock()
	if a := v.asks[q]; a != nil && answered {
		a.left = false
	}
}

// talk begins a conversation, about a run that has ended if there is one.
func (x *session) talk(ctx context.Context, t *turn, about *view, text string) error {
	x.mu.Lock()
	free := !slices.ContainsFunc(x.views, func(v *view) bool { return v.id == x.id })
	if about != nil && free && (len(x.outcomes) > 0 || !about.run.Status.Ended()) { // it is told in the message, or is not over
		about = nil
	}
	x.mu.Unlock()
	text = x.briefed(text)
	s := &tui.Start{Workflow: chatWorkflow, ID: x.id, Model: x.chosen()}
	s.Inputs, _ = json.Marshal(map[string]any{"prompt": text, "chat": true}) // texts and true encode
	if about != nil {
		id, err := x.next(ctx)
		if err != nil {
			return err
		}
		s = &tui.Start{Run: about.id, Message: text, ID: id}
	}
	t.asked = 0
	return x.start(ctx, t, s, text)
}

func (x *session) chosen() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.model
}

// briefed adds the outcomes of workflows to a message.
func (x *session) briefed(text string) string {
	x.mu.Lock()
	defer x.mu.Unlock()
	text = strings.Join(append(x.outcomes, text), "\n\n")
	x.outcomes = nil
	return text
}

// start starts, resumes or continues a run, and follows it.
func (x *session) start(ctx context.Context, t *turn, s *tui.Start, said string) error {
	if t.stopped(x) {
		return context.Canceled
	}
	p, err := x.folder.Start(ctx, s)
	if err != nil {
		return err
	}
	x.watch(t, p, said)
	return nil
}

// slash splits a command line, and reports whether a text is one.
func slash(text string) (name, args string, is bool) {
	name, args, _ = strings.Cut(text, " ")
	if line, rest, broken := strings.Cut(name, "\n"); broken {
		name, args = line, rest+" "+args
	}
	name, is = strings.CutPrefix(name, "/")
	return name, strings.TrimSpace(args), is && name != "" && !strings.Contains(name, "/")
}

// A command is a slash command that is no workflow: the command line that it stands for. RUN is the last run of the session.
type command struct{ name, hint, about, line string }

func commands() []command {
	return []command{
		{"resume", "", "resume the last run of this session", ""},
		{"show", "", "what the last run did, and what it cost", "runs show RUN"},
		{"budget", "2.50", "change what the last run may cost, in US dollars", "runs budget RUN --max-cost"},
		{"compact", "", "sum up this conversation before the next answer", "runs steer --compact RUN"},
		{"permissions", "", "the rules for agents", "permissions list"},
	}
}

// command carries out a slash command. It is not known if nothing has that name: then it is a message.
func (x *session) command(ctx context.Context, t *turn, name, args string) (done, known bool, err error) {
	x.mu.Lock()
	talks, last := x.chat()
	busy := t.prompts > 1
	x.mu.Unlock()
	for _, k := range commands() {
		if k.name == name {
			if name == "compact" {
				last = talks
			}
			done, err = x.printed(ctx, t, &k, last, args)
			return done, true, err
		}
	}
	c, err := x.folder.Catalog(ctx)
	if err != nil {
		return false, true, err
	}
	i := slices.IndexFunc(c.Workflows, func(w host.Item) bool { return strings.EqualFold(w.Name, name) || slices.Contains(w.Aliases, name) })
	if i < 0 {
		return false, false, nil
	}
	if busy {
		return false, true, refused(-32600, "/"+name+": the session works; wait, or cancel the turn")
	}
	w := c.Find(c.Workflows[i].Name)
	if w == nil {
		return false, true, fmt.Errorf("the workflow %s cannot be used; %s workflows show %s says why", name, x.server.opt.Name, name)
	}
	inputs, err := arguments.Line(w, args)
	if err != nil {
		return false, true, refused(-32602, fmt.Sprintf("/%s: %v; it takes %s", w.Name, err, arguments.Hint(c.Workflows[i].Inputs)))
	}
	id, err := x.next(ctx)
	if err == nil {
		err = x.start(ctx, t, &tui.Start{Workflow: w.Name, Inputs: inputs, Model: x.chosen(), ID: id}, started)
	}
	return false, true, err
}

// printed carries out a command that is no workflow, and says what it prints.
func (x *session) printed(ctx context.Context, t *turn, k *command, last *view, args string) (done bool, err error) {
	words := strings.Fields(k.line)
	if i := slices.Index(words, "RUN"); i >= 0 || k.name == "resume" {
		if last == nil {
			x.say("There is no run in this session yet.")
			return true, nil
		}
		if i >= 0 {
			words[i] = last.id
		}
	}
	if k.name == "resume" {
		t.asked = -1
		return false, x.start(ctx, t, &tui.Start{Run: last.id}, "")
	}
	out, err := x.folder.Command(ctx, append(words, arguments.Words(args)...)...)
	if out = strings.TrimSpace(transcript.Clean(out)); err == nil {
		x.say("```\n" + cmp.Or(out, k.name+": done") + "\n```")
	}
	return true, err
}

// offer tells the client the slash commands.
func (x *session) offer() {
	c, err := x.folder.Catalog(x.ctx)
	if err != nil {
		return
	}
	list := []sdk.AvailableCommand{}
	add := func(name, about, hint string) {
		k := sdk.AvailableCommand{Name: name, Description: transcript.Line(about)}
		if hint != "" {
			k.Input = &sdk.AvailableCommandInput{Unstructured: &sdk.UnstructuredCommandInput{Hint: hint}}
		}
		list = append(list, k)
	}
	for i := range c.Workflows {
		w := &c.Workflows[i]
		add(w.Name, w.Description, arguments.Hint(w.Inputs))
	}
	for _, k := range commands() {
		add(k.name, k.about, k.hint)
	}
	x.send(sdk.SessionUpdate{AvailableCommandsUpdate: &sdk.SessionAvailableCommandsUpdate{AvailableCommands: list}})
}

// modes returns the modes of the terminal, and which it is.
func (x *session) modes() sdk.SessionModeState {
	x.mu.Lock()
	defer x.mu.Unlock()
	mode := func(id, about string) sdk.SessionMode {
		return sdk.SessionMode{Id: sdk.SessionModeId(cmp.Or(id, "ask")), Name: cmp.Or(id, "ask"), Description: &about}
	}
	return sdk.SessionModeState{CurrentModeId: sdk.SessionModeId(cmp.Or(x.mode, "ask")), AvailableModes: []sdk.SessionMode{
		mode("", "every permission request is put to you"),
		mode(question.ModeEdits, "ordinary edits in the project pass; commands and the rest still ask"),
		mode(question.ModePlan, "every permission request is denied"),
	}}
}

func (x *session) setMode(ctx context.Context, p *params) (any, error) {
	if err := p.place.comes(ctx); err != nil {
		return nil, err
	}
	id := p.ModeID
	if id != "ask" && id != question.ModeEdits && id != question.ModePlan {
		return nil, refused(-32602, fmt.Sprintf("there is no mode %q; use ask, %s or %s", id, question.ModeEdits, question.ModePlan))
	}
	x.mu.Lock()
	x.mode = strings.TrimPrefix(id, "ask")
	x.mu.Unlock()
	x.send(sdk.SessionUpdate{CurrentModeUpdate: &sdk.SessionCurrentModeUpdate{CurrentModeId: sdk.SessionModeId(id)}})
	return struct{}{}, nil
}

// options returns the choice of a model, nothing if there is none to choose.
func (x *session) options(ctx context.Context) []sdk.SessionConfigOption {
	c, err := x.folder.Catalog(ctx)
	if err != nil || c.Model == "" {
		return nil
	}
	var list sdk.SessionConfigSelectOptionsUngrouped
	if c.Models != nil {
		for _, p := range c.Models.Providers {
			for _, m := range p.Models {
				if n := transcript.Line(m.Name); p.Configured {
					list = append(list, sdk.SessionConfigSelectOption{Name: n, Value: sdk.SessionConfigValueId(n)})
				}
			}
		}
	}
	current := sdk.SessionConfigValueId(cmp.Or(x.chosen(), c.Model))
	if !slices.ContainsFunc(list, func(o sdk.SessionConfigSelectOption) bool { return o.Value == current }) {
		list = append(list, sdk.SessionConfigSelectOption{Name: string(current), Value: current})
	}
	o := sdk.NewSessionConfigOptionSelect(current, sdk.SessionConfigSelectOptions{Ungrouped: &list})
	o.Select.Id, o.Select.Name, o.Select.Category = "model", "Model", sdk.Ptr(sdk.SessionConfigOptionCategory("model"))
	o.Select.Description = sdk.Ptr("Of the runs that begin from now on. A chat keeps the model that it began with.")
	return []sdk.SessionConfigOption{o}
}

func (x *session) setOption(ctx context.Context, p *params) (any, error) {
	if err := p.place.comes(ctx); err != nil {
		return nil, err
	}
	value, _ := p.Value.(string)
	for _, o := range x.options(ctx) {
		if p.ConfigID == "model" && slices.ContainsFunc(*o.Select.Options.Ungrouped, func(c sdk.SessionConfigSelectOption) bool { return string(c.Value) == value }) {
			x.mu.Lock()
			x.model = value
			x.mu.Unlock()
			return map[string]any{"configOptions": x.options(ctx)}, nil
		}
	}
	return nil, refused(-32602, fmt.Sprintf("%s: there is no choice %v", p.ConfigID, p.Value))
}
