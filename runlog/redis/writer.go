package redis

import (
	"context"
	"fmt"
	"time"

	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/storekit"
)

// The largest request to the server, which serves no other client meanwhile.
const (
	maxGroupOps   = 512
	maxGroupBytes = 4 << 20
)

// An op is one write.
type op struct {
	ctx  context.Context
	id   string // of the run
	args []any  // of the script
	size int    // of what is large in them

	// verdict processes the server's answer. It is called by the goroutine that has the turn to
	// write.
	verdict func(r []any) error
	// small writes may use the memory that the server reserves at its maxmemory.
	small bool
	// harmless is set if the op may still be done after its caller was told that it failed.
	harmless bool
	// unsureAt is the place in args of a flag that the write was sent before, 0 for none.
	unsureAt int

	end     time.Time // of patience
	unsure  bool      // it was sent, and may have been done
	reserve bool      // to be done in the server's reserve
	done    chan error

	finished bool
}

// write performs an op: in the calling goroutine if it has the turn to write, or else in the one
// that has it. If ctx ends before the op is sent, nothing is written.
func (s *store) write(ctx context.Context, o *op) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.sound(); err != nil {
		return err
	}
	o.ctx, o.done, o.end = ctx, make(chan error, 1), time.Now().Add(s.patience)
	select {
	case <-s.turn:
		s.serve(o)
	case s.ops <- o:
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closing:
		return s.closedError()
	}
	err := <-o.done
	s.mark()
	return err
}

// mark writes the marker if that is due.
func (s *store) mark() {
	if s.marker.due(time.Now()) {
		_ = s.marker.write(s.remember(), false) // Close says it if that does not work
	}
}

// serve writes an op together with all that wait by then, and passes the turn on. Writes that
// arrive while a group is being sent share the next group. If something panics, the others that
// share the write are told that its outcome is unknown.
func (s *store) serve(o *op) {
	in, size := []*op{o}, o.size
	defer func() {
		for _, o := range in {
			if !o.finished {
				o.finish(fmt.Errorf("writing store %s: %w: something panicked in it", s.name, runlog.ErrUnknown))
			}
		}
		s.turn <- struct{}{}
	}()
	for len(in) < maxGroupOps && size < maxGroupBytes {
		select {
		case o := <-s.ops:
			in, size = append(in, o), size+o.size
			continue
		default:
		}
		break
	}
	s.send(in)
}

func (o *op) finish(err error) {
	o.finished = true
	o.done <- err
}

// send sends ops until the server has answered for each, or there is no more time. A script
// does all of its writes or none, and sees whether one that is sent again was done before.
func (s *store) send(in []*op) {
	var last error // why ops are sent again, nil if that needs no waiting
	for p := (storekit.Backoff{}); len(in) > 0; {
		in = s.drop(in, last)
		if len(in) == 0 {
			return
		}
		s.fail("redis.before-send")
		r, err := s.exec(in)
		if err == nil {
			s.fail("redis.after-send")
			if in, last = s.settle(in, r); last != nil {
				p.Wait(in[0].ctx, s.closing)
			}
			continue
		}
		last = err
		switch faultOf(err) {
		case faultUnclear:
			for _, o := range in {
				o.unsure = true
			}
		case faultOther:
			for _, o := range in {
				o.finish(s.unknown(o, err))
			}
			return
		case faultFull:
			in, last = s.refused(in, err.Error())
		}
		if last != nil {
			p.Wait(in[0].ctx, s.closing)
		}
	}
}

// drop finishes the ops whose callers no longer wait.
func (s *store) drop(in []*op, last error) []*op {
	left := in[:0:0]
	for _, o := range in {
		switch err := o.ctx.Err(); {
		case err != nil && o.unsure:
			o.finish(s.unknown(o, fmt.Errorf("%w while waiting for the server", err)))
		case err != nil:
			o.finish(err)
		case s.isClosing() && last != nil:
			o.finish(s.unknown(o, storekit.ErrClosed))
		case time.Now().After(o.end) && last != nil:
			o.finish(s.unknown(o, &runlog.StorageError{Store: s.name, Err: fmt.Errorf("the server has not answered for %s: %w", s.patience, last)}))
		default:
			left = append(left, o)
		}
	}
	return left
}

// unknown returns the error for an op that was given up, for a reason.
func (s *store) unknown(o *op, why error) error {
	if !o.unsure || o.harmless || s.sound() != nil {
		return s.explain("writing", why)
	}
	return fmt.Errorf("writing store %s: %w: the connection was lost after the write was sent (%w); check the server, then resume the run",
		s.name, runlog.ErrUnknown, why)
}

// exec sends ops as one script.
func (s *store) exec(in []*op) ([]any, error) {
	size, reserve := 0, true
	for _, o := range in {
		size += 1 + len(o.args)
		reserve = reserve && o.reserve
	}
	keys := make([]string, 0, 3+3*len(in))
	keys = append(keys, s.keys.store, s.keys.runs, s.keys.ending, s.keys.queued)
	args := make([]any, 0, 3+size)
	args = append(args, s.id, s.known.Load(), runlog.MaxTakeovers)
	for _, o := range in {
		if o.unsureAt > 0 {
			o.args[o.unsureAt] = flag(o.unsure)
		}
		keys = append(keys, s.keys.run(o.id), s.keys.log(o.id), s.keys.gone(o.id))
		args = append(append(args, len(o.args)), o.args...)
	}
	script := s.scripts.write
	if reserve {
		script = s.scripts.reserve
	}
	return s.client.run(context.Background(), script, keys, args...)
}

// settle finishes the ops that the server has decided, and returns those to be sent again.
func (s *store) settle(in []*op, r []any) (again []*op, why error) {
	if text(r, 0) != "ok" {
		err := s.forget(r)
		for _, o := range in {
			o.finish(err)
		}
		return nil, nil
	}
	s.learn(text(r, 1))
	verdicts, _ := r[2].([]any)
	var full []*op
	said := ""
	for i, o := range in {
		var v []any
		if i < len(verdicts) {
			v, _ = verdicts[i].([]any)
		}
		if text(v, 0) == "full" {
			full, said = append(full, o), text(v, 1)
			continue
		}
		o.finish(o.verdict(v))
	}
	return s.refused(full, said)
}

// refused handles ops for which the server had no memory: small ones may use its reserve, and those
// that may have been done before are checked again.
func (s *store) refused(in []*op, said string) (again []*op, why error) {
	for _, o := range in {
		switch {
		case o.small && !o.reserve:
			o.reserve = true
			again = append(again, o)
		case o.unsure:
			again, why = append(again, o), s.full(said)
		default:
			o.finish(s.full(said))
		}
	}
	return again, why
}
