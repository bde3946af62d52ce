package acpserve

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	sdk "github.com/coder/acp-go-sdk"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/question"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/internal/tui"
	"github.com/superstep-dev/superstep/runlog"
)

// asking is an open question on its way to the client.
type asking struct {
	stop func() // closes the client's request
	left bool   // the client was asked, or cannot be: the next prompt is the answer, or goes on without one
}

// ask puts open questions to the client, and closes its requests for those that were answered elsewhere. The caller holds mu.
func (v *view) ask() {
	for q, a := range v.asks {
		if q.Answered {
			a.stop()
			delete(v.asks, q)
		}
	}
	if v.replay {
		return
	}
	for _, q := range v.run.Open() {
		if q.Kind == runlog.QuestionMessage || v.asks[q] != nil {
			continue
		}
		ctx, stop := context.WithCancel(v.painter.session.ctx)
		a := &asking{stop: stop}
		v.asks[q] = a
		go v.put(ctx, q, a, question.Meet(v.session.mode, v.run.Imported, &q.Asked))
	}
}

// quoted returns a text as JSON.
func quoted(text string) json.RawMessage {
	b, _ := json.Marshal(text) // texts encode
	return b
}

// leave closes all requests to the client. The caller holds mu.
func (v *view) leave() {
	for _, a := range v.asks {
		a.stop()
		a.left = true
	}
}

// put asks the client, unless the answer is there, and answers the question.
func (v *view) put(ctx context.Context, q *transcript.Question, a *asking, answer *runlog.Answer) {
	x := v.session
	if answer == nil {
		select {
		case x.asking <- struct{}{}: // many clients show one request at a time
		case <-ctx.Done():
			return
		}
		value := v.request(ctx, q)
		<-x.asking
		if value != nil {
			answer = &runlog.Answer{Value: value, By: "person"}
		}
	}
	var err error
	if answer != nil && ctx.Err() == nil {
		answer.Key = q.Asked.Key
		_, err = v.answer(ctx, &turn{}, q.Asked.Path, answer)
	}
	if answer != nil && err == nil || ctx.Err() != nil { // another surface has answered, or the turn was cancelled
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if a.left = true; err != nil {
		x.say(fmt.Sprintf("The question of %s stays open: %s", q.Path, transcript.Clean(err.Error())))
	} else {
		x.say(asText(q) + "\n\n_Your next message is the answer._")
	}
	x.wake()
}

// answer answers a question, and resumes the run where that is due: for that turn. Where the run stays as it is, it is done.
func (v *view) answer(ctx context.Context, t *turn, path string, a *runlog.Answer) (done bool, err error) {
	x := v.session
	rests, err := host.Answer(ctx, x.server.engine, v.id, path, a, func(ctx context.Context) error { return x.start(ctx, t, &tui.Start{Run: v.id}, "") })
	if rests == "" || err != nil {
		return false, err
	}
	x.say("_The answer is recorded. Run " + v.id + " stays as it is: " + rests + "._")
	return true, nil
}

// reply answers a question with the text of a prompt. It is done if the text does not fit.
func (x *session) reply(ctx context.Context, t *turn, v *view, q *transcript.Question, text string) (done bool, err error) {
	permission := question.Kind(&q.Asked) == runlog.QuestionPermission
	if n, err := strconv.Atoi(text); err == nil && !permission && n > 0 && n <= len(q.Asked.Options) && !slices.Contains(q.Asked.Options, text) {
		text = q.Asked.Options[n-1]
	}
	value, err := question.Fit(&q.Asked, text)
	if permission && err != nil {
		value, err = question.Fit(&q.Asked, agent.AnswerDeny+": "+text)
	}
	if err != nil {
		x.say(transcript.Clean(err.Error()) + "\n\n" + asText(q))
		return true, nil
	}
	done, err = v.answer(ctx, t, q.Asked.Path, &runlog.Answer{Key: q.Asked.Key, Value: value, By: "person"})
	v.settle(q, err == nil)
	return done, err
}

// asker says which task asks.
func asker(q *transcript.Question) string {
	return "**" + (&transcript.Task{Path: q.Path}).Label() + " asks:**"
}

// asText returns a question as text.
func asText(q *transcript.Question) string {
	form := question.FormOf(q.Asked.Schema)
	if form.Declinable() { // the words of a stranger, of which Markdown could make something else
		return asker(q) + "\n\n" + fenced(q.Question+"\n\n"+strings.Join(form.Lines(), "\n")+"\n\nsuch as "+form.Example()+" or decline")
	}
	text := asker(q) + " " + question.Headed(q.Header, q.Question)
	if question.Kind(&q.Asked) == runlog.QuestionPermission { // in full words: a slip must not allow anything
		return text + "\n\nAnswer " + strings.Join(q.Options, ", ") + ", or say why not."
	}
	for i, o := range q.Options {
		text += fmt.Sprintf("\n%d. %s", i+1, o)
		if about := q.About[o]; about != "" {
			text += ": " + about
		}
	}
	if form != nil {
		text += "\n\n" + strings.Join(form.Lines(), "\n") + "\n\nsuch as `" + form.Example() + "`"
	}
	return text
}

// request asks the client, in the way that it has for such a question. It returns nil if there is no answer.
func (v *view) request(ctx context.Context, q *transcript.Question) json.RawMessage {
	x := v.session
	x.server.mu.Lock()
	forms := x.server.forms
	x.server.mu.Unlock()
	kind := question.Kind(&q.Asked)
	if forms && kind != runlog.QuestionPermission {
		return v.form(ctx, q)
	}
	var list []question.Choice
	for _, c := range question.Menu(&q.Asked) {
		open := strings.HasSuffix(c.Answer, "…")
		if c.Answer != "" && !c.Why && !open && c.Answer != agent.AnswerRun && !q.Asked.Several() {
			list = append(list, c)
		}
	}
	if len(list) == 0 {
		return nil
	}
	var options []sdk.PermissionOption
	for i, c := range list {
		o := sdk.PermissionOption{OptionId: sdk.PermissionOptionId(fmt.Sprint(i)), Kind: sdk.PermissionOptionKindAllowOnce, Name: c.Name}
		switch {
		case kind == runlog.QuestionPermission && c.Answer == agent.AnswerOnce:
			o.Name = "Allow once"
		case kind == runlog.QuestionPermission && c.Answer == agent.AnswerAlways:
			o.Kind, o.Name = sdk.PermissionOptionKindAllowAlways, "Always allow "+q.Call.Always+" in this project"
		case kind == runlog.QuestionPermission || kind == runlog.QuestionGate && c.Answer == "reject":
			o.Kind, o.Name = sdk.PermissionOptionKindRejectOnce, "Reject"
		case c.Note != "":
			o.Name += ": " + c.Note
		}
		options = append(options, o)
	}
	x.mu.Lock()
	about := v.subject(q)
	x.mu.Unlock()
	about.SessionUpdate = ""
	var out struct {
		Outcome struct{ Outcome, OptionID string }
	}
	out, err := sdk.SendRequest[struct {
		Outcome struct{ Outcome, OptionID string }
	}](x.server.conn, ctx, sdk.ClientMethodSessionRequestPermission, map[string]any{"sessionId": x.id, "toolCall": about, "options": options, "_meta": meta(v.id)})
	var n int
	if _, scan := fmt.Sscan(out.Outcome.OptionID, &n); err != nil || out.Outcome.Outcome != "selected" || scan != nil || n < 0 || n >= len(list) {
		return nil
	}
	value, err := question.Fit(&q.Asked, list[n].Answer)
	if err != nil {
		return nil
	}
	return value
}

// subject tells the client what a question is about, as a tool call. The caller holds mu.
func (v *view) subject(q *transcript.Question) *call {
	if q.Call == nil {
		c := &call{ID: v.callID(q.Path, q.Key), Title: question.Headed(q.Header, q.Question), Kind: sdk.ToolKindOther, Status: sdk.ToolCallStatusPending,
			Content: []sdk.ToolCallContent{sdk.ToolContent(sdk.TextBlock(asText(q)))}}
		return c
	}
	c := v.about(q.Call.Tool, q.Call.Subject, q.Call.Args, q.Call.Cwd)
	c.ID, c.Status, c.Content = v.painter.asks(q), sdk.ToolCallStatusPending, nil
	path := q.Call.Subject
	if !filepath.IsAbs(path) {
		path = filepath.Join(q.Call.Cwd, path)
	}
	if q.Call.Diff != "" && q.Call.Larger == 0 && q.Call.Fails == "" && !question.Hidden(q.Asked.Call.Diff) {
		c.Content = diffs(path, q.Call.Diff)
	}
	text := tui.Card(q.Call)
	if c.Content != nil {
		text = question.Because(q.Call.Rule, q.Call.Origin, q.Call.Reason)
	}
	if c.Content = append(c.Content, sdk.ToolContent(sdk.TextBlock(fenced(text)))); !v.knows(c.ID) {
		v.tell(c)
	}
	return c
}

// form asks by a form until the answer fits. It returns nil if the user gives no answer. To decline is an answer to what can be declined.
func (v *view) form(ctx context.Context, q *transcript.Question) json.RawMessage {
	x, text := v.session, asText(q)
	form := question.FormOf(q.Asked.Schema)
	schema, read := question.Elicit(&q.Asked)
	if form.Declinable() {
		text = asker(q) + "\n\n" + fenced(q.Question)
	}
	for wrong := ""; ; {
		out, err := sdk.SendRequest[struct {
			Action  string
			Content map[string]json.RawMessage
		}](x.server.conn, ctx, sdk.ClientMethodElicitationCreate, map[string]any{
			"sessionId": x.id, "mode": "form", "message": strings.TrimSpace(wrong + "\n\n" + text), "requestedSchema": schema, "_meta": meta(v.id),
		})
		switch {
		case err == nil && out.Action == "decline" && form.Declinable():
			no, _ := question.Fit(&q.Asked, out.Action) // which always fits
			return no
		case err != nil || out.Action != "accept":
			return nil
		}
		value, err := read(out.Content)
		if err == nil {
			return value
		}
		wrong = transcript.Clean(err.Error())
	}
}
