package acpserve

import (
	"context"
	"slices"
)

// A place is that of a request to a session. Its session's mutex guards it.
type place struct {
	session   *session
	stops     bool // it ends what those before it do
	cancelled bool // one behind it does
}

// enter puts a request at the end of the line.
func (x *session) enter(stops bool) *place {
	p := &place{session: x, stops: stops}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.line = append(x.line, p)
	return p
}

// leave lets those behind a request go on.
func (p *place) leave() {
	x := p.session
	x.mu.Lock()
	defer x.mu.Unlock()
	if i := slices.Index(x.line, p); i >= 0 {
		x.line = slices.Delete(x.line, i, i+1)
		x.wake()
	}
}

// before returns the requests before one that are still in the line. The caller holds the session's mutex.
func (p *place) before() []*place { return p.session.line[:max(0, slices.Index(p.session.line, p))] }

// comes waits until a request is the first of the line.
func (p *place) comes(ctx context.Context) error {
	return p.session.wait(ctx, func() bool { return len(p.before()) == 0 })
}
