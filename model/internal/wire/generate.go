package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync/atomic"

	"github.com/superstep-dev/superstep/model"
)

// A Turn is one turn in the protocol of a provider. Its methods are called one after the
// other, on the goroutine that ranges over the turn. An attempt is a Post, the events of
// its answer, and an End unless the stream broke off.
type Turn interface {
	// Post begins an attempt: it discards the results of the last one and returns the request to
	// send.
	Post() (*Post, error)
	// Event takes the next event. [ErrDone] says that it was the last one, whatever follows it.
	Event(ev *Event, out *Out) error
	// End is called when the stream has ended, and yields the parts that waited for that, usually
	// by [Out.Finish]. marked is set if the stream itself ended, by ErrDone or "[DONE]", and not
	// only the connection.
	End(marked bool, out *Out) error
	// Relax is called after a failure that would end the turn. It may remove something that the
	// server does not support; it returns true if it changed the request.
	Relax(fail *model.Error) bool
}

// A Post is what a turn sends.
type Post struct {
	Path   string            // after the base URL, such as "/chat/completions", with a query if there is one
	Header map[string]string // beside those that all have: types, encoding, keys, idempotency
	Body   []byte            // JSON
}

const maxID = 200

var errStopped = errors.New("the reader broke off")

// Generate streams one turn, as [model.Model] says. encode is called once, when the
// sequence is ranged over; its error says what is wrong with the request.
func (c *Client) Generate(ctx context.Context, req *model.Request, encode func() (Turn, error)) iter.Seq2[model.Part, error] {
	var ranged atomic.Bool
	return func(yield func(model.Part, error) bool) {
		if ranged.Swap(true) {
			yield(model.Part{}, c.fault(model.CodeRequest, "the stream was ranged over a second time; call Generate again"))
			return
		}
		if req == nil {
			yield(model.Part{}, c.fault(model.CodeRequest, "the request is nil"))
			return
		}
		turn, err := encode()
		if err != nil {
			yield(model.Part{}, c.fault(model.CodeRequest, err.Error()))
			return
		}
		caller := ctx
		if c.config.Timeout > 0 {
			var stop context.CancelFunc
			ctx, stop = context.WithTimeoutCause(ctx, c.config.Timeout, errTimeout)
			defer stop()
		}
		out := &Out{request: req, yield: yield, provider: c.config.Provider}
		for n := 1; ; n++ {
			err := c.attempt(ctx, caller, turn, out)
			if err == nil || errors.Is(err, errStopped) {
				return
			}
			fail := c.classify(err)
			if !c.again(ctx, n, fail, turn, out) {
				if caller.Err() != nil {
					fail = c.canceled(caller)
				}
				yield(model.Part{}, fail)
				return
			}
		}
	}
}

// again decides whether attempt n, which failed, is followed by another, and waits.
func (c *Client) again(ctx context.Context, n int, fail *model.Error, turn Turn, out *Out) bool {
	if out.parts > 0 {
		return false
	}
	wait, again := c.nextWait(n, fail)
	if !again && turn.Relax(fail) {
		wait, again = 0, n < max(c.config.Retries, 1)
	}
	if again && wait > 0 && out.request.Retrying != nil {
		out.request.Retrying(fail, wait)
	}
	return again && sleep(ctx, wait)
}

// attempt sends the request once and feeds the turn.
func (c *Client) attempt(ctx, caller context.Context, turn Turn, out *Out) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p := &exchange{client: c, key: out.request.Key, trace: out.request.Trace, watch: newWatchdog(c.config.IdleTimeout, cancel)}
	defer p.watch.stop()
	defer func() { // the server's name for the attempt, once it has one, is in all its errors
		if err != nil && !errors.Is(err, errStopped) {
			fail := c.classify(err)
			p.identify(fail)
			err = fail
		}
	}()

	out.size, out.moved, out.marks = 0, false, marks{}
	post, err := turn.Post()
	if err != nil {
		return c.fault(model.CodeRequest, err.Error())
	}
	if err := p.do(ctx, post); err != nil {
		return c.explain(ctx, caller, err, p)
	}
	defer p.close()
	for idle := 0; ; idle++ {
		ev, err := p.events.next()
		switch {
		case errors.Is(err, io.EOF):
			return turn.End(p.events.done, out)
		case err != nil:
			return c.explain(ctx, caller, err, p)
		}
		if err := turn.Event(ev, out); errors.Is(err, ErrDone) {
			return turn.End(true, out)
		} else if err != nil {
			return err
		}
		if out.moved {
			p.watch.progress()
			out.moved, idle = false, 0
		} else if idle >= maxEmpty {
			return c.fault(model.CodeIdle, fmt.Sprintf("the answer made no progress for %d events on end (events that add nothing to it do not count); "+
				"try again, or use another model or server", maxEmpty))
		}
		if ctx.Err() != nil { // what is buffered already is too late
			return c.explain(ctx, caller, ctx.Err(), p)
		}
	}
}

// ErrDone is returned by [Turn.Event] for the event that ends the stream.
var ErrDone = errors.New("the stream is done")

// An Out yields the parts of a turn.
type Out struct {
	request  *model.Request
	provider string
	yield    func(model.Part, error) bool
	parts    int // yielded, in all attempts
	size     int // of what was said in this one
	moved    bool
	marks    marks // at the beginning of the text of this one
}

// Progress notes progress of the answer, so that it does not count as idle. Yielded or kept parts
// count by themselves; the bytes of an event that adds nothing do not.
func (o *Out) Progress() { o.moved = true }

// Request returns the request being answered.
func (o *Out) Request() *model.Request { return o.request }

// Grow counts n bytes that are kept for later, such as arguments of calls, towards the size limit
// of a turn.
func (o *Out) Grow(n int) error {
	o.moved = o.moved || n > 0
	if o.size += n; o.size > maxContent {
		return fmt.Errorf("%w: the turn says more than %d MiB; lower the output limit", errTooLarge, maxContent>>20)
	}
	return nil
}

// Emit yields a part as it is. Its error, when the reader broke off, must be returned.
func (o *Out) Emit(p model.Part) error {
	o.parts++
	o.moved = true
	if !o.yield(p, nil) {
		return errStopped
	}
	return nil
}

// An Ending is how a turn ended.
type Ending struct {
	Reason string         // the provider's word for it
	Stop   model.StopCode // what it means
	// Held are the parts that waited for the end: the collected calls, whose arguments may be
	// missing or broken and whose ids may be missing or duplicate, and the text between them.
	Held  []model.Part
	Usage model.Usage // yielded unless it is zero
	ID    string      // the provider's name for the response, "" if it has none
}

// Finish checks the calls and yields them, the usage and the stop. If a turn reached its token
// limit within its calls, or if a call is incomplete, Finish returns an error.
func (o *Out) Finish(e Ending) error {
	if err := o.read("", true); err != nil {
		return err
	}
	parts, calls, err := o.checkCalls(e.Held)
	switch {
	case calls > 0 && (e.Stop == model.StopLength || e.Stop == model.StopFilter):
		return cutCallError(fmt.Sprintf("the turn ended with %q among its tool calls, so none of them is used; raise the output limit or ask for less at once",
			Clip(e.Reason, 40)))
	case calls > 0:
		e.Stop = model.StopCalls // some servers say "stop"
	case e.Stop == model.StopCalls:
		return BadCall(fmt.Sprintf("the turn ended with %q but has no tool calls", Clip(e.Reason, 40)))
	}
	if err != nil {
		return err
	}
	if e.Usage != (model.Usage{}) {
		parts = append(parts, model.Part{Kind: model.UsagePart, Usage: &e.Usage})
	}
	if o.request.Answered != nil {
		o.request.Answered(model.Origin{Provider: o.provider, ID: Clip(e.ID, maxID)})
	}
	for _, p := range append(parts, model.Part{Kind: model.Stop, Stop: e.Stop}) {
		if err := o.Emit(p); err != nil {
			return err
		}
	}
	return nil
}
