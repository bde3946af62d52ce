// Command superstep-temporal executes Superstep's workflows under Temporal.
//
//	superstep-temporal worker [--address HOST:PORT] [--namespace NAME] [--place gpu,acp] [--single]
//	superstep-temporal start WORKFLOW [INPUTS as JSON] [--id ID] [--place gpu] [--address HOST:PORT] [--namespace NAME]
//
// The store, the models and the project are those of superstep, by its configuration and the variables SUPERSTEP_*.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"

	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/runlog/stores"
	"github.com/superstep-dev/superstep/temporal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

const usage = `Execute Superstep's workflows under Temporal

  superstep-temporal worker
  superstep-temporal start WORKFLOW [INPUTS]

INPUTS are a JSON object. The store, the models and the project are those of superstep: its configuration, the folder and the variables SUPERSTEP_*.
`

// flags are those of both commands.
type flags struct {
	client.Options
	place, id string
	single    bool
	grace     time.Duration
}

func run(ctx context.Context, args []string, out, notes io.Writer) error {
	var f flags
	set := flag.NewFlagSet("superstep-temporal", flag.ContinueOnError)
	set.SetOutput(notes)
	set.Usage = func() {
		fmt.Fprint(notes, usage, "\n")
		set.PrintDefaults()
	}
	set.StringVar(&f.HostPort, "address", "127.0.0.1:7233", "the `address` of Temporal")
	set.StringVar(&f.Namespace, "namespace", "default", "the namespace of Temporal")
	set.StringVar(&f.place, "place", "", "the labels of this worker, or those that the run needs, such as gpu,acp")
	set.StringVar(&f.id, "id", "", "start: the ID of the run; a second start with it starts nothing")
	set.BoolVar(&f.single, "single", false, "worker: it is the only one, so a store of this machine will do")
	set.DurationVar(&f.grace, "grace", 20*time.Second, "worker: how long running tasks may go on when it is stopped")
	var words []string
	for rest := args; ; { // flags may follow words
		if err := set.Parse(rest); err != nil {
			return err
		}
		if set.NArg() == 0 {
			break
		}
		words, rest = append(words, set.Arg(0)), set.Args()[1:]
	}
	f.Logger = log.NewStructuredLogger(slog.New(slog.NewTextHandler(notes, &slog.HandlerOptions{Level: slog.LevelWarn})))
	switch {
	case len(words) == 1 && words[0] == "worker":
		return work(ctx, &f, notes)
	case len(words) > 1 && len(words) < 4 && words[0] == "start":
		return start(ctx, &f, words[1:], out)
	}
	set.Usage()
	return flag.ErrHelp
}

func (f *flags) labels() []string {
	return strings.FieldsFunc(f.place, func(r rune) bool { return r == ',' })
}

func work(ctx context.Context, f *flags, notes io.Writer) error {
	queues, err := temporal.Queues("", f.labels())
	if err != nil {
		return err
	}
	note := func(text string) { fmt.Fprintln(notes, text) }
	h, err := host.Open(ctx, &host.Config{Name: "superstep", Stores: stores.All(), Settings: host.Settings{Headless: true, Fresh: true, Notice: note, Warn: note}})
	if err != nil {
		return err
	}
	defer func() { _ = h.Close() }()
	place, err := h.Place()
	if err != nil {
		return err
	}
	if kind := place.Kind; !f.single && kind != "postgres" && kind != "redis" {
		return fmt.Errorf("the store %s is of this machine, and other workers would not find the runs: set SUPERSTEP_STORE to postgres://…, or use --single for the only worker there is", kind)
	}
	e, err := h.Engine(ctx, nil)
	if err != nil {
		return err
	}
	defer e.Close()
	c, err := client.DialContext(ctx, f.Options)
	if err != nil {
		return fmt.Errorf("temporal at %s: %w", f.HostPort, err)
	}
	defer c.Close()
	var workers []worker.Worker
	defer func() {
		for _, w := range workers {
			w.Stop()
		}
	}()
	for _, queue := range queues {
		w := worker.New(c, queue, worker.Options{WorkerStopTimeout: f.grace + 5*time.Second})
		temporal.Register(w, e, &temporal.Options{Grace: f.grace})
		if err := w.Start(); err != nil {
			return err
		}
		workers = append(workers, w)
	}
	note("worker of the queues " + strings.Join(queues, ", ") + "; Ctrl-C stops it")
	<-ctx.Done()
	return nil
}

func start(ctx context.Context, f *flags, words []string, out io.Writer) error {
	c, err := client.DialContext(ctx, f.Options)
	if err != nil {
		return fmt.Errorf("temporal at %s: %w", f.HostPort, err)
	}
	defer c.Close()
	inputs := json.RawMessage("{}")
	if len(words) > 1 {
		inputs = json.RawMessage(words[1])
	}
	if !json.Valid(inputs) {
		return fmt.Errorf("the inputs %.60q are no JSON: write an object such as '{\"question\":\"…\"}'", inputs)
	}
	id, err := temporal.Start(ctx, c, words[0], inputs, &temporal.StartOptions{ID: f.id, Place: f.labels()})
	if err == nil {
		_, err = fmt.Fprintln(out, id)
	}
	return err
}
