// Package cli is the command line as a library: a program that hands its workflows to
// [Main] gets the whole command, with progress, resumption and output for programs.
//
//	func main() {
//		os.Exit(cli.Main(&cli.Options{Workflows: []*workflow.Workflow{brief}}))
//	}
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/project"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/redact"
	"github.com/superstep-dev/superstep/runlog/seal"
	"github.com/superstep-dev/superstep/transcript"
	"github.com/superstep-dev/superstep/trust"
	"github.com/superstep-dev/superstep/workflow"
	"github.com/superstep-dev/superstep/workflow/recipe/library"
)

// Options are what a program brings to its command line. Nil means the defaults.
type Options struct {
	Name    string              // what the command is called in hints; defaults to the program's file name
	Version string              // defaults to superstep.Version
	Args    []string            // without the program's name; defaults to those of the process
	Stdin   io.Reader           // defaults to that of the process
	Stdout  io.Writer           // results; defaults to that of the process
	Stderr  io.Writer           // everything else; defaults to that of the process
	Env     func(string) string // defaults to os.Getenv
	Environ func() []string     // all of the environment, to know what must not be written; defaults to os.Environ
	// Workflows are those that need nothing of the command line.
	Workflows []*workflow.Workflow
	// Setup makes the workflows that do, from the settings. It is called when workflows
	// are needed and not before, perhaps more than once: with Workflow == "" they are
	// only listed and described, and a model that is missing is no error then. An *Error
	// decides the exit code; see [NoModel]. Defaults to none.
	Setup func(*Setup) ([]*workflow.Workflow, error)
	// Recipe makes a workflow of a recipe and of those that it uses. It is called with the setup that
	// Setup was called with. Defaults to none, so that recipes can be looked at and not run.
	Recipe func(s *Setup, b *library.Bundle) (*workflow.Workflow, error)
	// Restore gives the workflow that a run has pinned; see superstep.Options. The recipe that it was
	// made of may be gone. Defaults to what the workflow of that name restores.
	Restore func(s *Setup, name string, pinned json.RawMessage) (*workflow.Workflow, error)
	// OpenStore opens the place where runs are kept: that of --store, or by default an SQLite
	// file with the command's name in the data folder. See runlog/stores, which knows every
	// place. Directories above one in the file system exist and can be written. Defaults to
	// memory, so that nothing survives the process.
	OpenStore func(ctx context.Context, opt *runlog.OpenOptions) (runlog.Store, io.Closer, error)
	// Models gives what the command "models" shows and tries. Like Setup it is called when that is
	// needed. Defaults to none.
	Models func(*Setup) (Models, error)
	// Project opens the project of a setup, for the commands about agents, tools and skills.
	// Defaults to opening it as it is, without models.
	Project func(*Setup) (*project.Project, error)
	// Failpoint is for crash tests; see superstep.Options.
	Failpoint func(name string)

	heartbeat time.Duration // between the signs of life of plain progress; defaults to 30 s
}

// Setup is what the command line says about how workflows are to work.
type Setup struct {
	Workflow string // the one that is about to run, "" if none is
	Model    string // of a new run --model or SUPERSTEP_MODEL, of another its input "model" (else SUPERSTEP_MODEL); "" for none
	// UserModel is the model of the user's configuration, "" for none. It is in Model too where
	// nothing said otherwise.
	UserModel string
	ConfigDir string // the folder of the user's configuration; what is in it is theirs
	DataDir   string // where runs are kept
	CacheDir  string // for what can be made again
	Offline   bool   // open no connection but to this machine
	Env       func(string) string
	Notice    func(format string, args ...any) // says something to the user, on standard error
	OnAsk     string                           // what --on-ask says, "" if it is not given
	File      string                           // the recipe that the user named by its path, absolute; "" for none
	// Recipes makes workflows of the recipes that may be used, for a host that wants them when it makes
	// others. It is for Options.Setup to call once at most; if it is not called, they come after
	// all others. The recipes may run those given; taken are the names of workflows that they may
	// neither run nor have. Those of Options.Workflows count among the former.
	Recipes func(others []*workflow.Workflow, taken ...string) ([]*workflow.Workflow, error)
	// Project says where the project and the user's own agents and tools are, for the host to
	// complete with models and to open.
	Project *project.Options
}

// The exit codes of the command.
const (
	ExitOK          = 0
	ExitFailed      = 1
	ExitUsage       = 2 // nothing ran
	ExitPaused      = 3 // a person must answer; the run can be resumed
	ExitNoModel     = 4
	ExitLimit       = 5 // of steps, or of the budget: time, money, tokens, agents
	ExitDenied      = 6 // a required action was denied
	ExitPartial     = 7 // the run finished, but some tasks failed
	ExitInterrupted = 130
	ExitPipe        = 141 // who read the output went away, and the run was stopped
	ExitTerminated  = 143
)

// Main runs the command and returns its exit code. Standard output has results only.
func Main(opt *Options) int {
	a := newApp(opt)
	defer a.ignorePipe()()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	code := a.run(ctx)
	if err := a.out.failed(); err != nil && !errors.Is(err, syscall.EPIPE) && code == ExitOK {
		a.fail(&Error{Exit: ExitFailed, Code: "output", Message: fmt.Sprintf("cannot write the output: %v", err)})
		code = ExitFailed
	}
	return code
}

// app is one call of the command.
type app struct {
	opt  Options
	set  settings
	in   *input
	out  *output
	err  *output
	term terminal

	settled bool // the flags are known

	configured    bool // the configuration was read
	settings      []setting
	misconfigured error

	recipes cookbook
	current string // the workflow that was set up last to run, "" for none

	store     runlog.Store
	closer    io.Closer
	keys      []seal.Key // the store is sealed with
	keyWords  []string   // the same as they were given
	redacting *redact.Redactor
	notices   []string // what a person should know of the store before something runs
}

// settings are the global flags.
type settings struct {
	output   string
	color    string
	noColor  bool
	plain    bool
	quiet    bool
	verbose  bool
	dataDir  string
	store    string
	keyFile  string
	volatile bool
	noInput  bool
	offline  bool
	model    string
	leave    leave // of the commands that execute a run
}

func newApp(opt *Options) *app {
	a := &app{}
	if opt != nil {
		a.opt = *opt
	}
	o := &a.opt
	if o.Name == "" {
		o.Name = strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe")
	}
	if o.Version == "" {
		o.Version = superstep.Version
	}
	if o.Args == nil {
		o.Args = os.Args[1:]
	}
	if o.Stdin == nil {
		o.Stdin = os.Stdin
	}
	if o.Stdout == nil {
		o.Stdout = os.Stdout
	}
	if o.Stderr == nil {
		o.Stderr = os.Stderr
	}
	if o.Env == nil {
		o.Env = os.Getenv
	}
	if o.Environ == nil {
		o.Environ = os.Environ
	}
	if o.heartbeat <= 0 {
		o.heartbeat = 30 * time.Second
	}
	a.in, a.out, a.err = &input{r: o.Stdin}, &output{w: o.Stdout}, &output{w: o.Stderr}
	return a
}

// run runs the command that the arguments name, and says what went wrong.
func (a *app) run(ctx context.Context) (code int) {
	defer func() {
		if a.closer == nil {
			return
		}
		if err := a.closer.Close(); err != nil && code == ExitOK {
			a.fail(err)
			code = ExitFailed
		}
	}()
	root, err := a.root()
	if err == nil {
		root.SetArgs(a.opt.Args)
		err = root.ExecuteContext(ctx)
	}
	if err == nil {
		return ExitOK
	}
	a.early()
	if e := classify(err); e.shown {
		return e.Exit
	}
	return a.fail(err)
}

// engine opens the store and makes an engine over the workflows. With runs == "" the
// engine is for looking at runs only.
func (a *app) engine(ctx context.Context, runs string, opt *superstep.Options) (*superstep.Engine, error) {
	var set workflow.Set
	if runs != "" {
		var err error
		if set, err = a.workflows(runs); err != nil {
			return nil, err
		}
	}
	return a.engineOf(ctx, set, opt)
}

func (a *app) engineOf(ctx context.Context, set workflow.Set, opt *superstep.Options) (*superstep.Engine, error) {
	if err := a.open(ctx, set == nil); err != nil {
		return nil, err
	}
	o := superstep.Options{Workflows: set, Failpoint: a.opt.Failpoint}
	if a.opt.Restore != nil {
		o.Restore = a.restore
	}
	if opt != nil {
		o.MaxSteps, o.Timeout = opt.MaxSteps, opt.Timeout
	}
	return superstep.New(a.store, &o)
}

// setup is what is known of how workflows are to work. Name is the one about to run, "" for none.
func (a *app) setup(name string) *Setup {
	s := &Setup{
		Workflow: name, Model: a.set.model, UserModel: a.userModel(), ConfigDir: a.configDir(), DataDir: a.dataDir(), CacheDir: a.cacheDir(),
		Offline: a.set.offline, Env: a.opt.Env,
		Notice: func(format string, args ...any) {
			if !a.set.quiet && !a.programs() && name != "" {
				a.err.line(fmt.Sprintf(format, args...))
			}
		},
		OnAsk: a.set.leave.onAsk, Project: a.projectOptions(),
		Recipes: func([]*workflow.Workflow, ...string) ([]*workflow.Workflow, error) { return nil, nil },
	}
	if e := a.recipes.file; e != nil {
		s.File = e.Path
	}
	s.Project.Notice = func(text string) { s.Notice("%s", transcript.Line(text)) }
	s.Project.Passed = func(items []trust.Status) {
		s.Notice("%s; look at them and decide: %s", transcript.Line(project.Summary(items)), a.hint("trust"))
	}
	return s
}

// writable sees to it that a directory is there and can be written.
func (a *app) writable(dir string) error {
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		var f *os.File
		if f, err = os.CreateTemp(dir, ".write-*"); err == nil {
			err = errors.Join(f.Close(), os.Remove(f.Name()))
		}
	}
	if err == nil {
		return nil
	}
	why := err
	var path *os.PathError
	if errors.As(err, &path) {
		why = path.Err
	}
	return &Error{
		Exit: ExitFailed, Code: "data_dir", Err: err,
		Message: fmt.Sprintf("cannot write %s: %v; set --data-dir (or SUPERSTEP_DATA_DIR) to a folder that can be written, or --store to another place", dir, why),
	}
}

// programs reports whether the output is for programs.
func (a *app) programs() bool { return a.set.output != "text" }

// kept reports whether runs are still there once the command has ended.
func (a *app) kept() bool {
	p, err := a.place()
	return err == nil && p.Kind != "memory" && a.opt.OpenStore != nil
}

// hint is a command to type next, with the flags that it takes to mean the same place.
func (a *app) hint(words ...string) string {
	s := a.opt.Name + " " + strings.Join(words, " ")
	if a.set.dataDir != "" && a.set.dataDir != a.opt.Env("SUPERSTEP_DATA_DIR") {
		s += " --data-dir " + quote(a.set.dataDir)
	}
	if p, err := a.place(); err == nil && a.set.store != "" && a.storeOrigin() == "--store" {
		s += " --store " + quote(p.String())
	}
	if a.set.keyFile != "" && a.set.keyFile != a.opt.Env("SUPERSTEP_STORE_KEY_FILE") {
		s += " --store-key-file " + quote(a.set.keyFile)
	}
	return s
}

// quote makes one word of a string for a POSIX shell.
func quote(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-./:@%+,=", r))
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
