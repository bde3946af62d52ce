package cassette

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/superstep-dev/superstep/model"
)

// Options of a player. A nil pointer means the defaults.
type Options struct {
	// Sleep, unless nil, waits as long as the model took for each part: it returns after d, or
	// with an error when ctx ended. Without it nothing waits.
	Sleep func(ctx context.Context, d time.Duration) error
	// Redact is the redactor that the cassette was recorded with; nil if the [Recorder] had none.
	Redact Redactor
	// Name is what errors call the cassette.
	Name string
}

// A Player is a model that plays back recorded answers.
//
// A request is answered by the first turn recorded for an equal one, the next equal request by the
// second turn, and so on; a recorded failure is one of them. So the answers do not depend on the
// order in which different requests come, nor on how many come at once. If the reader stops before
// the end of a turn, that turn can be played again.
type Player struct {
	name, provider, model string
	header                line
	redact                Redactor
	sleep                 func(context.Context, time.Duration) error

	tape     *tape
	byDigest map[string][]int // numbers of turns, in order

	mu   sync.Mutex
	used []bool // or being said
}

var (
	_ model.Model  = (*Player)(nil)
	_ model.Priced = (*Player)(nil)
	_ model.Sized  = (*Player)(nil)
)

// Open reads a cassette, all of it. An error names the line that is wrong.
func Open(r io.Reader, o *Options) (*Player, error) {
	var opts Options
	if o != nil {
		opts = *o
	}
	if opts.Redact == nil {
		opts.Redact = shapes{}
	}
	t, n, err := read(r)
	if err != nil {
		return nil, &formatError{Name: opts.Name, Line: n, Err: err}
	}
	p := &Player{
		name: t.header.Model, header: t.header, redact: opts.Redact, sleep: opts.Sleep,
		tape: t, byDigest: map[string][]int{}, used: make([]bool, len(t.turns)),
	}
	p.provider, p.model = splitName(p.name)
	for i, turn := range t.turns {
		p.byDigest[turn.Digest] = append(p.byDigest[turn.Digest], i)
	}
	return p, nil
}

// Name returns the name of the recorded model.
func (p *Player) Name() string { return p.name }

// Price returns the price of the recorded model.
func (p *Player) Price() (price model.Price, known bool) {
	if p.header.Price == nil {
		return model.Price{}, false
	}
	r := *p.header.Price
	return model.Price{In: r.In, Out: r.Out, Cached: r.Cached, Written: r.Written}, true
}

// Window returns the window of the recorded model.
func (p *Player) Window() (tokens int, known bool) { return p.header.Window, p.header.Window > 0 }

// Unused returns the number of recorded turns that were not played yet.
func (p *Player) Unused() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, used := range p.used {
		if !used {
			n++
		}
	}
	return n
}

// Generate streams the recorded turn, as [model.Model] says. The error of a request that was not
// recorded names the nearest one.
func (p *Player) Generate(ctx context.Context, req *model.Request) iter.Seq2[model.Part, error] {
	var ranged atomic.Bool
	return func(yield func(model.Part, error) bool) {
		if ranged.Swap(true) {
			yield(model.Part{}, p.fault(model.CodeRequest, errors.New("the stream was ranged over a second time; call Generate again")))
			return
		}
		if req == nil {
			yield(model.Part{}, p.fault(model.CodeRequest, errors.New("the request is nil")))
			return
		}
		asked, pieces, err := describe(req, p.redact)
		if err != nil {
			yield(model.Part{}, p.fault(model.CodeRequest, err))
			return
		}
		i, ok := p.take(asked.digest())
		if !ok {
			yield(model.Part{}, p.fault(codeNotRecorded, p.unknown(&asked, pieces)))
			return
		}
		whole := false
		defer func() {
			if !whole {
				p.giveBack(i)
			}
		}()
		whole = p.say(ctx, p.tape.turns[i], yield)
	}
}

// say yields a turn and reports whether it was read to its end.
func (p *Player) say(ctx context.Context, turn *recordation, yield func(model.Part, error) bool) bool {
	for i := range turn.Parts {
		part := &turn.Parts[i]
		if p.sleep != nil && part.MS > 0 {
			if err := p.sleep(ctx, time.Duration(part.MS)*time.Millisecond); err != nil && ctx.Err() == nil {
				yield(model.Part{}, p.fault(model.CodeCanceled, err))
				return false
			}
		}
		if ctx.Err() != nil {
			yield(model.Part{}, p.canceled(ctx))
			return false
		}
		if !yield(part.decode(), nil) {
			return part.Kind == model.Stop
		}
	}
	if ctx.Err() != nil && turn.Failure != nil {
		yield(model.Part{}, p.canceled(ctx))
		return false
	}
	if turn.Failure != nil {
		yield(model.Part{}, turn.Failure.decode())
	}
	return true
}

// take returns the first unused turn with that digest, and marks it as used.
func (p *Player) take(digest string) (int, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, i := range p.byDigest[digest] {
		if !p.used[i] {
			p.used[i] = true
			return i, true
		}
	}
	return 0, false
}

func (p *Player) giveBack(i int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used[i] = false
}

func (p *Player) fault(code string, err error) *model.Error {
	return &model.Error{Provider: p.provider, Model: p.model, Code: code, Err: err}
}

func (p *Player) canceled(ctx context.Context) *model.Error {
	err := ctx.Err()
	if cause := context.Cause(ctx); !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return p.fault(model.CodeCanceled, err)
}

// decode returns the error as it was, as far as it was recorded: its cause is a text.
func (f *failure) decode() *model.Error {
	return &model.Error{
		Provider: f.Provider, Model: f.Model, URL: f.URL, KeyFrom: f.KeyFrom, Status: f.Status, Code: f.Code,
		RetryAfter: time.Duration(f.RetryMS) * time.Millisecond, Temporary: f.Temporary, Err: errors.New(f.Text),
	}
}

// unknown finds the recorded request that is most like the one that was not recorded.
func (p *Player) unknown(asked *request, pieces []piece) *unknownRequestError {
	digest := asked.digest()
	e := &unknownRequestError{Digest: digest, Recorded: len(p.byDigest[digest]), Turns: len(p.tape.turns)}
	if e.Recorded > 0 {
		return e
	}
	texts := func(id string) *piece {
		if i := slices.IndexFunc(pieces, func(q piece) bool { return q.ID == id }); i >= 0 {
			q := pieces[i].preview() // as those on the cassette are
			return &q
		}
		return p.tape.pieces[id]
	}
	best := 0
	for i, turn := range p.tape.turns {
		if d := distance(asked, &turn.Request); e.Nearest == 0 || d < best {
			e.Nearest, best = i+1, d
		}
	}
	if e.Nearest > 0 {
		e.Differences = differences(asked, &p.tape.turns[e.Nearest-1].Request, texts)
	}
	return e
}
