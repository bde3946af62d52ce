// Package script finds and runs the tools that users keep in folders: modules in TypeScript or
// JavaScript, and executables with a manifest.
//
// Finding and running are separate, so that a user can decide in between. Discover reads, and runs
// nothing: it puts a module and all that it imports into one text and tells its digest. LoadAll
// runs what was found, to learn what its tools are called and take, and makes tools of them. What
// was put together by Discover is what runs, whatever became of the files since; an executable is
// checked against its digest right before each call.
//
// A module runs in node, bun or deno, each call in a process of its own that sees few variables
// and none of whose descendants outlives it. What runs is bounded by Options.Sandbox, and declares
// what it needs besides; without a sandbox it may do what its user may.
//
// The digest of a module covers what it imports, by name. It does not cover what a module reads
// or imports by a computed name when it runs; Found.Open tells of that. The digest of a command
// covers the folders of the files that it names, not what those load from other folders.
package script

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/toolnames"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/sandbox"
)

// A Kind is how a tool is written.
type Kind string

// The kinds of tools.
const (
	Module  Kind = "module"  // TypeScript or JavaScript
	Command Kind = "command" // an executable with a manifest
)

// A Scope names the owner of a folder of tools.
type Scope struct {
	// Name for people, such as "project" or "user".
	Name string
	// Root is the folder that must contain all files of a tool. The default is the parent of the
	// tools folder or, if the name of that parent begins with a dot (as in .superstep/tools), the
	// folder above it.
	Root string
}

// A Found is a file that defines tools, as Discover read it. Nothing of it has run.
type Found struct {
	Kind  Kind
	Path  string // of the module or manifest, absolute
	Scope Scope
	// Names are what its tools will be called, as far as can be told without running it: those
	// of a module's exports, which need not all be tools.
	Names []string
	// Digest is "sha256:" and hexadecimal digits, over all that would run.
	Digest string
	// Files are those that Digest covers, relative to the root, sorted. Of a command they are all
	// that lies in the folders of the files that it names, and the code of the folder where it works
	// if it runs a program that runs what is there, such as npm and make.
	Files []string

	Env []string // the variables that its tools declare; see Needs

	// The settings of commands, as in the manifest.
	Description string
	Command     []string // what would be run
	Effect      tool.Effect

	// Needs is what its tools declare. Of a module it is what its text has for that, which holds all that its tools
	// are granted.
	Needs sandbox.Needs

	// Open lists the reasons why a module may run more than Digest covers: it imports by names that
	// are known only at run time.
	Open []string

	root     string // real path
	sums     *sums  // of the files of a command
	bundle   *bundle
	manifest *manifest
}

// A Problem is something wrong with a file, or worth knowing about it if Warning is set.
type Problem struct {
	File    string
	Line    int // from 1, 0 if none is to blame
	Column  int // from 1, in bytes; 0 if unknown
	Text    string
	Warning bool
}

// Error returns the problem as "file:line:column: text", harmless to show.
func (p Problem) Error() string {
	at := p.File
	if p.Line > 0 {
		at = fmt.Sprintf("%s:%d", at, p.Line)
		if p.Column > 0 {
			at = fmt.Sprintf("%s:%d", at, p.Column)
		}
	}
	return clean.Text(at + ": " + p.Text)
}

// Options of LoadAll. Nil means the defaults.
type Options struct {
	// Runtimes are tried in this order: "node", "bun", "deno", which is also the default.
	Runtimes []string
	// Environ is the environment of this program ("NAME=value"). Programs are looked for in the absolute folders of its PATH. Tools see of it what
	// procgroup.Base keeps, and what they are allowed by name. Defaults to none.
	Environ []string
	// Env names variables that every tool may see, besides those it names itself.
	Env []string
	// Directory is where tools work, absolute. Defaults to the root of the scope.
	Directory string
	// Worktree is the root of the working tree that is reported to tools. The default is Directory.
	Worktree string
	// LoadTimeout is how long a module may take to tell what it holds. Defaults to 30 seconds.
	LoadTimeout time.Duration
	// Memory of a module in node or deno, in bytes. Defaults to 512 MiB.
	Memory int64
	// Reserved are names that no tool may have, those of built-in tools.
	Reserved []string
	// Sandbox confines the processes of tools. If nil, they are not confined.
	Sandbox *sandbox.Sandbox
	// Temp is the folder for private temporary folders. Defaults to the system's.
	Temp string

	warn func(Problem) // told what is odd but no reason to refuse a tool; set by LoadAll
}

const (
	// maxOutput is how much of the output of a call is kept, in bytes. The rest is read and counted.
	maxOutput = 1 << 20

	defaultTimeout     = 2 * time.Minute // of a call of a tool that names none
	defaultLoadTimeout = 30 * time.Second
	defaultMemory      = 512 << 20
	maxTimeout         = 24 * time.Hour

	maxFile     = 10 << 20  // of one source file or manifest, and of a bundle
	maxHashed   = 256 << 20 // of an executable and each file of its command
	maxFiles    = 1000      // tools of one folder
	maxState    = 8 << 20   // of the workflow, told to a tool
	maxDescribe = 1 << 20   // what a module tells of its tools
	maxManifest = 256 << 10
	maxLog      = 64 << 10 // kept of what a tool prints beside its result, from the end
)

func (o *Options) orDefault(root string) Options {
	var out Options
	if o != nil {
		out = *o
	}
	if len(out.Runtimes) == 0 {
		out.Runtimes = []string{"node", "bun", "deno"}
	}
	if out.Directory == "" {
		out.Directory = root
	}
	if out.Worktree == "" {
		out.Worktree = out.Directory
	}
	if out.LoadTimeout <= 0 {
		out.LoadTimeout = defaultLoadTimeout
	}
	if out.Memory <= 0 {
		out.Memory = defaultMemory
	}
	if out.warn == nil {
		out.warn = func(Problem) {}
	}
	return out
}

// nameProblem returns what is wrong with the name of a tool, "" if nothing.
func nameProblem(name string, reserved []string) string {
	if !toolnames.Valid(name) {
		return fmt.Sprintf("%q is no name for a tool; use 1 to 64 letters, digits, _ and -", clip(name))
	}
	if slices.Contains(reserved, name) {
		return fmt.Sprintf("the name %q is reserved for a built-in tool; use a name with a prefix of yours, such as my_%s", name, name)
	}
	if strings.HasPrefix(name, "mcp__") {
		return fmt.Sprintf("the name %q is reserved for tools of MCP servers; use one that does not begin with mcp__", name)
	}
	return ""
}

// clip returns an untrusted text in a form that fits a message.
func clip(s string) string { return clean.Clip(s, 200) }
