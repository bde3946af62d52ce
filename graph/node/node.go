// Package node has the usual kinds of nodes as ready-made values: agents, tools, routers,
// fan-in, branches side by side, waiting, and care of a conversation.
//
//	g.AddNode(node.Agent("plan", planner, prompt, update))
//	g.AddNode(node.Tool("lint", tools, "lint", node.Args[state]{Paths: map[string]string{"path": "file"}}, update))
//
// Each function returns a [graph.Node], whose other settings (Retry, Timeout, Reads, …) are the
// caller's to set. Its side effects and questions are recorded as effects in the run's log, so that
// they are not repeated when the node is run again after a crash or for another attempt. A mistake
// that is known when the node is created is kept in its Err field, and Compile reports it.
package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/pregel"
	"github.com/superstep-dev/superstep/journal"
)

// missing returns the error for a required function that was left out.
func missing(what string, is bool) error {
	if !is {
		return nil
	}
	return fmt.Errorf("its %s is nil", what)
}

// decoded returns the decoded JSON of a state, which paths are applied to.
func decoded(state any) (any, error) {
	b, err := json.Marshal(state)
	if err != nil {
		return nil, fmt.Errorf("the state cannot be encoded: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	err = d.Decode(&v)
	return v, err
}

// at returns the value at a path: field names and list indexes from 0, separated by dots.
func at(v any, path string) (any, bool) {
	for name := range strings.SplitSeq(path, ".") {
		switch in := v.(type) {
		case map[string]any:
			next, ok := in[name]
			if !ok {
				return nil, false
			}
			v = next
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(in) {
				return nil, false
			}
			v = in[i]
		default:
			return nil, false
		}
	}
	return v, true
}

// each does n pieces of work of a task, at most width of them at once, and returns one error per
// piece. No further work begins after a failure. One that waits for an answer lets the others have
// its place, and takes one again to continue.
func each(ctx context.Context, t *graph.Task, n, width int, part func(i int) *journal.Scope, work func(i int) error) []error {
	errs := make([]error, n)
	var stop atomic.Bool
	var group sync.WaitGroup
	slots := make(chan struct{}, max(1, min(width, n)))
	branches := journal.NewBranches(n)
	for i := range n {
		slots <- struct{}{}
		if stop.Load() {
			for range n - i {
				branches.End()
			}
			<-slots
			break
		}
		group.Go(func() {
			errs[i] = branches.Run(ctx, part(i), stopped(t), func(again bool) error {
				leave := func() { <-slots }
				if again {
					leave = func() {}
					_ = t.Scope().Afresh(func() error { // in a replay, those that have places may wait for it
						slots <- struct{}{}
						leave = func() { <-slots }
						return nil
					})
				}
				defer func() { leave() }()
				err := safely(func() error { return work(i) })
				if err != nil && !journal.Waits(err) {
					stop.Store(true)
				}
				return err
			})
		})
	}
	group.Wait()
	return errs
}

// safely creates an error from a panic, and for work that ends its goroutine.
func safely(work func() error) (err error) {
	err = pregel.ErrGone
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if v := recover(); v != nil {
				err = &graph.PanicError{Value: v, Stack: debug.Stack()}
			}
		}()
		err = work()
	}()
	<-done
	return err
}

// verdict returns the error of parallel work: the failures in order, or, if nothing failed, the
// reasons why the work waits.
func verdict(errs []error) error {
	var failed, waiting []error
	for _, err := range errs {
		switch {
		case err == nil:
		case journal.Waits(err):
			waiting = append(waiting, err)
		default:
			failed = append(failed, err)
		}
	}
	if failed != nil {
		return errors.Join(failed...)
	}
	return errors.Join(waiting...)
}
