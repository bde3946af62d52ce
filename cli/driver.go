package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/internal/events"
	"github.com/superstep-dev/superstep/internal/strict"
	"github.com/superstep-dev/superstep/runlog"
)

// driven is the value of --input by which a program drives the run.
const driven = "jsonl"

// longestOrder bounds a line of the input; an answer in a run has a limit below that.
const longestOrder = 1 << 20

// checkInput finds the mistakes about --input jsonl.
func (r *running) checkInput(a *app) error {
	switch {
	case r.input == "":
	case r.input != driven:
		return oneOf("--input", r.input, driven)
	case a.set.output != driven:
		return usage("--input jsonl needs -o jsonl")
	case a.set.NoInput:
		return usage("--input jsonl reads standard input, which --no-input forbids")
	}
	return nil
}

// A driver carries out what a program wants of the run that it follows.
type driver struct {
	engine *superstep.Engine
	in     io.Reader
	events *events.Stream
	id     string
	ctx    context.Context // of the run
	stop   context.CancelFunc
	end    chan struct{} // closed with the input
}

// An order is a line of the input.
type order struct {
	Type   string          `json:"type"` // answer, deny, steer, pause or cancel
	Text   string          `json:"text"` // of steer
	Task   string          `json:"task"`
	Key    *string         `json:"key"` // without it, an answer could be to another question than its sender has seen
	Answer json.RawMessage `json:"answer"`
	Output json.RawMessage `json:"output"` // see runlog.Answer
}

// newDriver returns the driver of a job, nil if no program drives it.
func newDriver(a *app, j *job, stream *events.Stream) *driver {
	if j.flags.input == "" {
		return nil
	}
	return &driver{engine: j.engine, in: a.opt.Stdin, events: stream, end: make(chan struct{})}
}

// ended is closed once nothing comes any more; it is nil for no driver.
func (d *driver) ended() <-chan struct{} {
	if d == nil {
		return nil
	}
	return d.end
}

// start reads the input. Who reads cannot be stopped: it ends with the input, or with the process.
func (d *driver) start(ctx context.Context, id string) {
	if d == nil {
		return
	}
	d.id = id
	d.ctx, d.stop = context.WithCancel(ctx)
	go func() {
		defer close(d.end)
		in := bufio.NewReaderSize(d.in, longestOrder)
		for n := 1; d.ctx.Err() == nil; n++ {
			line, err := in.ReadSlice('\n')
			long := errors.Is(err, bufio.ErrBufferFull)
			for errors.Is(err, bufio.ErrBufferFull) { // the rest of it is of no use
				_, err = in.ReadSlice('\n')
			}
			if line = bytes.TrimSpace(line); long {
				d.refuse(n, fmt.Errorf("the line is longer than %d bytes", longestOrder))
			} else if len(line) > 0 {
				d.take(n, line)
			}
			if err != nil {
				return
			}
		}
	}()
}

// finish has nothing more of the input carried out.
func (d *driver) finish() {
	if d != nil {
		d.stop()
	}
}

// take carries out the nth line.
func (d *driver) take(n int, line []byte) {
	o, err := parseOrder(line)
	switch {
	case err != nil:
	case o.Type == "pause": // which takes until all that runs has ended; other lines do not wait for that
		go func() { d.refuse(n, d.engine.Pause(d.ctx, d.id, "program")) }()
		return
	case o.Type == "steer": // which takes until the agent reads it
		go func() { d.refuse(n, d.engine.Steer(d.ctx, d.id, o.Task, o.Text)) }()
		return
	case o.Type == "cancel":
		err = d.engine.Cancel(d.ctx, d.id)
	default:
		given := &runlog.Answer{Key: *o.Key, Value: o.Answer, Output: o.Output, Denied: o.Type == "deny", By: "program"}
		err = d.engine.Answer(d.ctx, d.id, o.Task, given)
	}
	d.refuse(n, err)
}

// refuse tells that the nth line changed nothing, and why. It tells nothing once the run is over, or for no error.
func (d *driver) refuse(n int, err error) {
	if err == nil || d.ctx.Err() != nil {
		return
	}
	d.events.Put(&events.Event{Run: d.id, Type: "input.refused", Data: refusedLine{n, err.Error()}}, time.Now())
}

// refusedLine is the data of the event input.refused.
type refusedLine struct {
	Line  int    `json:"line"` // from 1
	Error string `json:"error"`
}

func parseOrder(line []byte) (*order, error) {
	var o order
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&o); err != nil {
		return nil, fmt.Errorf("the line is no order, which is a JSON object such as {\"type\":\"pause\"}: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("the line has more than one JSON value")
	}
	v, err := strict.Decode(line) // a field that is there twice, or nearly, could be another for whoever looks at the line before
	if err != nil {
		return nil, fmt.Errorf("the line is no order: %w", err)
	}
	fields, _ := v.(map[string]any)
	for name := range fields {
		if !slices.Contains([]string{"type", "text", "task", "key", "answer", "output"}, name) {
			return nil, fmt.Errorf("the line is no order: there is no field %q", name)
		}
	}
	about := o.Task != "" || o.Key != nil
	if o.Text != "" && o.Type != "steer" {
		return nil, fmt.Errorf("only steer has the field \"text\", and this is %s", o.Type)
	}
	switch o.Type {
	case "answer":
		if o.Task == "" || o.Key == nil || o.Answer == nil {
			return nil, errors.New(`an answer needs "task", "key" and "answer"`)
		}
	case "deny":
		if o.Task == "" || o.Key == nil || o.Answer != nil || o.Output != nil {
			return nil, errors.New(`a denial needs "task" and "key", and no "answer"`)
		}
	case "steer":
		if strings.TrimSpace(o.Text) == "" || o.Key != nil || o.Answer != nil || o.Output != nil {
			return nil, errors.New(`a message to an agent needs "text", and "task" unless it is for the lead`)
		}
	case "pause", "cancel":
		if about || o.Answer != nil || o.Output != nil {
			return nil, fmt.Errorf("%s is about the whole run and has no other fields", o.Type)
		}
	default:
		return nil, fmt.Errorf("type: want answer, deny, steer, pause or cancel, got %q", o.Type)
	}
	return &o, nil
}
