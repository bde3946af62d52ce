// Package mcp connects to servers of the Model Context Protocol, and serves tools as one.
//
// It has three steps, since a project's folder may name servers that nobody has approved yet.
// [Find] reads configurations and starts nothing. [ConnectAll] starts servers, after
// Options.Trust has approved the digest of all that would run, and takes their tools, after
// Options.Pin has approved what they say of themselves. [Group.Tools] are tools like all others.
//
// What a server says is untrusted: messages are bounded and read strictly, text is cleaned of
// what drives terminals, references to other documents are refused, and a list of tools that
// changes is approved again before what changed can be used.
//
// A server may ask the user for the fields of a form, while a call of one of its tools runs; see
// tool.Call.Ask. Sampling is not offered: a server cannot use the model.
package mcp

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/procgroup"
	"github.com/superstep-dev/superstep/tool/sandbox"
)

// The limits of what is read from a server.
const (
	maxMessage      = 10 << 20 // bytes of one message
	maxTools        = 1000     // of one server
	maxPages        = 200      // of one list
	maxList         = 16 << 20 // bytes of one list
	maxDescription  = 8 << 10
	maxInstructions = 16 << 10
	maxStderr       = 4 << 10 // that are kept
)

// Options of Find and ConnectAll. Nil means the defaults.
type Options struct {
	// scopeProject is the folder that project configurations come from, that servers are started in,
	// and that they are told of as their root. Defaults to none.
	Project string
	// Environ is the environment of the process, "NAME=value", as os.Environ gives it. Servers see
	// what procgroup.Base keeps of it and what their configuration names. Defaults to nothing.
	Environ []string
	// Env looks up the variables that configurations refer to, and where the user's own
	// configurations are. Defaults to looking in Environ.
	Env func(name string) (value string, ok bool)
	// Sandbox confines the servers that are started; see Server.Needs. If nil, they are not
	// confined.
	Sandbox *sandbox.Sandbox
	// HTTP provides the Transport for servers on the network; its other fields are ignored. If nil,
	// each connection has its own transport, without a proxy.
	HTTP *http.Client
	// Trust is asked before a server is started or spoken to, with the digest of what would run. An
	// error refuses it. If nil, the user's own servers are trusted and those of a project are
	// refused.
	Trust func(s *Server, digest string) error
	// Pin is asked about what a server says of itself when it was connected, whenever that changed,
	// and when a tool that was refused is called. It answers from what is recorded, at once, and is
	// called from one goroutine at a time for each server. An error refuses what is new; what was
	// approved instead, if it is known, says which tools can be used all the same: those that are
	// as they were. Without it the first list of a connection is refused as a whole, and of a later
	// one what this connection approved before counts. Nil agrees to the first list of a connection
	// and to no other.
	Pin func(server string, now *Offer) (agreed *Offer, err error)
	// Warn is called, from any goroutine, with warnings for the user: tools left out, text that was
	// cleaned, lists that changed. It may be nil.
	Warn func(server, text string)

	Name    string // that servers are told; defaults to "superstep"
	Version string // defaults to "0"

	InitTimeout time.Duration // from start to the list of tools; defaults to 20 s
	CallTimeout time.Duration // of a whole call; defaults to 2 min
	IdleTimeout time.Duration // between two reports of progress, of calls that reported any; defaults to 1 min
	StopTimeout time.Duration // between the end of its input and the signal to end; defaults to 1 s
}

func (o *Options) defaults() *Options {
	var d Options
	if o != nil {
		d = *o
	}
	if d.Project != "" {
		if abs, err := filepath.Abs(d.Project); err == nil {
			d.Project = abs
		}
	}
	if d.Env == nil {
		environ := d.Environ
		d.Env = func(name string) (string, bool) { return procgroup.Variable(environ, name) }
	}
	if d.Trust == nil {
		d.Trust = func(s *Server, _ string) error {
			if s.Source.Scope != scopeUser {
				return fmt.Errorf("comes from %s, which is not trusted; review: superstep trust", s.Source.Path)
			}
			return nil
		}
	}
	if d.Warn == nil {
		d.Warn = func(string, string) {}
	}
	if d.Name == "" {
		d.Name = "superstep"
	}
	if d.Version == "" {
		d.Version = "0"
	}
	for _, t := range []struct {
		at  *time.Duration
		def time.Duration
	}{{&d.InitTimeout, 20 * time.Second}, {&d.CallTimeout, 2 * time.Minute}, {&d.IdleTimeout, time.Minute}, {&d.StopTimeout, time.Second}} {
		if *t.at <= 0 {
			*t.at = t.def
		}
	}
	return &d
}

// The phase in which a server failed.
const (
	phaseConfig = "configuration"
	phaseTrust  = "trust"
	phaseStart  = "start"
	phaseInit   = "initialize"
	phaseTools  = "tools"
	phaseCall   = "call"
	phaseClosed = "closed"
)

// An Error is a failure of a server or of the connection to it. Its text contains no value of a
// variable or header.
type Error struct {
	Server string
	Phase  string // what was going on: configuration, trust, start, initialize, tools, call or closed
	Tool   string // the server's own name for it, in a call
	What   string // what happened
	Fix    string // what to do about it, if anything
	Stderr string // the last that the server wrote to its standard error
	Err    error  // the cause, if there is one to match

	answered bool // by a server that works, and said no
}

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "MCP server %q: ", e.Server)
	if e.Tool != "" {
		fmt.Fprintf(&b, "tool %q: ", e.Tool)
	} else {
		fmt.Fprintf(&b, "%s: ", e.Phase)
	}
	b.WriteString(e.What)
	if e.Fix != "" {
		b.WriteString("; " + e.Fix)
	}
	if e.Stderr != "" {
		b.WriteString("\nIts standard error ends with:\n" + e.Stderr)
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }

// oneLine is text of others as part of a message: clean, on one line, bounded.
func oneLine(s string, limit int) string {
	return clean.Clip(strings.Join(strings.Fields(clean.Text(clean.Clip(s, 4*limit))), " "), limit)
}
