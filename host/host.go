// Package host opens, once per process, everything that belongs to one folder, one user and one
// store: the configuration, the models, the project with its agents, tools and recipes, the user's
// decisions on trust, and the store of runs. The command line and every other face call it and only
// render the results.
//
//	func main() {
//		os.Exit(cli.Main(&host.Config{Workflows: []*workflow.Workflow{brief}, Stores: stores.All()}, nil))
//	}
package host

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/superstep-dev/superstep/agent/acp"
	"github.com/superstep-dev/superstep/hook"
	"github.com/superstep-dev/superstep/internal/catalog"
	"github.com/superstep-dev/superstep/internal/providers"
	"github.com/superstep-dev/superstep/internal/unlisted"
	"github.com/superstep-dev/superstep/memory"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/redact"
	"github.com/superstep-dev/superstep/telemetry"
	"github.com/superstep-dev/superstep/workflow"
)

// Config holds the folders and stores that a host uses, and the workflows and models of its
// program. Nil means the defaults.
type Config struct {
	Name    string              // what the program is called; defaults to its file's name. The store is called so, too
	Env     func(string) string // defaults to os.Getenv
	Environ []string            // all of the environment, to know what must not be written; defaults to os.Environ
	Dir     string              // the folder to work in, to which the user's paths are relative; defaults to the process's own
	// Workflows are the program's own workflows. Built-in workflows and recipes are available as well. Their nodes may name
	// agents and tools; see Agent and Tool.
	Workflows []*workflow.Workflow
	// Stores are the kinds of stores for runs; see runlog/stores. The default is memory, which does
	// not outlive the process.
	Stores []runlog.Driver
	// Models are found by name, and take precedence over the models of the user's providers.
	Models []model.Model
	// NoModels leaves out models and everything that needs one: the workflows research and agent,
	// and agents of recipes.
	NoModels  bool
	Failpoint func(name string) // for crash tests; see superstep.Options
	Hooks     []hook.Hook       // around the model calls, tool calls and nodes of runs, the outermost first
	// Settled marks the settings as complete: the user's configuration and the variables SUPERSTEP_* are ignored.
	Settled bool

	Notice func(text string) // what people should know; from any goroutine; defaults to nobody
	Warn   func(text string) // what they should do something about; defaults to nobody
	Passed func(text string) // what of the project is not used, since nobody trusts it; defaults to Notice
	Settings
}

// Settings are the user's choices by flags, variables or configuration. The zero value selects the
// defaults. Two of them are compared with ==.
type Settings struct {
	DataDir  string // where runs are kept; defaults to superstep in the user's data folder
	Store    string // as runlog.ParsePlace reads it; defaults to a file in the data folder
	Origin   string // where the name of the store comes from, such as --store, for messages
	KeyFile  string // with the keys that encrypt runs; defaults to the text of SUPERSTEP_STORE_KEY
	Volatile bool   // accept a store that keeps nothing when its server stops
	Offline  bool   // open no connection but to this machine
	OTel     bool   // send telemetry, even if no variable names a collector

	Model          string        // of a run; "" for what the rest says
	UserModel      string        // of the user's configuration, "" for none; it is Model too where nothing else says one
	TurnTimeout    time.Duration // the longest that a turn of a model may take; 0 for the default
	Concurrency    int           // the steps of a recipe that may execute at once; 0 for what it says
	AgentProcesses int           // external agents that may run at once; 0 for the default
	Rules          string        // what agents may do, said with the run: a rule a line, such as "deny read_file(secret/**)"; messages call its source --deny
	OnAsk          string        // what becomes of questions that nobody answers: wait, deny or fail; "" if nobody said
	Headless       bool          // nobody can be asked
	Yes            bool          // the user says yes to the plan of each run of ralph that starts
	TrustProject   bool          // use everything of the project, without anybody having been asked
	Guest          bool          // a model started the run: its inputs name files only as far as agents may use them
	Worker         Worker        // bounds what a worker does; zero for a process that is none

	// Fresh reads the folders again for each run that starts or is resumed. It is for long-lived
	// processes.
	Fresh bool
	// Replay is true if a run is replayed. No model and no tool is then called, and the agents are
	// defined by the run's log.
	Replay bool
}

// Counts holds how often a host performed each expensive operation.
type Counts struct {
	Opened   int64 // projects that were read
	Compiled int64 // recipes
	Stores   int64 // opened
	// Walks are how often each folder of agents, skills, tools and recipes was read.
	Walks map[string]int
}

// A Host is shared by the faces of one program. It is safe for use from several goroutines.
type Host struct {
	cfg  Config
	file *catalog.RecipeFile // a recipe that the user named by its path, nil for none
	all  *shared
	own  *own
}

// shared is the part that a host shares with the hosts With derives from it.
type shared struct {
	opened, compiled, stores atomic.Int64

	mu       sync.Mutex
	projects map[string]*project // by folder
	loaded   *loaded             // the user's providers and prices
	store    runlog.Store
	closer   io.Closer
	keys     string // that encrypt the store, as text; "" for none
	notices  []string
	redactor *redact.Redactor
	limits   *unlisted.Limits // of models; nil until the store is open
	memory   *memory.Memory   // nil until it is used
	agents   *acp.Pool        // of other programs, nil before one is used

	probing sync.Mutex
	probed  string // what confines commands here, "" before it is known

	telemetry sync.Once
	sends     *telemetry.Telemetry // nil if it is off
	sendsNot  error
}

// own holds the values that a host derives once from its settings.
type own struct {
	mu        sync.Mutex
	providers map[time.Duration]*providers.Providers // by how long models wait
	book      *book
}

// Open opens a host. It reads only the user's configuration. Project, models and store are opened once, on first use. The caller
// closes it.
func Open(_ context.Context, cfg *Config) (*Host, error) {
	h := &Host{all: &shared{projects: map[string]*project{}}, own: &own{}}
	if cfg != nil {
		h.cfg = *cfg
	}
	c := &h.cfg
	if c.Name == "" {
		c.Name = strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe")
	}
	if c.Env == nil {
		c.Env = os.Getenv
	}
	if c.Environ == nil {
		c.Environ = os.Environ()
	}
	if c.Dir == "" {
		c.Dir, _ = os.Getwd() // "" if the folder is gone
	} else if !filepath.IsAbs(c.Dir) {
		return h, errors.New("the folder to work in is not absolute: " + c.Dir)
	}
	if !c.Settled {
		if err := h.configure(); err != nil {
			return nil, err
		}
	}
	nobody := func(string) {}
	if c.Notice == nil {
		c.Notice = nobody
	}
	if c.Warn == nil {
		c.Warn = nobody
	}
	if c.Passed == nil {
		c.Passed = c.Notice
	}
	return h, workflow.Set(c.Workflows).Validate()
}

// With returns a host with other settings that shares the open project, models and store.
func (h *Host) With(s Settings) *Host {
	c := *h
	c.cfg.Settings, c.own = s, &own{}
	return &c
}

// Settings returns the settings of the host.
func (h *Host) Settings() Settings { return h.cfg.Settings }

// Refresh discards the folders' cached content, so that the next use reads them again.
func (h *Host) Refresh() {
	h.all.mu.Lock()
	clear(h.all.projects)
	h.all.mu.Unlock()
	h.own.mu.Lock()
	h.own.book = nil
	h.own.mu.Unlock()
}

// Counts returns how often this host, and the hosts created from it by With, performed expensive
// operations.
func (h *Host) Counts() Counts {
	c := Counts{Opened: h.all.opened.Load(), Compiled: h.all.compiled.Load(), Stores: h.all.stores.Load(), Walks: map[string]int{}}
	h.all.mu.Lock()
	defer h.all.mu.Unlock()
	for _, p := range h.all.projects {
		for dir, n := range p.Walks() {
			c.Walks[dir] += n
		}
	}
	return c
}

// Close ends the agents of other programs, sends what is left of telemetry, and closes the store, if it was opened.
func (h *Host) Close() error {
	h.all.sends.Close()
	h.all.mu.Lock()
	defer h.all.mu.Unlock()
	if h.all.agents != nil {
		h.all.agents.Close()
		h.all.agents = nil
	}
	if h.all.closer == nil {
		return nil
	}
	err := h.all.closer.Close()
	h.all.store, h.all.closer, h.all.memory = nil, nil, nil
	return err
}
