package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/pflag"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/elicit"
	"github.com/superstep-dev/superstep/internal/question"
	"github.com/superstep-dev/superstep/internal/summary"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/internal/tui"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
)

const (
	mostServed   = 16       // runs that clients started and that execute at once
	mostListed   = 100      // runs in the list of resources
	longestAsked = 32 << 10 // bytes of a question for the client's user; a longer one waits for another surface
	runURI       = "superstep://runs/"
	keyMeta      = "superstep.dev/idempotency-key" // in the _meta of a call
)

const serveInstructions = `Each workflow is a tool: a call starts a durable run in a process of its own and returns when the run ends or asks something. ` +
	`The run goes on if the call is cancelled or the connection ends: follow it with run_status. The user is asked what a run asks, if the client can do that; ` +
	`else answer answers questions of kind ask and form. Gates and permission are the user's alone. Runs are resources, ` + runURI + `ID. A call with the same arguments and the same ` + keyMeta + ` in its _meta ` +
	`is the same run.`

// serving offers the workflows of the host to MCP clients. It acts on the runs that clients started in this folder, and on no other.
type serving struct {
	*terminalBackend
	asker   elicit.Asker
	prefix  string        // of the IDs of these runs
	answer  string        // the command that answers questions
	resume  string        // the command that resumes runs
	every   time.Duration // between two signs of life
	resumes func(ctx context.Context, s *tui.Start) (run string, err error)

	starting sync.Mutex
	offered  []string // workflows that are tools now
}

// newServing returns what serve --mcp --workflows serves. Flags are those of the command that its runs have, too.
func newServing(a *app, flags *pflag.FlagSet) (*serving, error) {
	dir := a.host().Dir()
	if dir == "" {
		return nil, errors.New("the folder to work in is gone")
	}
	s := &serving{terminalBackend: &terminalBackend{a: a, global: a.globalArgs()}, every: 10 * time.Second, answer: a.hint("runs", "answer"), resume: a.hint("runs", "resume")}
	s.resumes = s.Start
	s.prefix = fmt.Sprintf("mcp-%x-", sha256.Sum256([]byte(dir)))[:12] + "-"
	s.global, s.rules = append(s.global, a.runFlags(flags)...), []string{"--" + guestFlag}
	return s, nil
}

// runFlags returns the flags of a server that its runs have, too.
func (a *app) runFlags(flags *pflag.FlagSet) (out []string) {
	for _, text := range []struct {
		flag   string
		values []string
	}{{"allow", a.set.leave.allow}, {"ask", a.set.leave.ask}, {"deny", a.set.leave.deny}} {
		for _, v := range text.values {
			out = append(out, "--"+text.flag+"="+v)
		}
	}
	flags.Visit(func(f *pflag.Flag) {
		if f.Name == "trust-project" || f.Name == "timeout" || strings.HasPrefix(f.Name, "max-") {
			out = append(out, "--"+f.Name+"="+f.Value.String())
		}
	})
	return out
}

// extend adds the workflows, the tools about runs, and the runs to a server.
func (s *serving) extend(server *sdk.Server) {
	for _, t := range s.controls() {
		server.AddTool(t.Tool, t.handler)
	}
	server.AddResourceTemplate(&sdk.ResourceTemplate{
		Name: "run", URITemplate: runURI + "{id}", MIMEType: "application/json", Description: "A run: its steps, output and open questions",
	}, s.read)
	_ = s.sync(server) // the first list says what is wrong
	server.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			if x := req.GetExtra(); x != nil && x.Header.Get(elicit.Agent) != "" {
				return nil, errNested
			}
			switch method {
			case "tools/list":
				if err := s.sync(server); err != nil {
					return nil, err
				}
			case "resources/list":
				return s.list(ctx)
			}
			return next(ctx, method, req)
		}
	})
}

// errNested refuses agents that work in a run.
var errNested = errors.New("an agent that works in a run cannot start workflows: delegation is one level deep; let the workflow itself have the step")

// sync makes the tools of a server those workflows that can be run now.
func (s *serving) sync(server *sdk.Server) error {
	h := s.host()
	h.Refresh()
	items, _, err := h.List(context.Background(), host.Workflows, false)
	if err != nil {
		return err
	}
	s.starting.Lock()
	defer s.starting.Unlock()
	var offered []string
	for _, i := range items {
		w, err := h.Find(i.Name)
		if i.State != "usable" || err != nil || slices.ContainsFunc(s.controls(), func(t control) bool { return t.Name == i.Name }) {
			continue
		}
		schema := &jsonschema.Schema{Type: "object"}
		if w.Inputs != nil {
			inputs := *w.Inputs
			schema, inputs.Type = &inputs, "object"
		}
		server.AddTool(&sdk.Tool{Name: w.Name, Description: clean.Text(w.Description), InputSchema: schema}, s.call)
		offered = append(offered, w.Name)
	}
	gone := slices.DeleteFunc(s.offered, func(name string) bool { return slices.Contains(offered, name) })
	server.RemoveTools(gone...)
	s.offered = offered
	return nil
}

// A control is a tool about runs.
type control struct {
	*sdk.Tool
	handler sdk.ToolHandler
}

// given are the arguments of controls.
type givenRun struct {
	Run      string          `json:"run"`
	Question string          `json:"question"`
	Answer   json.RawMessage `json:"answer"`
	Wait     bool            `json:"wait"`
}

func (s *serving) controls() []control {
	run := `{"type":"object","required":["run"],"properties":{"run":{"type":"string","description":"its ID"}%s}}`
	of := func(name, description, more string, do func(context.Context, *sdk.CallToolRequest, *superstep.Engine, *runlog.Info, *givenRun) (*sdk.CallToolResult, error)) control {
		return control{&sdk.Tool{Name: name, Description: description, InputSchema: json.RawMessage(fmt.Sprintf(run, more))},
			func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				if id, again, err := s.asking(req); again {
					return s.show(ctx, req, id, err)
				}
				var g givenRun
				if err := json.Unmarshal(req.Params.Arguments, &g); err != nil {
					return failed(fmt.Errorf("%s: the arguments do not fit: %w", name, err)), nil
				}
				e, info, err := s.find(ctx, g.Run)
				if err != nil {
					return failed(err), nil
				}
				return answered(do(ctx, req, e, info, &g))
			}}
	}
	return []control{
		of("run_status", "Returns the status, output and open questions of a run.", `,"wait":{"type":"boolean","description":"until it ends or asks something"}`, s.status),
		of("answer", "Answers an open question of kind ask or form, and waits until the run ends or asks something else. The user alone passes gates and gives permission.",
			`,"question":{"type":"string","description":"as the run named it; may be left out if one is open"},"answer":{"description":"what fits the schema or the options of the question"}`, s.reply),
		of("run_resume", "Resumes a run that was interrupted, paused or failed, and waits until it ends or asks something.", "", s.again),
		of("run_cancel", "Cancels a run. It cannot be resumed.", "", s.cancel),
	}
}

// failed returns the result of a call that failed.
func failed(err error) *sdk.CallToolResult {
	r := &sdk.CallToolResult{}
	r.SetError(errors.New(clean.Text(err.Error())))
	return r
}

// answered makes an error the result of the call.
func answered(r *sdk.CallToolResult, err error) (*sdk.CallToolResult, error) {
	if err != nil {
		return failed(err), nil
	}
	return r, nil
}

// find returns a run that a client has started in this folder.
func (s *serving) find(ctx context.Context, id string) (*superstep.Engine, *runlog.Info, error) {
	e, err := s.Engine(ctx)
	if err != nil {
		return nil, nil, err
	}
	if strings.HasPrefix(id, s.prefix) {
		infos, err := e.Runs(ctx, &runlog.Filter{ID: id})
		if err != nil {
			return nil, nil, err
		}
		if len(infos) > 0 {
			return e, &infos[0], nil
		}
	}
	return nil, nil, fmt.Errorf("no run %q was started over MCP in this folder; the resources %s… are those that were", transcript.Line(id), runURI)
}

// call starts a run, or continues a call that waited for the client's user.
func (s *serving) call(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	id, err := s.begin(ctx, req)
	return s.show(ctx, req, id, err)
}

// show follows a run for a call that has begun, unless that failed.
func (s *serving) show(ctx context.Context, req *sdk.CallToolRequest, id string, err error) (*sdk.CallToolResult, error) {
	if err != nil {
		return failed(err), nil
	}
	return answered(s.follow(ctx, req, id))
}

// asking returns the run of a call that comes again with the answer of the client's user.
func (s *serving) asking(req *sdk.CallToolRequest) (id string, again bool, err error) {
	about, again := s.asker.About(req)
	id, _, known := strings.Cut(about, "\n")
	if again && !known {
		err = errors.New("this answer came too late, and its question may still be open; see run_status")
	}
	return id, again, err
}

// begin returns the run of a call, which it starts if there is none.
func (s *serving) begin(ctx context.Context, req *sdk.CallToolRequest) (string, error) {
	name := req.Params.Name
	if id, again, err := s.asking(req); again {
		return id, err
	}
	w, err := s.host().Find(name)
	if err != nil {
		return "", err
	}
	inputs := req.Params.Arguments
	if err := w.Check(inputs); err != nil {
		return "", err
	}
	e, err := s.Engine(ctx)
	if err != nil {
		return "", err
	}
	s.starting.Lock()
	defer s.starting.Unlock()
	id := s.prefix + strings.ToLower(rand.Text()[:8])
	if key, ok := req.Params.Meta[keyMeta].(string); ok {
		id = s.prefix + fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%q %q %s", name, key, inputs)))[:16]
		infos, err := e.Runs(ctx, &runlog.Filter{ID: id})
		if err != nil || len(infos) > 0 && infos[0].Status != runlog.Interrupted {
			return id, err
		}
	}
	executing, err := e.Runs(ctx, &runlog.Filter{Prefix: s.prefix, Status: []runlog.Status{runlog.Running}})
	if err != nil {
		return "", err
	}
	executing = slices.DeleteFunc(executing, func(i runlog.Info) bool { // what waits for a person needs nothing, and soon no process
		sum := summary.Of(&i)
		return sum != nil && (sum.Waits == summary.Person || sum.Waits == summary.Message)
	})
	if len(executing) >= mostServed {
		return "", fmt.Errorf("%d runs that were started over MCP execute here already; wait for one with run_status, or cancel one", len(executing))
	}
	return s.Start(ctx, &tui.Start{Workflow: name, ID: id, Inputs: inputs})
}

// servedRun is the result of a call.
type servedRun struct {
	Run      string          `json:"run"`
	Workflow string          `json:"workflow"`
	Status   runlog.Status   `json:"status"`
	Output   json.RawMessage `json:"output,omitempty"`
	Error    string          `json:"error,omitempty"`
	stepLists
	Questions []servedQuestion `json:"questions,omitempty"`
	Next      string           `json:"next,omitempty"` // what to do
}

// servedQuestion is an open question.
type servedQuestion struct {
	Question string              `json:"question"` // its name, for an answer
	Kind     runlog.QuestionKind `json:"kind"`
	Text     string              `json:"text"`
	Agent    string              `json:"agent,omitempty"`
	Options  []string            `json:"options,omitempty"`
	Schema   json.RawMessage     `json:"schema,omitempty"`
	Default  json.RawMessage     `json:"default,omitempty"`
	Command  string              `json:"command"` // by which a person answers
}

// byModel reports whether a model may answer a question. Gates and permission are the user's, and so is what a server or another program asks in the middle
// of a call.
func byModel(q *tui.Question) bool {
	if journal.AskedDuring(&q.Asked) {
		return false
	}
	kind := question.Kind(&q.Asked)
	return kind == runlog.QuestionAsk || kind == runlog.QuestionForm
}

// result describes a run for the client.
func (s *serving) result(info *runlog.Info, run *transcript.Run) (*sdk.CallToolResult, error) {
	out := &servedRun{Run: info.ID, Workflow: info.Workflow, Status: info.Status, Output: run.Output, Error: run.Error, stepLists: stepsOf(run)}
	others := false
	for _, q := range asked(info, run) {
		x := servedQuestion{
			Question: q.Address, Kind: question.Kind(&q.Asked), Text: question.Headed(q.Header, q.Question.Question), Agent: q.Agent,
			Command: s.answer + " " + info.ID,
		}
		if byModel(&q) {
			x.Options, x.Schema, x.Default = q.Options, q.Asked.Schema, q.Asked.Default
			x.Command += " " + clean.Shell(q.Address+"="+q.Answers()[0])
		} else {
			others = true
		}
		out.Questions = append(out.Questions, x)
	}
	switch {
	case others:
		out.Status, out.Next = host.Waiting, "the user has to answer, not a model: at a terminal by the command, or wherever the run is open; then run_status with wait"
	case out.Questions != nil:
		out.Status, out.Next = host.Waiting, "call answer"
	case run.AwaitsMessage():
		out.Status, out.Output = host.Waiting, lastAnswer(run)
		out.Next = "nothing is asked: the output is the answer, and a person may continue the conversation"
	case run.Short != nil:
		out.Error, out.Next = run.Short.Error(), s.resume+" "+cmp.Or(run.Short.Run, info.ID)+" "+strings.Join(raised(run.Short), " ")
	case info.Status == runlog.Running:
		out.Next = "run_status with wait"
	case !info.Status.Ended():
		out.Next = "run_resume"
	}
	return structured(out, info.Status == runlog.Failed || info.Status == runlog.Cancelled)
}

// asked returns the open questions of a run. The next message of a conversation is none.
func asked(info *runlog.Info, run *transcript.Run) []tui.Question {
	return slices.DeleteFunc(openQuestions(info, run), func(q tui.Question) bool { return question.Kind(&q.Asked) == runlog.QuestionMessage })
}

func structured(v any, failed bool) (*sdk.CallToolResult, error) {
	b, err := json.Marshal(v)
	return &sdk.CallToolResult{IsError: failed, StructuredContent: json.RawMessage(b), Content: []sdk.Content{&sdk.TextContent{Text: string(b)}}}, err
}

// follow tells the client about a run until the run ends or asks something that the client's user cannot be asked, and returns that.
func (s *serving) follow(ctx context.Context, req *sdk.CallToolRequest, id string) (*sdk.CallToolResult, error) {
	for {
		e, info, err := s.find(ctx, id)
		if err != nil {
			return nil, err
		}
		run, err := s.watch(ctx, req, e, info)
		if err != nil {
			return nil, err
		}
		if info, err = s.info(ctx, e, id); err != nil {
			return nil, err
		}
		run.End(info.Status)
		questions := asked(info, run)
		if len(questions) == 0 || !elicit.Can(req) {
			return s.result(info, run)
		}
		q := &questions[0]
		given, again, err := s.ask(ctx, req, info, q)
		switch {
		case again != nil:
			return again, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil || given == nil:
			return s.result(info, run)
		}
		if err := s.give(ctx, e, id, q.Path, given); err != nil && !errors.As(err, new(*journal.AnsweredError)) {
			return nil, err
		}
	}
}

// info reads what the store lists of a run.
func (s *serving) info(ctx context.Context, e *superstep.Engine, id string) (*runlog.Info, error) {
	info, err := e.Find(ctx, id)
	return &info, err
}

// watch follows a run until it ends or asks something, and tells the client how far it is.
func (s *serving) watch(ctx context.Context, req *sdk.CallToolRequest, e *superstep.Engine, info *runlog.Info) (*transcript.Run, error) {
	run := &transcript.Run{Window: 64 << 10}
	tell, stop := s.progress(ctx, req, info.ID)
	defer stop()
	for rec, err := range e.Follow(ctx, info.ID, 0) {
		if err != nil {
			return nil, err
		}
		run.Apply(rec)
		if run.Seq < info.Head { // it was answered since, perhaps
			continue
		}
		tell(run)
		if len(asked(info, run)) > 0 || run.AwaitsMessage() {
			break
		}
	}
	return run, ctx.Err()
}

// progress returns a function that tells the client how far a run is when that has changed. The client also gets a sign of life now and then, until stop.
func (s *serving) progress(ctx context.Context, req *sdk.CallToolRequest, id string) (tell func(*transcript.Run), stop func()) {
	token := req.Params.GetProgressToken()
	if token == nil {
		return func(*transcript.Run) {}, func() {}
	}
	var mu sync.Mutex
	p := sdk.ProgressNotificationParams{ProgressToken: token}
	done := 0.0
	send := func() { // the numbers have to grow
		p.Progress = max(done, p.Progress+(done+1-p.Progress)/64)
		note := p
		_ = req.Session.NotifyProgress(ctx, &note) // who does not listen is not told
	}
	ctx, cancel := context.WithCancel(ctx)
	var ended sync.WaitGroup
	ended.Go(func() {
		t := time.NewTicker(s.every)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
				mu.Lock()
				send()
				mu.Unlock()
			}
		}
	})
	return func(run *transcript.Run) {
		var at []string
		for _, t := range run.Active() {
			if t.Depth == 0 {
				at = append(at, t.Label())
			}
		}
		all, begun := len(run.Nodes), len(run.Nodes)-len(run.Pending())
		text := "run " + id
		if all > 0 {
			text += fmt.Sprintf(": step %d of %d", max(1, begun), all)
		}
		if len(at) > 0 {
			text += ", " + strings.Join(at, ", ")
		}
		mu.Lock()
		defer mu.Unlock()
		if text != p.Message {
			p.Message, p.Total, done = text, float64(all), float64(begun-len(at))
			send()
		}
	}, func() { cancel(); ended.Wait() }
}

// ask asks the client's user a question. Without an answer that fits, the question stays open.
func (s *serving) ask(ctx context.Context, req *sdk.CallToolRequest, info *runlog.Info, q *tui.Question) (*runlog.Answer, *sdk.CallToolResult, error) {
	p := &sdk.ElicitParams{Message: fmt.Sprintf("Run %s of the workflow %s: %s", info.ID, info.Workflow, question.Headed(q.Header, q.Question.Question))}
	c := q.Asked.Call
	kind := question.Kind(&q.Asked)
	declined := map[runlog.QuestionKind]string{runlog.QuestionPermission: agent.AnswerDeny, runlog.QuestionGate: "reject"}[kind]
	schema, read := question.Elicit(&q.Asked)
	switch {
	case c != nil:
		p.Message += "\n" + tui.Card(c)
		read = func(map[string]json.RawMessage) (json.RawMessage, error) { return json.Marshal(agent.AnswerOnce) }
	case kind == runlog.QuestionUnknown:
		p.RequestedSchema = map[string]any{"type": "object", "required": []string{"outcome"},
			"properties": map[string]any{"outcome": map[string]any{"type": "string", "enum": q.Asked.Options}}}
		read = func(in map[string]json.RawMessage) (json.RawMessage, error) {
			return in["outcome"], q.Asked.Fits(in["outcome"])
		}
	case kind == runlog.QuestionPermission: // of an older log, which does not tell for what
		return nil, nil, nil
	default:
		p.RequestedSchema = schema
	}
	if c != nil && c.Larger > 0 || len(p.Message) > longestAsked {
		return nil, nil, nil // nobody could see all of it
	}
	given, again, err := s.asker.Ask(ctx, req, info.ID+"\n"+q.Path+"\n"+q.Key, p)
	if err != nil || again != nil {
		return nil, again, err
	}
	var answer json.RawMessage
	switch form := question.FormOf(q.Asked.Schema); {
	case given.Action == "decline" && form.Declinable():
		answer, err = question.Fit(&q.Asked, given.Action)
	case given.Action == "decline" && declined != "":
		answer, err = json.Marshal(declined)
	case given.Action == "accept":
		in := map[string]json.RawMessage{}
		for name, v := range given.Content {
			if in[name], err = json.Marshal(v); err != nil {
				return nil, nil, err
			}
		}
		answer, err = read(in)
	}
	if answer == nil || err != nil {
		return nil, nil, nil
	}
	return &runlog.Answer{Key: q.Key, Value: answer, By: "person"}, nil, nil
}

// give answers a question, and resumes the run if nothing executes it.
func (s *serving) give(ctx context.Context, e *superstep.Engine, id, path string, a *runlog.Answer) error {
	_, err := host.Answer(ctx, e, id, path, a, func(ctx context.Context) error {
		_, err := s.resumes(ctx, &tui.Start{Run: id})
		return err
	})
	return err
}

func (s *serving) status(ctx context.Context, req *sdk.CallToolRequest, _ *superstep.Engine, info *runlog.Info, g *givenRun) (*sdk.CallToolResult, error) {
	if g.Wait {
		return s.follow(ctx, req, info.ID)
	}
	run, err := s.host().Transcript(ctx, info)
	if err != nil {
		return nil, err
	}
	return s.result(info, run)
}

func (s *serving) reply(ctx context.Context, req *sdk.CallToolRequest, e *superstep.Engine, info *runlog.Info, g *givenRun) (*sdk.CallToolResult, error) {
	run, err := s.host().Transcript(ctx, info)
	if err != nil {
		return nil, err
	}
	var names []string
	var q *tui.Question
	for _, x := range asked(info, run) {
		names = append(names, x.Address)
		if g.Question == x.Address || g.Question == "" {
			q = &x
		}
	}
	switch {
	case len(names) == 0:
		return nil, fmt.Errorf("run %s is %s and asks nothing", info.ID, info.Status)
	case q == nil || g.Question == "" && len(names) > 1:
		return nil, fmt.Errorf("run %s: name the question; open are: %s", info.ID, strings.Join(names, ", "))
	case !byModel(q):
		kind := string(question.Kind(&q.Asked))
		if journal.AskedDuring(&q.Asked) {
			kind += " to the user, asked during a call"
		}
		return nil, fmt.Errorf("%s is a question of kind %s, which a person has to answer, not a model: %s %s", q.Address, kind, s.answer, info.ID)
	}
	value := g.Answer
	if text := ""; q.Asked.Fits(value) != nil && json.Unmarshal(value, &text) == nil {
		if value, err = question.Fit(&q.Asked, text); err != nil {
			return nil, fmt.Errorf("%s: %w", q.Address, err)
		}
	}
	if err := s.give(ctx, e, info.ID, q.Path, &runlog.Answer{Key: q.Key, Value: value, By: "model over MCP"}); err != nil {
		return nil, err
	}
	return s.follow(ctx, req, info.ID)
}

func (s *serving) again(ctx context.Context, req *sdk.CallToolRequest, e *superstep.Engine, info *runlog.Info, _ *givenRun) (*sdk.CallToolResult, error) {
	sum := summary.Of(info)
	switch {
	case info.Status == runlog.Running:
		return nil, fmt.Errorf("run %s executes already; run_status with wait follows it", info.ID)
	case info.Status == runlog.Paused && sum != nil && sum.Waits == summary.Operator:
		return nil, fmt.Errorf("a person paused run %s, and resumes it: %s %s", info.ID, s.resume, info.ID)
	case info.Status.Ended():
		return nil, fmt.Errorf("run %s is %s and cannot be resumed", info.ID, info.Status)
	}
	if _, err := s.Start(ctx, &tui.Start{Run: info.ID}); err != nil {
		return nil, err
	}
	return s.follow(ctx, req, info.ID)
}

func (s *serving) cancel(ctx context.Context, req *sdk.CallToolRequest, e *superstep.Engine, info *runlog.Info, g *givenRun) (*sdk.CallToolResult, error) {
	if err := e.Cancel(ctx, info.ID); err != nil {
		return nil, err
	}
	return structured(servedRun{Run: info.ID, Workflow: info.Workflow, Status: runlog.Cancelled}, false)
}

// list returns the newest runs as resources.
func (s *serving) list(ctx context.Context) (sdk.Result, error) {
	e, err := s.Engine(ctx)
	if err != nil {
		return nil, err
	}
	infos, err := e.Runs(ctx, &runlog.Filter{Prefix: s.prefix, Limit: mostListed})
	out := &sdk.ListResourcesResult{Resources: []*sdk.Resource{}, Cacheable: sdk.Cacheable{CacheScope: "private"}}
	for _, i := range infos {
		out.Resources = append(out.Resources, &sdk.Resource{
			URI: runURI + i.ID, Name: i.ID, Title: transcript.Line(i.Workflow + " " + i.Title), Description: string(i.Status), MIMEType: "application/json",
		})
	}
	return out, err
}

// read returns a run as runs show prints it for programs.
func (s *serving) read(ctx context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	_, info, err := s.find(ctx, strings.TrimPrefix(req.Params.URI, runURI))
	if err != nil {
		return nil, errors.Join(sdk.ResourceNotFoundError(req.Params.URI), err)
	}
	run, err := s.host().Transcript(ctx, info)
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(showJSON(*info, run, time.Now(), nil))
	return &sdk.ReadResourceResult{Cacheable: sdk.Cacheable{CacheScope: "private"}, Contents: []*sdk.ResourceContents{{URI: req.Params.URI, MIMEType: "application/json", Text: string(b)}}}, err
}
