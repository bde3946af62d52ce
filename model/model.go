// Package model is the contract between agents and language models: messages in,
// a stream of parts out. Providers live in packages of their own below this one.
package model

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
)

// A Model answers conversations. Its methods may be called from several goroutines.
type Model interface {
	// Name is the model as users name it, "provider/model".
	Name() string

	// Generate streams one turn of the assistant. Text and reasoning arrive as
	// deltas; a tool call arrives once, whole and with arguments that are valid JSON;
	// usage and stop come last, and a stream that ends without an error has had a
	// stop. An error ends the stream: nothing that came before it may be acted upon
	// (partial tool calls are never yielded). The sequence can be ranged over once.
	// Breaking off the range ends the request.
	Generate(ctx context.Context, req *Request) iter.Seq2[Part, error]
}

// A Request is one turn to be generated. The model must not change it.
type Request struct {
	System   string     // the system prompt
	Messages []Message  // the conversation so far, ending with a user or tool message
	Tools    []ToolSpec // the tools the model may call
	// Choice says whether a tool must be called: "" leaves it to the model, "required"
	// wants any call, and any other value is the name of the tool to call.
	Choice string
	// Schema, if non-nil, is the schema of an object that the text of the answer must satisfy: the
	// provider is made to answer with only such JSON, by its own mechanism if it has one. The
	// caller must check the answer. A turn with tools may still call them first.
	Schema      *jsonschema.Schema
	MaxTokens   int      // the most output tokens, 0 for the provider's default
	Temperature *float64 // nil for the provider's default
	// Key identifies the turn. It is the same when a turn is asked for again after a
	// crash or a failed attempt, so that a provider that knows idempotency keys bills it once.
	Key string
	// Trace is the traceparent of the turn, for the provider; "" sends none.
	Trace string `json:"-"`
	// Answered, if non-nil, is called with the origin of a turn that has ended without an error, if the model knows it.
	Answered func(Origin) `json:"-"`
	// Retrying, if non-nil, is called before the model waits to ask its provider again within the turn, with the failure and the length of the wait.
	Retrying func(failed *Error, wait time.Duration) `json:"-"`
}

// Origin tells who gave an answer.
type Origin struct {
	Provider string `json:"provider,omitempty"` // such as "openai"
	ID       string `json:"id,omitempty"`       // the provider's name for the response
}

// A ToolSpec is a tool as a model sees it.
type ToolSpec struct {
	Name        string
	Description string
	Input       *jsonschema.Schema // of the arguments, an object
}

// Sized is a Model that may know how much it can hold: the tokens of a request and its answer
// together.
type Sized interface {
	Window() (tokens int, known bool)
}

// Role names the author of a message.
type Role string

// The roles of a conversation. The system prompt is not a message.
const (
	User      Role = "user"
	Assistant Role = "assistant"
	Tool      Role = "tool"
)

// A Message is one entry of a conversation.
type Message struct {
	// ID names the message within a stored conversation. It is not sent to models. "" means no ID.
	ID    string `json:"id,omitempty"`
	Role  Role   `json:"role"`
	Parts []Part `json:"parts"`
}

// PartKind describes what a part is.
type PartKind string

// The kinds of parts. Usage and Stop occur in streams only, Result in messages only.
const (
	Text      PartKind = "text"
	Reasoning PartKind = "reasoning"
	ToolCall  PartKind = "call"
	Result    PartKind = "result"
	UsagePart PartKind = "usage"
	Stop      PartKind = "stop"
)

// A Part is a piece of a message, or of a stream that becomes one.
type Part struct {
	Kind  PartKind `json:"kind"`
	Text  string   `json:"text,omitempty"`  // text and reasoning, whole or a delta; the output of a result
	Call  *Call    `json:"call,omitempty"`  // of a call; a result names the call it answers here, without Args
	Error bool     `json:"error,omitempty"` // of a result: the tool failed and Text says why
	Usage *Usage   `json:"usage,omitempty"` // of usage
	Stop  StopCode `json:"stop,omitempty"`  // of stop
	// Opaque is what the provider wants back with the part in later turns, such as the signature of
	// its reasoning. Only that provider can read it; others leave it out. It ends a delta: the next
	// delta begins a new part.
	Opaque *Opaque `json:"opaque,omitempty"`
}

// Opaque is a provider's own data about a part.
type Opaque struct {
	Provider string          `json:"provider"` // who made it and may read it: a protocol, such as "anthropic"
	Data     json.RawMessage `json:"data"`
}

// A Call is a tool call a model asks for.
type Call struct {
	ID   string          `json:"id"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args,omitempty"` // a JSON object
}

// Usage counts tokens. Cached and Written tokens are part of In, Reasoning tokens part of Out.
type Usage struct {
	In        int `json:"in"`
	Out       int `json:"out"`
	Cached    int `json:"cached,omitempty"`  // read from the provider's cache
	Written   int `json:"written,omitempty"` // written to it
	Reasoning int `json:"reasoning,omitempty"`
}

// Add returns the sum of both.
func (u Usage) Add(v Usage) Usage {
	return Usage{u.In + v.In, u.Out + v.Out, u.Cached + v.Cached, u.Written + v.Written, u.Reasoning + v.Reasoning}
}

// StopCode explains why a turn ended.
type StopCode string

// Why a turn ended.
const (
	StopEnd    StopCode = "end"    // the model was done
	StopCalls  StopCode = "calls"  // it wants tools to be called
	StopLength StopCode = "length" // the token limit cut it off
	StopFilter StopCode = "filter" // the provider withheld the rest
)

// A Response is a whole turn: the sum of a stream.
type Response struct {
	Message Message  `json:"message"`
	Usage   Usage    `json:"usage"`
	Stop    StopCode `json:"stop"`
	Origin           // absent in older logs, and in what Collect returns
	Retries int      `json:"retries,omitempty"` // how often the model asked its provider again for it; set by agents
	Trouble string   `json:"trouble,omitempty"` // why, as of the last time
}
