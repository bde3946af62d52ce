package script

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/procgroup"
	"github.com/superstep-dev/superstep/internal/suggest"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/sandbox"
)

// A request is a request to a module, in the form sent to the engine.
type request struct {
	Op         string          `json:"op"` // describe or call
	Mark       string          `json:"mark,omitempty"`
	File       string          `json:"file"`
	Directory  string          `json:"directory"`
	Export     string          `json:"export,omitempty"`
	Args       json.RawMessage `json:"args,omitempty"`
	Context    *callContext    `json:"context,omitempty"`
	State      json.RawMessage `json:"state,omitempty"`
	StateError string          `json:"stateError,omitempty"`
	Limit      int             `json:"limit"`

	env     []string // names of variables the tool may see
	needs   sandbox.Needs
	refused func(texts ...string) // is told what the sandbox refused
}

// A callContext tells a tool about its caller.
type callContext struct {
	SessionID   string `json:"sessionID"`
	MessageID   string `json:"messageID"` // of its own for each call, and the same when it is repeated after a crash
	Agent       string `json:"agent"`
	Directory   string `json:"directory"`
	Worktree    string `json:"worktree"`
	NodeID      string `json:"nodeId"`
	ExecutionID string `json:"executionId"`
	Key         string `json:"key"`
}

func contextOf(c *tool.Call, o *Options) *callContext {
	return &callContext{
		SessionID: c.Run, MessageID: cmp.Or(c.Key, c.ID), Agent: c.Agent, Directory: o.Directory, Worktree: o.Worktree,
		NodeID: c.Node, ExecutionID: c.Run, Key: c.Key,
	}
}

// An answer is the answer of a module: a text or an error.
type answer struct {
	text    string
	dropped int64 // bytes that were not kept
	failure *thrown
	hint    string // what might help, if it failed
}

// A thrown is what a module threw.
type thrown struct {
	Name    string `json:"name"`
	Message string `json:"message"`
	Stack   string `json:"stack"`
}

// err returns the failure of a tool in the form for its caller, or nil.
func (a *answer) err(m *module) error {
	f := a.failure
	if f == nil {
		return nil
	}
	text := f.Message
	if f.Name != "" && f.Name != "Error" && !strings.HasPrefix(text, f.Name) {
		text = f.Name + ": " + text
	}
	if at := m.found.bundle.frame(f.Stack); at != "" {
		text += " (at " + at + ")"
	}
	if a.hint != "" {
		text += "; " + a.hint
	}
	return errors.New(clean.Text(clean.Clip(text, 8000)))
}

// engine picks the program that runs a module with these imports of a runtime's own modules.
func (o *Options) engine(foreign []string) (*engine, error) {
	known := []string{"node", "bun", "deno"}
	for _, name := range o.Runtimes {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("unknown runtime %q%s", clip(name), suggest.Hint(name, known))
		}
	}
	if slices.ContainsFunc(foreign, func(s string) bool { return s == "bun" || strings.HasPrefix(s, "bun:") }) {
		if !slices.Contains(o.Runtimes, "bun") {
			return nil, errors.New(`imports "bun", which is not among the runtimes that are configured; add it`)
		}
		path, err := procgroup.Look(o.Environ, "bun")
		if err != nil {
			return nil, errors.New(`imports "bun", which is not installed; install bun, or import what node has too`)
		}
		return &engine{name: "bun", path: path}, nil
	}
	for _, name := range o.Runtimes {
		if path, err := procgroup.Look(o.Environ, name); err == nil {
			return &engine{name: name, path: path}, nil
		}
	}
	return nil, fmt.Errorf("needs %s to run, and PATH has none; install node (https://nodejs.org), bun or deno", strings.Join(o.Runtimes, " or "))
}
