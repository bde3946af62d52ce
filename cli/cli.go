// Package cli is the command line as a library: a program that hands its workflows to
// [Main] gets the whole command, with progress, resumption and output for programs.
//
//	func main() {
//		os.Exit(cli.Main(&host.Config{Workflows: []*workflow.Workflow{brief}, Stores: stores.All()}, nil))
//	}
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/demo"
	"github.com/superstep-dev/superstep/internal/signals"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/internal/tui"
	"github.com/superstep-dev/superstep/runlog"
)

// Options are the settings of a command line besides its host. Nil means the defaults.
type Options struct {
	Version string    // defaults to superstep.Version
	Args    []string  // without the program's name; defaults to those of the process
	Stdin   io.Reader // defaults to that of the process
	Stdout  io.Writer // results; defaults to that of the process
	Stderr  io.Writer // everything else; defaults to that of the process
	Program string    // the file of the program, to start it again; defaults to that of the process
	Demo    bool      // offers the command "demo"

	heartbeat time.Duration // between the signs of life of plain progress; defaults to 30 s
	idle      time.Duration // that a detached run which waits for a person keeps its process; defaults to a minute
}

// The exit codes of the command.
const (
	ExitOK          = 0
	ExitFailed      = 1
	ExitUsage       = 2 // nothing ran
	ExitPaused      = 3 // a person must answer; the run can be resumed
	ExitNoModel     = 4
	ExitLimit       = 5   // of steps, or of the budget: time, money, tokens, agents
	ExitDenied      = 6   // a required action was denied
	ExitPartial     = 7   // the run finished, but some tasks failed
	ExitHungUp      = 129 // the terminal went away
	ExitInterrupted = 130 // or cancelled
	ExitPipe        = 141 // who read the output went away, and the run was stopped
	ExitTerminated  = 143
)

// Main runs the command of a process over a host and returns its exit code. It writes only results to standard output. Signals stop
// what runs.
func Main(cfg *host.Config, opt *Options) int {
	defer signals.IgnorePipe()()
	return newApp(cfg, opt).main(context.Background())
}

// Run is like Main for a command within another program, and leaves signals alone: when ctx ends, it stops as an interrupted command
// does. Several may run at once if each is given its streams.
func Run(ctx context.Context, cfg *host.Config, opt *Options) int {
	a := newApp(cfg, opt)
	a.stops = whenEnds(ctx)
	return a.main(ctx)
}

// whenEnds returns what stops a command when ctx ends, as an interrupt does.
func whenEnds(ctx context.Context) func(do func(why *signals.Error)) func() {
	return func(do func(why *signals.Error)) func() {
		stop := context.AfterFunc(ctx, func() { do(&signals.Error{Signal: os.Interrupt}) })
		return func() { stop() }
	}
}

func (a *app) main(ctx context.Context) int {
	ctx, stop := context.WithCancel(ctx)
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
	opt    Options
	cfg    host.Config
	opened *host.Host                               // as the settings were last; see host
	as     host.Settings                            // these settings
	wrong  error                                    // why there is no host
	stops  func(do func(why *signals.Error)) func() // calls do when the command has to stop, see signals.On

	set settings
	tty *tui.Screen
	out *output // results
	err *output // everything else

	settled bool      // the flags are known
	warned  bool      // of mistakes in the project's settings
	notices *sync.Map // that were printed

	configuration *host.Configuration // nil until it is read

	current string      // the workflow that is about to run, "" for none
	starts  bool        // the project is started beside any run
	replays bool        // the command replays a run
	lives   bool        // the command lives long: what it runs is read anew
	worker  host.Worker // what bounds the command, zero unless it is a worker
	begun   string      // the run that the command executes, "" for none

	store runlog.Store // once it is open
}

// settings are the global flags.
type settings struct {
	tui.Settings
	output    string
	config    string
	dataDir   string
	store     string
	keyFile   string
	volatile  bool
	offline   bool
	otel      bool
	model     string
	leave     leave         // of the commands that execute a run
	turn      time.Duration // the longest turn of a model, 0 for the default
	width     int           // the steps of a recipe at once, 0 for what it says
	processes int           // of agents of other programs at once, 0 for the default
	guest     bool          // a model started the run
	yes       bool          // to the plan of ralph
}

func newApp(cfg *host.Config, opt *Options) *app {
	a := &app{stops: signals.On}
	if opt != nil {
		a.opt = *opt
	}
	if cfg != nil {
		a.cfg = *cfg
	}
	o := &a.opt
	if a.cfg.Name == "" {
		a.cfg.Name = strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe")
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
	if a.cfg.Env == nil {
		a.cfg.Env = os.Getenv
	}
	if a.cfg.Environ == nil {
		a.cfg.Environ = os.Environ()
	}
	if a.cfg.Dir == "" {
		a.cfg.Dir, _ = os.Getwd() // "" if the folder is gone
	}
	if o.Demo {
		a.cfg.Models = append(slices.Clone(a.cfg.Models), demo.NewModel(a.cfg.Env))
	}
	a.cfg.Settled = true // by the flags; see configure
	a.out, a.err = &output{w: o.Stdout}, &output{w: o.Stderr}
	a.tty = tui.New(o.Stdin, a.out, a.err, a.cfg.Env)
	a.open()
	return a
}

// open opens the host of the program. It tells people what this call of the command does.
func (a *app) open() {
	a.cfg.Notice, a.notices = a.told, &sync.Map{}
	a.cfg.Passed = func(text string) { a.told(text + "; look at them and decide: " + a.hint("trust")) }
	a.cfg.Warn = func(text string) {
		if !a.set.Quiet {
			a.tty.Warn(text)
		}
	}
	a.as = a.cfg.Settings
	a.opened, a.wrong = host.Open(context.Background(), &a.cfg)
}

// host returns the host of the program with the current settings.
func (a *app) host() *host.Host {
	if s := a.chosen(); s != a.as {
		a.opened, a.as = a.opened.With(s), s
	}
	return a.opened
}

// chosen returns the settings from the flags, the variables and the configuration.
func (a *app) chosen() host.Settings {
	userModel := ""
	if m := a.config().Setting("model"); m != nil {
		userModel = m.Value
	}
	rules, _ := a.set.leave.rules() // they were checked
	return host.Settings{
		DataDir: a.set.dataDir, Store: a.set.store, Origin: storeOrigin(a), KeyFile: a.set.keyFile, Volatile: a.set.volatile, Offline: a.set.offline, OTel: a.set.otel,
		Model: a.set.model, UserModel: userModel, TurnTimeout: a.set.turn, Concurrency: a.set.width, AgentProcesses: a.set.processes, Rules: rules,
		OnAsk: a.set.leave.onAsk, Headless: a.set.leave.headless, TrustProject: a.set.leave.trustProject, Replay: a.replays, Fresh: a.lives, Guest: a.set.guest, Yes: a.set.yes, Worker: a.worker,
	}
}

// told prints the host's notices about a run that begins or a project that is started, each once: every agent of a run starts the project's tools.
func (a *app) told(text string) {
	if a.set.Quiet || !a.starts && (a.current == "" || a.programs()) {
		return
	}
	if _, again := a.notices.LoadOrStore(text, true); !again {
		a.tty.Notify(transcript.Line(text))
	}
}

// run runs the command that the arguments name, and prints its error.
func (a *app) run(ctx context.Context) (code int) {
	if a.wrong != nil {
		a.early()
		return a.fail(a.wrong)
	}
	defer func() {
		if err := a.opened.Close(); err != nil && code == ExitOK {
			a.fail(err)
			code = ExitFailed
		}
	}()
	root := newRoot(a)
	root.SetArgs(a.opt.Args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return ExitOK
	}
	a.early()
	if e := classify(err); e.shown {
		return e.Exit
	}
	return a.fail(err)
}

// engine opens the store and returns an engine over the workflows, of which one is about to run.
func (a *app) engine(ctx context.Context, runs string, opt *host.EngineOptions) (*superstep.Engine, error) {
	a.current = runs
	if opt == nil || !opt.Look {
		loadWorkflows(a)
	}
	e, err := a.host().Engine(ctx, opt)
	if err != nil {
		return nil, err
	}
	a.store, err = a.host().Store(ctx, true)
	return e, err
}

// looking returns an engine for looking at runs only.
func (a *app) looking(ctx context.Context) (*superstep.Engine, error) {
	return a.engine(ctx, "", &host.EngineOptions{Look: true})
}

// kept reports whether runs outlive the command.
func (a *app) kept() bool {
	return a.host().Kept() && !demo.Running(a.cfg.Env)
}

// file returns the file of this program.
func (a *app) file() (string, error) {
	if a.opt.Program != "" {
		return a.opt.Program, nil
	}
	return os.Executable()
}

// again returns a command of this program for another process, in the same folder and environment.
func (a *app) again(ctx context.Context, args ...string) (*exec.Cmd, error) {
	file, err := a.file()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, file, args...)
	cmd.Dir, cmd.Env = a.cfg.Dir, a.environ()
	return cmd, nil
}

// environ returns the environment of commands in the folder to work in.
func (a *app) environ() []string { return append(slices.Clip(a.cfg.Environ), "PWD="+a.cfg.Dir) }

// program returns the name of this program as users call it.
func (a *app) program() string {
	if exe, err := a.file(); err == nil {
		if build, ok := debug.ReadBuildInfo(); ok && byGo(exe) && build.Path != "command-line-arguments" {
			return "go run " + build.Path
		}
	}
	return a.cfg.Name
}

// hint returns a command to type next, with the flags that make it refer to the same store.
func (a *app) hint(words ...string) string {
	s := a.program() + " " + strings.Join(words, " ")
	if a.set.dataDir != "" && a.set.dataDir != a.cfg.Env("SUPERSTEP_DATA_DIR") {
		s += " --data-dir " + clean.Shell(a.set.dataDir)
	}
	if p, err := a.host().Place(); err == nil && a.set.store != "" && storeOrigin(a) == "--store" {
		s += " --store " + clean.Shell(p.String())
	}
	if a.set.keyFile != "" && a.set.keyFile != a.cfg.Env("SUPERSTEP_STORE_KEY_FILE") {
		s += " --store-key-file " + clean.Shell(a.set.keyFile)
	}
	return s
}

// byGo reports whether an executable was made by `go run`, so that its name is no command: it lies in a folder for the build, or in the build cache,
// whatever that is called, under 4f/4f…-d.
func byGo(exe string) bool {
	dir := path.Dir(filepath.ToSlash(exe))
	cached := strings.HasSuffix(dir, "-d") && len(path.Base(path.Dir(dir))) == 2 && strings.HasPrefix(path.Base(dir), path.Base(path.Dir(dir)))
	return cached || !strings.HasSuffix(strings.TrimSuffix(exe, ".exe"), ".test") && strings.Contains(dir, "/go-build")
}

// programs reports whether the output is for programs.
func (a *app) programs() bool { return a.set.output != "text" }

// print writes a value for programs, or a text for people.
func (a *app) print(v any, text string) error {
	if a.programs() {
		return a.out.value(v)
	}
	a.out.line(text)
	return nil
}

// tell writes a value for programs, or a line for people that is no result.
func (a *app) tell(v any, text string) error {
	if a.programs() {
		return a.out.value(v)
	}
	a.err.line(text)
	return nil
}

// look examines the streams once the flags are known.
func (a *app) look() {
	a.out.format, a.err.format = a.set.output, a.set.output
	a.set.Programs, a.set.Heartbeat = a.programs(), a.opt.heartbeat
	if demo.Running(a.cfg.Env) {
		a.set.Patience = demo.Patience
	}
	a.tty.Look(&a.set.Settings)
}

// stoppable returns a context that ends at the first request to stop, after calling then, or when nobody
// reads the output any more. Call done to release it.
func (a *app) stoppable(ctx context.Context, then func()) (_ context.Context, done func()) {
	ctx, stop := context.WithCancelCause(context.WithoutCancel(ctx)) // whose end is one of the requests
	a.out.broken = func() { stop(errPipe) }
	end := a.stops(func(why *signals.Error) {
		stop(why)
		then()
	})
	return ctx, func() {
		end()
		stop(nil)
	}
}
