package graph

import (
	"slices"
	"sync"
)

// closing tells the graphs inside of a graph's tasks to begin nothing new, once the graph or one
// around it has failed for good, or the run is stopped.
type closing struct {
	mu     sync.Mutex
	done   chan struct{}
	closed bool
	inside []*closing // of the graphs that run inside
}

// closingIn returns the closing of a graph, until end is called. One that is not inside of another, so
// that the outer one is nil, closes once the run is stopped.
func closingIn(outer *closing, stop <-chan struct{}) (in *closing, end func()) {
	in = &closing{done: make(chan struct{})}
	if outer == nil {
		return in, in.follow(stop)
	}
	outer.mu.Lock()
	defer outer.mu.Unlock()
	if outer.inside = append(outer.inside, in); outer.closed {
		in.close()
	}
	return in, func() {
		outer.mu.Lock()
		defer outer.mu.Unlock()
		outer.inside = slices.DeleteFunc(outer.inside, func(other *closing) bool { return other == in })
	}
}

// follow closes once stop is closed, until end is called.
func (c *closing) follow(stop <-chan struct{}) (end func()) {
	if stop == nil {
		return func() {}
	}
	var waits sync.WaitGroup
	ended := make(chan struct{})
	waits.Go(func() {
		select {
		case <-stop:
			c.close()
		case <-ended:
		}
	})
	return func() { close(ended); waits.Wait() }
}

func (c *closing) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.closed = true
	close(c.done)
	for _, in := range c.inside {
		in.close()
	}
}

// over returns a channel that is closed with it, or nil for none.
func (c *closing) over() <-chan struct{} {
	if c == nil {
		return nil
	}
	return c.done
}

// orElse is over, or the channel for none.
func (c *closing) orElse(stop <-chan struct{}) <-chan struct{} {
	if c == nil {
		return stop
	}
	return c.done
}

// haltedError is the error of a graph inside of a task that was stopped.
type haltedError struct{ error }

// Stopped reports that nothing has failed, so that a journal records no failure.
func (*haltedError) Stopped() bool { return true }

func (e *haltedError) Unwrap() error { return e.error }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Beside returns the options to run another graph in the journal of the run, at a path that no task
// of the run has.
func (o *RunOptions) Beside(path string) *RunOptions {
	other := *o
	other.MaxSteps, other.Ended, other.space = 0, nil, path
	return &other
}
