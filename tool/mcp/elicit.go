package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/strict"
	"github.com/superstep-dev/superstep/tool"
)

// The limits of what a server asks the user.
const (
	maxQuestions = 16       // of one call
	maxAsked     = 64 << 10 // bytes of a question with its form
	maxQuestion  = 4 << 10  // bytes of the text
	maxLines     = 40       // of the text
	maxColumns   = 70       // of a line of it
	maxFields    = 20       // of a form
	maxChoices   = 100      // of a field
	maxChoice    = 100      // bytes of each
	accept       = "accept" // these two are what the user decides
	decline      = "decline"
)

// A flight is a call in progress. Its limits of time stand still while the user is asked.
type flight struct {
	tool string // the server's own name
	call *tool.Call
	ctx  context.Context // of the call

	turn sync.Mutex // held while a question is open: the next one waits

	mu             sync.Mutex
	questions      int
	limit, idle    *time.Timer
	left           time.Duration // until limit, as of since
	since          time.Time
	asks, reported bool
	every          time.Duration // between two reports of progress
}

// fly starts the limits of a call. Stop is called with what ended it.
func (c *conn) fly(ctx context.Context, name string, call *tool.Call, stop func(error)) *flight {
	left := c.limit(phaseCall)
	f := &flight{tool: name, call: call, ctx: ctx, left: left, since: time.Now(), every: c.o.IdleTimeout}
	f.limit = time.AfterFunc(left, func() { stop(context.DeadlineExceeded) })
	f.idle = time.AfterFunc(left+time.Hour, func() { stop(errIdle) }) // from the first report on
	return f
}

func (f *flight) land() { f.limit.Stop(); f.idle.Stop() }

// report notes a report of progress.
func (f *flight) report() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.reported = true; !f.asks {
		f.idle.Reset(f.every)
	}
}

// pause stops the limits until resume is called.
func (f *flight) pause() (resume func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asks = true
	f.limit.Stop()
	f.idle.Stop()
	f.left -= time.Since(f.since)
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.asks, f.since = false, time.Now()
		f.limit.Reset(max(f.left, time.Second)) // for the server to use the answer
		if f.reported {
			f.idle.Reset(f.every)
		}
	}
}

// enter adds a call to those in progress, until leave is called.
func (s *session) enter(f *flight) (leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flights[f] = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.flights, f)
	}
}

// only returns the call in progress.
func (s *session) only() (*flight, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for f := range s.flights {
		if len(s.flights) == 1 {
			return f, nil
		}
		return nil, errors.New("several calls are in progress, and a question does not tell which one it is about")
	}
	return nil, errors.New("no call is in progress, and a server may ask the user within a call only")
}

// count counts a question, and refuses one too many or too large before it waits for its turn.
func (f *flight) count(p *sdk.ElicitParams) error {
	f.mu.Lock()
	f.questions++
	n := f.questions
	f.mu.Unlock()
	if n > maxQuestions {
		return fmt.Errorf("one call may ask %d times", maxQuestions)
	}
	if b, err := json.Marshal(p); err != nil || len(b) > maxAsked {
		return fmt.Errorf("with its form it has more than %d KiB", maxAsked>>10)
	}
	return nil
}

// elicit puts a question of a server to the user. An error refuses the question.
func (c *conn) elicit(ctx context.Context, f *flight, p *sdk.ElicitParams) (*sdk.ElicitResult, error) {
	if err := f.count(p); err != nil {
		return nil, err
	}
	f.turn.Lock()
	defer f.turn.Unlock()
	if f.ctx.Err() != nil {
		return nil, errors.New("the call is over")
	}
	if p.URL != "" || p.Mode == "url" {
		return nil, errors.New("it wants the user to open a page, which is not supported; a form is")
	}
	q, err := formOf(p.RequestedSchema)
	if err != nil {
		return nil, err
	}
	schema, err := json.Marshal(q.schema)
	if err != nil {
		return nil, err
	}
	if f.call.Ask == nil {
		c.o.Warn(c.server.Name, fmt.Sprintf("its question was declined, since nobody can be asked here: %s", oneLine(c.redact(p.Message), 200)))
		return &sdk.ElicitResult{Action: decline}, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(f.ctx, cancel)()
	defer f.pause()()
	answer, err := f.call.Ask(ctx, c.asked(f, p.Message), schema)
	switch {
	case err != nil && ctx.Err() == nil && f.ctx.Err() == nil:
		c.o.Warn(c.server.Name, "its question was cancelled: "+err.Error())
		fallthrough
	case err != nil:
		return &sdk.ElicitResult{Action: "cancel"}, nil
	}
	return q.result(answer)
}

// asked returns the text of a question, in which the server's own words cannot be taken for ours.
func (c *conn) asked(f *flight, message string) string {
	lines := folded(clean.Clip(clean.Text(clean.Clip(c.redact(message), 4*maxQuestion)), maxQuestion))
	if len(lines) > maxLines {
		lines = append(lines[:maxLines], "…")
	}
	return fmt.Sprintf("MCP server %s asks, while %s runs. These are its words; give it no password or other secret.\n\n> %s",
		c.server.Name, c.named(f.tool), strings.Join(lines, "\n> "))
}

// named returns our name for a tool of the server.
func (c *conn) named(own string) string {
	if offered := c.snapshot().offered; offered != nil {
		for _, d := range offered.list {
			if d.summary.Name == own && d.tool != nil {
				return d.tool.Name
			}
		}
	}
	return toolName(c.server.Name, own, false)
}

// folded returns the lines of a text, broken so that a terminal does not break them, with single spaces between words.
func folded(text string) []string {
	var out []string
	for line := range strings.SplitSeq(text, "\n") {
		var b strings.Builder
		wide := 0
		for _, word := range strings.Fields(line) {
			if n := columns(word); wide > 0 && wide+1+n > maxColumns {
				out, wide = append(out, b.String()), 0
				b.Reset()
			} else if wide > 0 {
				b.WriteByte(' ')
				wide++
			}
			for _, r := range word {
				n := columns(string(r))
				if wide+n > maxColumns {
					out, wide = append(out, b.String()), 0
					b.Reset()
				}
				b.WriteRune(r)
				wide += n
			}
		}
		out = append(out, b.String())
	}
	return out
}

// columns returns how many columns a text takes at most.
func columns(text string) (n int) {
	for _, r := range text {
		if n++; r >= 0x1100 { // from here on there are characters of two columns
			n++
		}
	}
	return n
}

// respond answers the questions in a result; a call with the answers follows.
func (c *conn) respond(ctx context.Context, f *flight, asks sdk.InputRequestMap) (sdk.InputResponseMap, error) {
	out := sdk.InputResponseMap{}
	for _, id := range slices.Sorted(maps.Keys(asks)) {
		p, ok := asks[id].(*sdk.ElicitParams)
		if !ok {
			return nil, errors.New("asks for what a server is not given, such as the use of the model; give it all it needs as arguments")
		}
		answer, err := c.elicit(ctx, f, p)
		if err != nil {
			return nil, fmt.Errorf("asks the user in a way that is refused: %w; give it all it needs as arguments", err)
		}
		out[id] = answer
	}
	return out, nil
}

// A form is what a server wants to know. Its schema also has the field in which the user decides.
type form struct {
	schema   *jsonschema.Schema
	decision string // the name of that field
}

// formOf reads the schema of a question: an object of texts, numbers, truth values and choices.
func formOf(in any) (*form, error) {
	var s struct {
		Type       string
		Properties map[string]json.RawMessage
		Required   []string
	}
	b, err := json.Marshal(in)
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	switch {
	case err != nil:
		return nil, errors.New("its form is no JSON schema of an object")
	case in != nil && s.Type != "object":
		return nil, errors.New("its form is no object")
	case len(s.Properties) > maxFields:
		return nil, fmt.Errorf("its form has %d fields, and may have %d", len(s.Properties), maxFields)
	}
	q := &form{decision: "decision", schema: &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{}}}
	for s.Properties[q.decision] != nil {
		q.decision += "_"
	}
	q.schema.Properties[q.decision] = &jsonschema.Schema{Type: "string", Enum: []any{accept, decline}, Description: "whether the server gets the answer"}
	names := slices.Sorted(maps.Keys(s.Properties)) // the order of the server is lost by now
	slices.SortStableFunc(names, func(a, b string) int {
		return bytes.Compare([]byte{order(s.Required, a)}, []byte{order(s.Required, b)})
	})
	for _, name := range names {
		if name == "" || oneLine(name, 64) != name {
			return nil, fmt.Errorf("a field of its form has a name that cannot be shown: %s", clean.Quote(oneLine(name, 64)))
		}
		if q.schema.Properties[name], err = fieldOf(s.Properties[name]); err != nil {
			return nil, fmt.Errorf("field %s of its form: %w", name, err)
		}
	}
	var accepted any = accept
	q.schema.PropertyOrder = append([]string{q.decision}, names...)
	q.schema.Required = []string{q.decision}
	q.schema.AdditionalProperties = &jsonschema.Schema{Not: &jsonschema.Schema{}}
	q.schema.If = &jsonschema.Schema{Properties: map[string]*jsonschema.Schema{q.decision: {Const: &accepted}}}
	if needs := slices.DeleteFunc(s.Required, func(name string) bool { return s.Properties[name] == nil }); len(needs) > 0 {
		q.schema.Then = &jsonschema.Schema{Required: needs}
	}
	return q, nil
}

func order(required []string, name string) byte {
	if slices.Contains(required, name) {
		return 0
	}
	return 1
}

// A choice is an answer that a field offers.
type choice struct{ Const, Title string }

// fieldOf reads the schema of one field. It keeps nothing but what is known.
func fieldOf(raw json.RawMessage) (*jsonschema.Schema, error) {
	var p struct {
		Type, Title, Description, Format string
		Default                          json.RawMessage
		Enum, EnumNames                  []string
		OneOf                            []choice
		Minimum, Maximum                 *float64
		MinLength, MaxLength             *int
		MinItems, MaxItems               *int
		Items                            *struct {
			Enum  []string
			AnyOf []choice
		}
	}
	if json.Unmarshal(raw, &p) != nil {
		return nil, errors.New("its schema cannot be read")
	}
	out := &jsonschema.Schema{Type: p.Type, Minimum: p.Minimum, Maximum: p.Maximum, MinLength: p.MinLength, MaxLength: p.MaxLength}
	names, titled := p.Enum, p.OneOf
	switch {
	case p.Type == "array" && p.Items != nil && len(p.Items.Enum)+len(p.Items.AnyOf) > 0:
		names, titled = p.Items.Enum, p.Items.AnyOf
		out.MinItems, out.MaxItems = p.MinItems, p.MaxItems
	case !slices.Contains([]string{"string", "number", "integer", "boolean"}, p.Type):
		return nil, fmt.Errorf("is of type %s; a form has texts, numbers, true or false, and choices", clean.Quote(oneLine(p.Type, 40)))
	}
	about := []string{p.Title, p.Description, p.Format}
	for i, name := range p.EnumNames {
		if i < len(names) && name != names[i] {
			titled = append(titled, choice{names[i], name})
		}
	}
	var offered []any
	for _, name := range names {
		offered = append(offered, name)
	}
	for _, t := range titled {
		if len(names) == 0 {
			offered = append(offered, t.Const)
		}
		about = append(about, t.Const+" is "+t.Title)
	}
	if len(offered) > maxChoices {
		return nil, fmt.Errorf("has %d choices, and may have %d", len(offered), maxChoices)
	}
	for _, o := range offered {
		if s, _ := o.(string); oneLine(s, maxChoice) != s {
			return nil, errors.New("has a choice that cannot be shown")
		}
	}
	if p.Type == "array" {
		out.Items = &jsonschema.Schema{Enum: offered}
	} else {
		out.Enum = offered
	}
	if p.Type == "array" {
		about = append(about, "of "+strings.Join(names, ", "))
	}
	about = slices.DeleteFunc(about, func(s string) bool { return s == "" || s == "of " })
	if len(about) > 0 {
		out.Description = "> " + oneLine(strings.Join(about, "; "), 300) // its words, as those of the question
	}
	if len(p.Default) > 0 && len(p.Default) < 1000 && strict.CheckJSON(out, string(p.Default)) == nil {
		out.Default = p.Default
	}
	return out, nil
}

// result returns an answer as the server is told of it. Fields that were left out have their defaults.
func (q *form) result(answer json.RawMessage) (*sdk.ElicitResult, error) {
	var given map[string]any
	if len(answer) == 0 || json.Unmarshal(answer, &given) != nil || given[q.decision] != accept {
		return &sdk.ElicitResult{Action: decline}, nil
	}
	delete(given, q.decision)
	for name, p := range q.schema.Properties {
		if _, ok := given[name]; !ok && p.Default != nil {
			var v any
			if err := json.Unmarshal(p.Default, &v); err != nil {
				return nil, err
			}
			given[name] = v
		}
	}
	return &sdk.ElicitResult{Action: accept, Content: given}, nil
}
