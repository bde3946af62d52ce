// Package offline is a model that needs no key and no network. It is extractive: it
// picks search terms out of the question, calls the search tools it is given, and
// answers with sentences quoted from what they found, each with the file and line it
// stands on. It cannot write prose, code or judgements, and says so.
//
// It is deterministic: the same request gives the same turn.
//
// As an agent it takes the prompt apart: what is to be done, and material such as the outputs of
// earlier steps, which stands between fences or tags, below headings and lines that end with a
// colon, or in the form of quotes. It answers from the material if there is some, and keeps its
// citations. Else it reads the files that the task names, or searches for what the task is about
// with the tools search_docs, or grep and read_file; if nothing says what to look for it reads some of
// the documents there are. It makes about a dozen calls at most, and none of any other tool: it
// writes, runs and asks nothing. What documents and material say is quoted and not obeyed; what stands
// behind the material has nothing searched or read. Where a schema is demanded, texts and
// lists get quotes; what takes judgement is a [*CannotError].
//
// In the workflow research, whose prompts are questions, and where the caller demands the call of a
// tool to hand a result in with, it fills the arguments by the names of their properties:
//
//	queries     strings            what to search for
//	directions  {topic, …}         what the results speak of besides the question
//	findings    {quote, path, …}   the sentences that fit best
//	content     string             a report made of the numbered sources in the prompt
//
// Any other required string gets the best sentence there is.
package offline

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/superstep-dev/superstep/model"
)

// Name is what users call the model by.
const Name = "offline"

// New gives the model.
func New() model.Model { return offline{} }

type offline struct{}

func (offline) Name() string { return Name }

// Price is nothing.
func (offline) Price() (model.Price, bool) { return model.Price{}, true }

// maxSearches is how often it searches before it answers, and mostResults how much it
// asks for where it may.
const (
	maxSearches = 2
	mostResults = 20
)

func (offline) Generate(ctx context.Context, req *model.Request) iter.Seq2[model.Part, error] {
	return func(yield func(model.Part, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(model.Part{}, err)
			return
		}
		parts, err := answer(req)
		if err != nil {
			yield(model.Part{}, err)
			return
		}
		usage := model.Usage{In: size(req), Out: 0}
		stop := model.StopEnd
		for _, p := range parts {
			if p.Kind == model.ToolCall {
				stop = model.StopCalls
				usage.Out += len(p.Call.Args) / 4
			}
			usage.Out += len(p.Text) / 4
			if !yield(p, nil) {
				return
			}
		}
		if yield(model.Part{Kind: model.UsagePart, Usage: &usage}, nil) {
			yield(model.Part{Kind: model.Stop, Stop: stop}, nil)
		}
	}
}

// size estimates the tokens of a request, at four bytes each.
func size(req *model.Request) int {
	n := len(req.System)
	for _, m := range req.Messages {
		for _, p := range m.Parts {
			n += len(p.Text)
			if p.Call != nil {
				n += len(p.Call.Args)
			}
		}
	}
	return n / 4
}

// answer decides what to do next.
func answer(req *model.Request) ([]model.Part, error) {
	c := read(req)
	search, finish := c.tools(req)
	if finish == nil {
		return work(req)
	}
	if search != nil && req.Choice == "" && c.searches < maxSearches && !c.refused {
		if q := c.nextQuery(); q != "" {
			args := map[string]any{"query": q}
			for _, limit := range []string{"limit", "max_results"} {
				if search.Input.Properties[limit] != nil {
					args[limit] = mostResults // reading costs nothing here
				}
			}
			return []model.Part{c.call(search.Name, args)}, nil
		}
	}
	return []model.Part{c.call(finish.Name, c.fill(finish.Input))}, nil
}

// conversation is a request as far as this model understands it.
type conversation struct {
	question string // what to find out
	topic    string // which part of it, "" for all
	prompt   string // all that the user said
	searched []string
	found    []place // quoted before
	refused  bool    // a search was turned down
	results  []passage
	calls    int
	searches int
}

// read takes a conversation apart. A line "Question: …" in the prompt names the
// question, a line "Direction: …" the part of it that is asked for, a line "Query: …"
// is searched for as it stands, and lines "Searched before: …" and "Found before:
// path:line …" say what need not be had again.
func read(req *model.Request) *conversation {
	c := &conversation{}
	for _, m := range req.Messages {
		for _, p := range m.Parts {
			switch {
			case m.Role == model.User && c.prompt == "":
				c.prompt = p.Text
			case p.Kind == model.ToolCall:
				c.calls++
				var args struct{ Query string }
				if json.Unmarshal(p.Call.Args, &args) == nil && args.Query != "" {
					c.searched = append(c.searched, args.Query)
					c.searches++
				}
			case p.Kind == model.Result && p.Error:
				c.refused = true
			case p.Kind == model.Result:
				c.results = append(c.results, passages(p.Text)...)
			}
		}
	}
	c.question = strings.Join(firstN(labelled(c.prompt, "Question:"), 1), "")
	c.topic = strings.Join(firstN(labelled(c.prompt, "Direction:"), 1), "")
	c.searched = append(c.searched, labelled(c.prompt, "Searched before:")...)
	for _, f := range labelled(c.prompt, "Found before:") {
		at, _, _ := strings.Cut(f, " ")
		if i := strings.LastIndexByte(at, ':'); i > 0 {
			if n, err := strconv.Atoi(at[i+1:]); err == nil {
				c.found = append(c.found, place{at[:i], n})
			}
		}
	}
	if c.question == "" {
		c.question = c.prompt
	}
	return c
}

// A place is a line of a file.
type place struct {
	path string
	line int
}

// labelled are the rests of the lines of a text that begin with a label.
func labelled(text, label string) []string {
	var out []string
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), label); ok {
			out = append(out, strings.TrimSpace(v))
		}
	}
	return out
}

// tools finds the tool to search with and the one to hand the result in with. There is such a
// one if the caller demands its call, or if the conversation is a piece of research: the prompt is
// a question, and the tool takes nothing but a result. What else takes content may do anything with it.
func (c *conversation) tools(req *model.Request) (search, finish *model.ToolSpec) {
	research := strings.HasPrefix(c.prompt, "Question: ") && req.Schema == nil
	for i := range req.Tools {
		t := &req.Tools[i]
		if t.Input == nil {
			continue
		}
		has := func(name string) bool { _, ok := t.Input.Properties[name]; return ok }
		switch {
		case has("query"):
			if search == nil {
				search = t
			}
		case t.Name == req.Choice:
			finish = t
		case finish == nil && research && handsIn(t):
			finish = t
		}
	}
	return search, finish
}

// handsIn reports whether a tool takes a result of research and nothing else.
func handsIn(t *model.ToolSpec) bool {
	if len(t.Input.Properties) != 1 {
		return false
	}
	for name, property := range map[string]string{"plan": "queries", "directions": "directions", "findings": "findings", "write_file": "content"} {
		if t.Name == name && t.Input.Properties[property] != nil {
			return true
		}
	}
	return false
}

// nextQuery is what to search for, "" for nothing more.
func (c *conversation) nextQuery() string {
	wanted := labelled(c.prompt, "Query:")
	if len(wanted) == 0 {
		wanted = queries(c.question, c.topic)
	}
	for _, q := range wanted {
		if q != "" && !slices.Contains(c.searched, q) {
			return q
		}
	}
	return ""
}

func (c *conversation) call(name string, args map[string]any) model.Part {
	b, _ := json.Marshal(args) // strings, numbers, lists and maps of them always encode
	return model.Part{Kind: model.ToolCall, Call: &model.Call{ID: fmt.Sprintf("offline-%d", c.calls+1), Name: name, Args: b}}
}
