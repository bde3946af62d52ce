// Package cassette records the answers of a model and plays them back, for tests and demonstrations
// that call no model and cost nothing.
//
// A cassette is a file of JSON Lines, one of these objects a line:
//
//	{"cassette":1,"model":"openai/gpt-5","price":{"in":1.25,"out":10},"window":400000}
//	{"piece":{"id":"9f2c…","system":"Be brief."}}
//	{"piece":{"id":"51ab…","message":{"role":"user","parts":[{"kind":"text","text":"Where is Königsberg?"}]}}}
//	{"turn":{"digest":"sha256:…","request":{"system":"9f2c…","messages":["51ab…"]},
//	  "parts":[{"ms":412,"kind":"text","text":"It is "},{"ms":31,"kind":"text","text":"Kaliningrad now."},{"kind":"stop","stop":"end"}]}}
//
// The first line names the version of the format and the model, with its price (US dollars for a
// million tokens) and window if it knew them. A piece is a part of requests, written once, before
// the first turn that has it: a system prompt, a message, a tool, a schema. Long texts of pieces
// are cut short; they are for people. A turn is the request, as the ids of its pieces, and the
// answer: the parts of the stream, each with the milliseconds the model took for it, and the
// failure that ended it, if any.
//
// A request is identified by its digest, which covers everything except its Key and the providers'
// own data ([model.Part.Opaque]). Credentials are redacted in recorded requests and answers before
// anything is derived from them.
package cassette

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/model"
)

const (
	version     = 1
	maxLine     = 32 << 20  // of a recorded turn
	maxCassette = 256 << 20 // of all of them
	maxPreview  = 2000      // bytes of a text of a piece
	maxParts    = 20_000    // of a turn, from which on deltas are put together
)

// codeNotRecorded is the code of errors about turns that are not on a cassette or cannot be
// recorded.
const codeNotRecorded = "not_recorded"

// A line is one line of a cassette: a header, a piece or a turn.
type line struct {
	Cassette int          `json:"cassette,omitempty"`
	Model    string       `json:"model,omitempty"`
	Price    *price       `json:"price,omitempty"`
	Window   int          `json:"window,omitempty"`
	Piece    *piece       `json:"piece,omitempty"`
	Turn     *recordation `json:"turn,omitempty"`
}

type price struct {
	In      float64 `json:"in"`
	Out     float64 `json:"out"`
	Cached  float64 `json:"cached,omitempty"`
	Written float64 `json:"written,omitempty"`
}

// A recordation is one turn.
type recordation struct {
	Digest  string   `json:"digest"`
	Request request  `json:"request"`
	Parts   []part   `json:"parts,omitempty"`
	Failure *failure `json:"failure,omitempty"`
}

// A part is a part of a stream with the time it took.
type part struct {
	MS     int64          `json:"ms,omitempty"`
	Kind   model.PartKind `json:"kind"`
	Text   string         `json:"text,omitempty"`
	Call   *call          `json:"call,omitempty"`
	Usage  *model.Usage   `json:"usage,omitempty"`
	Stop   model.StopCode `json:"stop,omitempty"`
	Opaque *model.Opaque  `json:"opaque,omitempty"`
}

type call struct {
	ID   string          `json:"id"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args,omitempty"`
	Raw  string          `json:"raw,omitempty"` // arguments that Args would not keep to the byte
}

// A failure is the error that ended a turn.
type failure struct {
	Provider  string `json:"provider,omitempty"`
	Model     string `json:"model,omitempty"`
	URL       string `json:"url,omitempty"`
	KeyFrom   string `json:"key_from,omitempty"`
	Status    int    `json:"status,omitempty"`
	Code      string `json:"code,omitempty"`
	RetryMS   int64  `json:"retry_ms,omitempty"`
	Temporary bool   `json:"temporary,omitempty"`
	Text      string `json:"text"`
}

// encodePart writes a part down.
func encodePart(p model.Part, took time.Duration) part {
	out := part{MS: max(took.Milliseconds(), 0), Kind: p.Kind, Text: p.Text, Stop: p.Stop}
	if p.Call != nil {
		out.Call = &call{ID: p.Call.ID, Name: p.Call.Name}
		if args, err := compact(p.Call.Args); err == nil && string(args) == string(p.Call.Args) {
			out.Call.Args = args
		} else {
			out.Call.Raw = string(p.Call.Args)
		}
	}
	if p.Usage != nil {
		u := *p.Usage
		out.Usage = &u
	}
	if p.Opaque != nil {
		out.Opaque = &model.Opaque{Provider: p.Opaque.Provider, Data: slices.Clone(p.Opaque.Data)}
	}
	return out
}

// decode returns the original part in newly allocated memory.
func (p *part) decode() model.Part {
	out := model.Part{Kind: p.Kind, Text: p.Text, Stop: p.Stop}
	if p.Call != nil {
		out.Call = &model.Call{ID: p.Call.ID, Name: p.Call.Name, Args: slices.Clone(p.Call.Args)}
		if p.Call.Raw != "" {
			out.Call.Args = json.RawMessage(p.Call.Raw)
		}
	}
	if p.Usage != nil {
		u := *p.Usage
		out.Usage = &u
	}
	if p.Opaque != nil {
		out.Opaque = &model.Opaque{Provider: p.Opaque.Provider, Data: slices.Clone(p.Opaque.Data)}
	}
	return out
}

// splitName cuts a model's name into its halves.
func splitName(name string) (provider, rest string) {
	provider, rest, ok := strings.Cut(name, "/")
	if !ok {
		return "cassette", name
	}
	return provider, rest
}

// A formatError describes what in a cassette cannot be read.
type formatError struct {
	Name string // of the file, "" when it has none
	Line int    // from 1
	Err  error
}

// Error names the place and what is wrong there.
func (e *formatError) Error() string {
	name := e.Name
	if name == "" {
		name = "cassette"
	}
	return fmt.Sprintf("%s:%d: %v", name, e.Line, e.Err)
}

// Unwrap returns the cause.
func (e *formatError) Unwrap() error { return e.Err }
