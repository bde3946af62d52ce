// Package tool defines the tools of agents: values with a name, a schema and a function.
package tool

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// Effect describes what calling a tool twice does, which decides what happens to a call
// that a crash left without an outcome.
type Effect string

// The effects of a tool.
const (
	Pure       Effect = "pure"       // changes nothing: called again
	Idempotent Effect = "idempotent" // a second call with the same key and arguments changes nothing more: called again
	Once       Effect = "once"       // must not happen twice: never called again unasked
)

// A Tool is a definition. It is a value: build it, pass it on, and never change it afterwards.
type Tool struct {
	Name        string             // [a-zA-Z0-9_-]{1,64}, what models call it by
	Description string             // for the model
	Input       *jsonschema.Schema // of the arguments, an object
	Effect      Effect             // "" means Once, the careful choice
	// Output, if non-nil, is the schema that the result of Run must satisfy, as JSON. If it does
	// not, the tool has failed.
	Output *jsonschema.Schema
	// Whole is set if the output must not be truncated at the limits of this package, because it is
	// another agent's work or bounds itself.
	Whole bool
	// Network is set if the tool reaches the network, so that strangers may have written what it returns.
	Network bool
	// Dir is the absolute folder in which the tool works, shown where a call is asked about. "" for none.
	Dir string
	// Preview, if set, returns what a call would change, so that a person can look at it first. It changes
	// nothing. An error means that the call would fail.
	Preview func(ctx context.Context, c *Call) (*Change, error)
	// Run does the work. It is called with arguments that fit Input, from several
	// goroutines. An error is a failure of the tool, which the model gets to see as a
	// result; it never ends the run.
	Run func(ctx context.Context, c *Call) (string, error)
}

// What stands in Call.Seen for something that is no tool, and after the name of a tool that has reached the network.
const (
	ImportedFile  = "an imported file"                    // the file from which a run was imported
	WrittenFile   = "a file that was written in this run" // by whoever had read what strangers may have written
	ExternalAgent = "an external agent"                   // which has the whole network
	Networked     = " over the network"                   // as in "bash over the network"
)

// Stranger reports whether what stands for a source in Call.Seen is one whose words strangers may have written: pages and search results of the web,
// answers of MCP servers, tools with a network, the reports of other agents, notes of earlier runs, and files that were made of such.
func Stranger(source string) bool {
	switch source {
	case "web_fetch", "web_search", "task", "task_batch", "run_workflow", "collect_workflow", "recall", ImportedFile, WrittenFile, ExternalAgent:
		return true
	}
	return strings.HasPrefix(source, "mcp__") || strings.HasSuffix(source, Networked)
}

// A Call is one call of a tool, with what the tool may know of its caller.
type Call struct {
	ID   string          // the model's name for the call
	Key  string          // identifies the call across crashes and retries, for tools that are idempotent by key
	Args json.RawMessage // a JSON object

	Trace string // the traceparent of the call, for whoever it is passed on to; "" for none

	Run   string // the identity of the run, "" without a log
	Node  string // the path of the task in it, such as "gather/api", "" without a log
	Agent string // who calls; Workflow if a node or a step does, and not an agent
	// Permitted means that the caller has asked the user about the call where the Gate of its set asks. It lifts no denial.
	Permitted bool
	// Approved is the Sum of the change that a person has looked at and allowed, "" for none. A tool with a
	// Preview refuses to make another change then.
	Approved string
	// Seen names the tools whose results the agent has been given so far, in the order in which
	// it was first given one of each, with what else its values come from; see Stranger. In an imported run ImportedFile is the first.
	Seen []string
	// Stands reports whether an address stands word for word in a page, a search result or a document that was read in the run, or in what the user said.
	// Nil means that none does.
	Stands func(address string) bool
	// Reads decides whether the call may reveal a file that the tool comes upon; see Reader. Nil if no gate has decided on
	// the call: a tool then holds to the rules it was made with, for the path in the arguments as well.
	Reads func(name, from string) func(file string) Verdict
	// State returns the state of the workflow at the start of the task, as JSON. Outside a workflow
	// it is nil. It is a copy: changing it does not affect the workflow.
	State func() (json.RawMessage, error)
	// Raw asks for data, since the caller is a program and not a model: contents as they are, without numbers of lines,
	// remarks or sentences about nothing found. A result that would be truncated is an error instead.
	Raw bool
	// Ask asks the user a question while the call runs, and waits for the answer: JSON that satisfies the schema, or nil if
	// the user declines. Ask fails if ctx ends first, or the run is to stop. Ask is nil if nobody can be asked.
	Ask func(ctx context.Context, text string, schema json.RawMessage) (json.RawMessage, error)
	// Refused notes what the boundary of the call's commands refused them, a sentence each: it becomes Result.Refused. Nil if nobody keeps it. It may be
	// called from several goroutines.
	Refused func(texts ...string)
	// Stopped is closed once the run is to stop after what is running: who waits for something
	// long may give up then. Nil for never.
	Stopped <-chan struct{}
}

// Workflow is the Agent of calls that no agent makes.
const Workflow = "workflow"

// A Result is the result of a call, ready for the model: output or error, already truncated to the
// limits of this package.
type Result struct {
	Text  string `json:"text"`
	Error bool   `json:"error,omitempty"`

	Denied bool `json:"denied,omitempty"` // the call was not allowed, and has not happened; absent in older logs

	// Refused is what the sandbox refused the commands of the call, a sentence on each line; absent in older logs.
	Refused string `json:"refused,omitempty"`

	Stops bool `json:"-"` // the task of the call must not go on: see Stops
}

// Stops reports whether the error of a tool must fail the task that called it, and not only be shown to a model, because its user has to
// act: an error with a method Stops that returns true.
func Stops(err error) bool {
	var e interface{ Stops() bool }
	return errors.As(err, &e) && e.Stops()
}

// A Change is a call's planned change to a file.
type Change struct {
	New  bool   // the file does not exist yet
	Diff string // unified; "" if nothing would change
	Sum  string // identifies the change, wherever in the file it is
}
