// Package recipe implements the language of recipes: workflows of agents written as YAML. They are
// easy to read, and are checked before anything runs. Each problem has its line and column.
//
//	r, problems := recipe.Parse("brief.yaml", text)
//
// A recipe executes no code. Its steps give work to agents, call tools, run other workflows and ask
// people; templates put texts together, and conditions are bounded expressions without effects. The
// package is pure: it reads no files, and the same text always yields the same recipe. Package
// compile turns recipes into workflows.
package recipe

import (
	"encoding/json"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
)

// version is the version of the language that this package reads.
const version = 1

// The limits of a recipe.
const (
	MaxBytes    = 1 << 20 // of the file
	maxDepth    = 64      // of lists and maps in each other
	MaxSteps    = 1000    // those within others counted
	maxRounds   = 1000    // of a loop
	maxAttempts = 100     // of a retry

	DefaultConcurrency = 16 // steps running at once
	defaultTries       = 2  // how often an agent is asked again for what fits a schema
)

// A Pos is a position in the file, counted from 1. The column counts characters.
type Pos struct{ Line, Col int }

// A Recipe is a workflow. It is a value: Parse creates it, and it is not changed afterwards.
type Recipe struct {
	Name        string
	Description string
	Aliases     []string
	Inputs      []Input
	Model       string // of agents that do not name one, "" for none
	Concurrency int    // steps running at once, in all containers together
	AtOnce      int    // the same as the recipe says it, 0 for the default
	FailFast    bool   // a failure of the run stops what is running
	Budget      *Budget
	Block       // its steps and its output
	// Handlers are what runs after the steps: on_failure, on_cancel and always, in this order, as
	// far as they are there. Each is a step with a Parallel.
	Handlers []*Step

	File   string // as people know it
	Source []byte // the text it was read from
}

// A Budget bounds a whole run. Zero is no limit.
type Budget struct {
	Tokens int64
	Cost   float64 // US dollars
	Turns  int64
	Calls  int64
	Agents int64
	Time   time.Duration
}

// An Input is an input of a run, or a field of a form.
type Input struct {
	Name        string
	Description string
	Type        string // string, integer, number, boolean, list or object
	Required    bool
	Default     json.RawMessage // nil for none
	Enum        []json.RawMessage
	Pos         Pos
}

// A Block is a group of steps that depend only on each other, and their output.
type Block struct {
	Steps  []*Step // in the order of the file
	Output *Value  // nil for the last step's output; of a parallel, for all of them by id
}

// A Step is one step. Exactly one of Agent to Loop is set.
type Step struct {
	ID        string
	Pos       Pos
	DependsOn []string // as written or, if nothing is, the steps beside it that it refers to, in the order of the file
	// Reads lists, in the order of the file, all steps whose results this step uses: its
	// dependencies, and the ancestors in its block that it or a step inside it refers to in
	// templates and conditions. Steps of an enclosing block are never listed: they belong to the
	// container's Reads.
	Reads   []string
	OfError bool // it refers to the error of the run, as handlers can

	When    *Condition
	Gate    *Gate
	Output  *jsonschema.Schema // what its output must fit, nil for anything
	Tries   int                // how often an agent is asked again for that
	Retry   *Retry
	Timeout time.Duration // of one attempt, 0 for none
	// OnError decides how a failure of the step is handled: "continue" makes the text of the error
	// its output, and the run ends partial; "skip" also skips what depends on it; with "fail" the
	// run fails.
	OnError string

	Agent    *Agent
	Tool     *Tool
	Workflow *Call
	Ask      *Ask
	Value    *Condition // an expression that gives the output
	Parallel *Parallel
	Foreach  *Foreach
	Loop     *Loop
}

// Kind returns the kind of the step: agent, tool, workflow, ask, value, parallel, foreach or loop.
func (s *Step) Kind() string {
	switch {
	case s.Agent != nil:
		return "agent"
	case s.Tool != nil:
		return "tool"
	case s.Workflow != nil:
		return "workflow"
	case s.Ask != nil:
		return "ask"
	case s.Value != nil:
		return "value"
	case s.Parallel != nil:
		return "parallel"
	case s.Foreach != nil:
		return "foreach"
	}
	return "loop"
}

// Body returns the block inside a container. For other steps it returns nil.
func (s *Step) Body() *Block {
	switch {
	case s.Parallel != nil:
		return &s.Parallel.Block
	case s.Foreach != nil:
		return &s.Foreach.Block
	case s.Loop != nil:
		return &s.Loop.Block
	}
	return nil
}

// A Retry describes how often and how soon a failed step is tried again.
type Retry struct {
	Attempts int           // in all
	Delay    time.Duration // before the second; defaults to none
	Backoff  float64       // what the delay grows by; defaults to 1
	MaxDelay time.Duration // 0 for no bound
}

// A Gate pauses before a step until a user approves it.
type Gate struct {
	Message *Template // nil for none
}

// An Agent is the work of an agent.
type Agent struct {
	Name   string // of the sub-agent
	Pos    Pos    // of that name
	Prompt *Template
	Model  string // "" for that of the recipe
	Turns  int    // of the model at most, 0 for the agent's own limit
}

// A Tool is the call of a tool.
type Tool struct {
	Name    string
	Pos     Pos
	Args    *Value // a map; nil for no arguments
	Effects string // "once", "idempotent", or "" for what the tool declares
}

// A Call is the run of another workflow.
type Call struct {
	Name     string
	Pos      Pos
	Inputs   *Value   // a map; nil for none
	Detached bool     // it is a run of its own
	Place    []string // of a detached one: the labels that a worker must have
	Budget   *Budget  // of a detached one; nil for what is left
}

// An Ask is a question to a person.
type Ask struct {
	Header   string // "" for none
	Question *Template
	Options  []string
	About    map[string]string // describes options, by option
	Several  bool              // the answer is a list of the options
	Form     []Input           // nil for one answer
	Default  json.RawMessage   // nil for none
}

// A Parallel is steps side by side, as one step.
type Parallel struct {
	Width int // steps running at once, 0 for no bound of its own
	Block
}

// A Foreach runs its steps for each item of a list, independently of the other items.
type Foreach struct {
	In    *Value // a list
	As    string
	Width int // items running at once, 0 for no bound of its own
	Block
}

// A Loop runs its steps until a condition holds.
type Loop struct {
	Max   int
	Until *Condition // nil for Max rounds
	Block
}
