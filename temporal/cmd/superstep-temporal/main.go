// Command superstep-temporal executes Superstep's workflows under Temporal.
//
//	superstep-temporal worker [--place gpu,acp] [--single]
//	superstep-temporal start WORKFLOW [INPUT...] [--id ID] [--place gpu]
//
// The store, the models and the project are those of superstep, by its configuration and the variables SUPERSTEP_*.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	"go.temporal.io/sdk/log"
	sdk "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/arguments"
	"github.com/superstep-dev/superstep/runlog/stores"
	"github.com/superstep-dev/superstep/temporal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// flags are those of both commands.
type flags struct {
	client.Options
	place  []string
	dirs   []string
	id     string
	single bool
	grace  time.Duration
	out    io.Writer
	notes  io.Writer
}

// run returns the exit code: 2 for mistakes in the arguments, 1 for all others.
func run(ctx context.Context, args []string, out, notes io.Writer) int {
	o, err := envconfig.LoadDefaultClientOptions()
	if err != nil {
		fmt.Fprintln(notes, "error: Temporal's configuration:", err)
		return 1
	}
	o.HostPort, o.Namespace = cmp.Or(o.HostPort, "127.0.0.1:7233"), cmp.Or(o.Namespace, "default")
	f := flags{Options: o, out: out, notes: notes}
	begun := false
	root := &cobra.Command{
		Use: "superstep-temporal", Short: "Execute Superstep's workflows under Temporal", SilenceUsage: true, SilenceErrors: true,
		Long: `Execute Superstep's workflows under Temporal

The store, the models and the project are those of superstep: its configuration, the folder and the
variables SUPERSTEP_*. The connection is that of temporal: its configuration and the variables TEMPORAL_*,
such as TEMPORAL_ADDRESS, TEMPORAL_API_KEY and TEMPORAL_TLS.`,
		PersistentPreRun: func(*cobra.Command, []string) { begun = true },
	}
	root.PersistentFlags().StringVar(&f.HostPort, "address", f.HostPort, "the `HOST:PORT` of Temporal")
	root.PersistentFlags().StringVar(&f.Namespace, "namespace", f.Namespace, "the `NAME` of Temporal's namespace")
	work := &cobra.Command{
		Use: "worker", Short: "Execute runs until stopped", Args: cobra.NoArgs,
		Example: "  superstep-temporal worker --address temporal:7233\n  superstep-temporal worker --place gpu,acp\n  superstep-temporal worker --single     with a store of this machine",
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.work(cmd.Context()) },
	}
	work.Flags().StringSliceVar(&f.place, "place", nil, "the `LABELS` of this worker, such as gpu,acp, at most 4")
	work.Flags().StringArrayVar(&f.dirs, "dir", nil, "a `FOLDER` whose runs it executes, with all below it; defaults to the current one (may be repeated)")
	work.Flags().BoolVar(&f.single, "single", false, "permit SQLite and files: this is the only worker")
	work.Flags().DurationVar(&f.grace, "grace", 20*time.Second, "how long running tasks may go on when the worker is stopped")
	start := &cobra.Command{
		Use: "start WORKFLOW [INPUT...]", Short: "Start a run and print its ID", Args: cobra.MinimumNArgs(1),
		Long: `Start a run and print its ID

The run is created in the store, and a worker executes it. Inputs are given as for superstep run: free
text, key=value, or - for standard input.`,
		Example: "  superstep-temporal start research \"Why segments?\" --id why-segments\n  superstep-temporal start research question=\"Why segments?\" --place gpu",
		RunE:    f.start,
	}
	start.Flags().StringSliceVar(&f.place, "place", nil, "the `LABELS` that the run's worker must have, such as gpu,acp")
	start.Flags().StringVar(&f.id, "id", "", "the `ID` of the run; a second start with it starts nothing")
	root.AddCommand(work, start)
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(notes)
	f.Logger = log.NewStructuredLogger(logger(notes))
	cmd, err := root.ExecuteContextC(ctx)
	switch {
	case err == nil:
		return 0
	case !begun:
		fmt.Fprintf(notes, "error: %v\nSee %s --help\n", err, cmd.CommandPath())
		return 2
	}
	fmt.Fprintln(notes, "error:", err)
	return 1
}

func (f *flags) note(text string) { fmt.Fprintln(f.notes, text) }

// open opens the host; with a worker, that of one.
func (f *flags) open(ctx context.Context, w host.Worker) (*host.Host, error) {
	return host.Open(ctx, &host.Config{
		Name: "superstep", Stores: stores.All(), Notice: f.note, Warn: f.note, Settings: host.Settings{Headless: true, Fresh: true, Worker: w},
	})
}

func (f *flags) dial(ctx context.Context) (client.Client, error) {
	c, err := client.DialContext(ctx, f.Options)
	if err != nil {
		return nil, fmt.Errorf("no Temporal answers at %s: name its address with --address HOST:PORT: %w", f.HostPort, err)
	}
	_, err = c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: f.Namespace})
	if errors.As(err, new(*serviceerror.NamespaceNotFound)) {
		c.Close()
		return nil, fmt.Errorf("there is no namespace %s at %s: name another with --namespace, or create it: temporal operator namespace create --namespace %[1]s", f.Namespace, f.HostPort)
	}
	return c, nil
}

func (f *flags) work(ctx context.Context) error {
	queues, err := temporal.Queues("", f.place)
	if err != nil {
		return err
	}
	if len(f.dirs) == 0 {
		f.dirs = []string{"."}
	}
	for i := range f.dirs {
		if f.dirs[i], err = filepath.Abs(f.dirs[i]); err != nil {
			return err
		}
	}
	h, err := f.open(ctx, host.Worker{Dirs: strings.Join(f.dirs, "\n"), Shared: true}) // whoever reaches Temporal starts runs and answers
	if err != nil {
		return err
	}
	defer func() { _ = h.Close() }()
	place, err := h.Place()
	if err != nil {
		return err
	}
	if kind := place.Kind; !f.single && kind != "postgres" && kind != "redis" {
		return fmt.Errorf("other workers cannot read the store %s: set SUPERSTEP_STORE to postgres://…, or use --single if this is the only worker", kind)
	}
	e, err := h.Engine(ctx, nil)
	if err != nil {
		return err
	}
	defer e.Close()
	c, err := f.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	var workers []worker.Worker
	for _, queue := range queues {
		w := worker.New(c, queue, worker.Options{WorkerStopTimeout: f.grace + 5*time.Second})
		temporal.Register(w, e, &temporal.Options{Grace: f.grace})
		if err := w.Start(); err != nil {
			return err
		}
		workers = append(workers, w)
	}
	f.note(fmt.Sprintf("serving %s for Temporal's task queues %s; ^C stops at a safe point", place, strings.Join(queues, ", ")))
	<-ctx.Done()
	f.note(fmt.Sprintf("stopping: running tasks have %s", f.grace))
	var all sync.WaitGroup
	for _, w := range workers {
		all.Go(w.Stop)
	}
	all.Wait()
	return nil
}

func (f *flags) start(cmd *cobra.Command, words []string) error {
	ctx := cmd.Context()
	h, err := f.open(ctx, host.Worker{})
	if err != nil {
		return err
	}
	defer func() { _ = h.Close() }()
	w, err := h.Ready(words[0])
	if err != nil {
		if item := h.Untrusted(err); item != nil {
			err = fmt.Errorf("%w\n  • look at it and decide: superstep trust %s", err, item.Name)
		}
		return err
	}
	inputs, err := (&arguments.Given{Words: words[1:], Flags: cmd.Flags(), Stdin: os.Stdin}).Inputs(w)
	if err != nil {
		return err
	}
	c, err := f.dial(ctx) // before there is a run that nobody executes
	if err != nil {
		return err
	}
	defer c.Close()
	e, err := h.Engine(ctx, nil)
	if err != nil {
		return err
	}
	defer e.Close()
	id, err := temporal.Start(ctx, c, w.Name, inputs, &temporal.StartOptions{ID: f.id, Place: f.place, Engine: e})
	if err == nil {
		_, err = fmt.Fprintln(f.out, id)
	}
	return err
}

func logger(notes io.Writer) *slog.Logger {
	return slog.New(filter{slog.NewTextHandler(notes, &slog.HandlerOptions{Level: slog.LevelWarn}), &said{notes: notes, last: map[string]string{}}})
}

// filter prints the errors of activities in words, once for each run and text: an activity is attempted until it succeeds, and Temporal shows its attempts.
type filter struct {
	slog.Handler
	said *said
}

// said is what a filter has printed last about runs.
type said struct {
	mu    sync.Mutex
	notes io.Writer
	last  map[string]string
}

func (f filter) Handle(ctx context.Context, r slog.Record) error {
	if r.Message != "Activity error." {
		return f.Handler.Handle(ctx, r)
	}
	var id, text string
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "WorkflowID":
			id = a.Value.String()
		case "Error":
			text = a.Value.String()
			err, _ := a.Value.Any().(error)
			if app, ok := errors.AsType[*sdk.ApplicationError](err); ok {
				text = app.Message()
			}
		}
		return true
	})
	f.said.mu.Lock()
	defer f.said.mu.Unlock()
	if f.said.last[id] == text {
		return nil
	}
	if len(f.said.last) > 1000 {
		clear(f.said.last)
	}
	f.said.last[id] = text
	_, err := fmt.Fprintf(f.said.notes, "%s run %s: %s\n", r.Time.Format(time.TimeOnly), id, text)
	return err
}

func (f filter) WithAttrs(attrs []slog.Attr) slog.Handler {
	return filter{f.Handler.WithAttrs(attrs), f.said}
}
