package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/graph/draw"
	"github.com/superstep-dev/superstep/host"
	sockets "github.com/superstep-dev/superstep/internal/live"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/runlog"
)

const (
	frameGap     = 100 * time.Millisecond // between two frames of a page
	awakenGap    = 200 * time.Millisecond // between two looks at a run that no process executes
	workersEvery = 15                     // looks at such a run for one at the workers
	keptFor      = time.Minute            // how long the fold of a run is kept that no page shows
	mostFrames   = 64                     // that a slow reader may be behind, before it has to reload
	beatGap      = 20 * time.Second       // between two signs of life of a stream
	mostStream   = 500                    // streams that are open at once
)

// A hub is the fold of one run, for all pages that show it.
type hub struct {
	s      *server
	id     string
	stop   context.CancelFunc
	loaded chan struct{} // closed once the fold has what was stored when it began

	mu       sync.Mutex
	run      transcript.Run
	progress draw.Progress
	status   runlog.Status // as the store has it
	listed   host.RunItem  // why no worker takes it, if it waits for one
	err      error         // why it is not followed any more
	stored   bool          // only stored records come: the process that executes the run cannot be reached
	changes  uint64
	wakes    map[chan struct{}]bool
	poke     chan struct{} // something was done to the run
	used     time.Time
}

// hub returns the fold of a run, as far as it is stored at least.
func (s *server) hub(ctx context.Context, id string) (*hub, error) {
	s.mu.Lock()
	h := s.hubs[id]
	if h == nil {
		follow, stop := context.WithCancel(s.ctx)
		h = &hub{s: s, id: id, stop: stop, loaded: make(chan struct{}), wakes: map[chan struct{}]bool{}, poke: make(chan struct{}, 1)}
		h.run.Window = 32 << 20
		s.hubs[id] = h
		go h.follow(follow)
	}
	h.used = s.opt.Now()
	s.mu.Unlock()
	select {
	case <-h.loaded:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil && h.run.Seq == 0 {
		return nil, h.err
	}
	return h, nil
}

// poke has a run looked at at once that nobody has executed so far.
func (s *server) poke(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.hubs[id]; h != nil {
		select {
		case h.poke <- struct{}{}:
		default:
		}
	}
}

// tidy forgets what no page has shown for a while.
func (s *server) tidy() {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.opt.Now().Add(-keptFor)
	for key, v := range s.views {
		if v.unused(old) {
			delete(s.views, key)
		}
	}
	for id, h := range s.hubs {
		h.mu.Lock()
		if len(h.wakes) == 0 && h.used.Before(old) {
			h.stop()
			delete(s.hubs, id)
		}
		h.mu.Unlock()
	}
}

// follow applies the records of the run, as long as the hub is in use.
func (h *hub) follow(ctx context.Context) {
	var once sync.Once
	ready := func() { once.Do(func() { close(h.loaded) }) }
	defer ready()
	for {
		err := h.read(ctx, ready)
		h.change(func() { h.err = err })
		ready()
		if !h.awaken(ctx) {
			return
		}
	}
}

// change changes the hub, and tells the pages.
func (h *hub) change(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
	h.changes++
	for w := range h.wakes {
		select {
		case w <- struct{}{}:
		default:
		}
	}
}

// read applies records until no process executes the run any more.
func (h *hub) read(ctx context.Context, ready func()) (err error) {
	defer func() {
		if r := recover(); r != nil { // one run that cannot be shown must not end the console
			err = fmt.Errorf("run %s cannot be shown: %v", h.id, r)
		}
	}()
	info, err := h.s.engine.Find(ctx, h.id)
	if err != nil {
		return err
	}
	listed := h.item(ctx, &info)
	h.change(func() { h.status, h.listed, h.err = info.Status, listed, nil })
	if h.run.Seq >= info.Head {
		ready()
	}
	for rec, err := range h.s.engine.Follow(ctx, h.id, h.run.Seq+1) { // only this goroutine changes the fold
		if err != nil {
			return err
		}
		h.change(func() {
			if rec.Seq == 0 && sockets.StoredOnly(&rec) {
				h.stored = true
				return
			}
			h.run.Apply(rec)
			h.progress.Apply(&rec)
		})
		if rec.Seq >= info.Head {
			ready()
		}
	}
	if info, err = h.s.engine.Find(ctx, h.id); err == nil {
		listed := h.item(ctx, &info)
		h.change(func() { h.status, h.listed = info.Status, listed; h.run.End(info.Status) })
	}
	return err
}

// item returns the run as it is listed if it waits for a worker, and else nothing.
func (h *hub) item(ctx context.Context, info *runlog.Info) (listed host.RunItem) {
	if info.Status != runlog.Queued && info.Status != runlog.Interrupted {
		return listed
	}
	if items, _, err := h.s.host.RunItems(ctx, []runlog.Info{*info}); err == nil {
		listed = items[0]
	}
	return listed
}

// awaken waits until the run has changed since nobody executes it, and reports whether that has happened.
func (h *hub) awaken(ctx context.Context) bool {
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return false
		case <-h.poke:
		case <-time.After(awakenGap):
		}
		info, err := h.s.engine.Find(ctx, h.id)
		switch {
		case ctx.Err() != nil, errors.As(err, new(*runlog.NotFoundError)):
			return false
		case err == nil && (info.Status == runlog.Running || info.Head > h.run.Seq || info.Status != h.status):
			return true
		}
		if n%workersEvery == 0 && err == nil {
			if listed := h.item(ctx, &info); listed.Reason != h.listed.Reason { // only this goroutine changes it
				h.change(func() { h.listed = listed })
			}
		}
	}
}

// A piece is a part of a page with an ID of its own.
type piece struct {
	id  string
	rev uint64        // it changes when the HTML may; 0 if only the HTML tells
	say func() string // its HTML, one element with the ID
}

// A list is an element of a page that holds pieces.
type list struct {
	id     string
	pieces []piece
}

// A view is a page that changes while it is open: lists of pieces. It is drawn after changes, for all of its readers at once.
type view struct {
	draw func(use func([]list)) // calls use while nothing changes under the lists

	mu      sync.Mutex
	frame   uint64
	order   map[string][]string // the IDs of the pieces, by list
	moved   map[string]uint64   // the frame in which that changed last, by list
	known   map[string]*drawn
	readers map[*reader]bool
	rest    func() // ends what happens while there are readers
	used    time.Time
}

type drawn struct {
	rev   uint64
	html  string
	frame uint64 // in which it changed last
	seen  uint64
}

type reader struct {
	frames chan []byte // closed if the reader is too slow
	late   bool
}

// A frame is what has changed on a page.
type frame struct {
	Order map[string][]string `json:"order,omitempty"`
	HTML  map[string]string   `json:"html,omitempty"`
}

// view returns the view with a key, which begins with make.
func (s *server) view(key string, make func(v *view)) *view {
	s.tidy()
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.views[key]
	if v == nil {
		v = &view{order: map[string][]string{}, moved: map[string]uint64{}, known: map[string]*drawn{}, readers: map[*reader]bool{}}
		make(v)
		s.views[key] = v
	}
	v.mu.Lock()
	v.used = s.opt.Now()
	v.mu.Unlock()
	return v
}

func (v *view) unused(old time.Time) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.readers) == 0 && v.used.Before(old)
}

// update draws the page anew, and returns the number of its frame. The caller holds mu.
func (v *view) update() uint64 {
	next, changed := v.frame+1, false
	v.draw(func(lists []list) { changed = v.take(next, lists) })
	if !changed {
		for _, d := range v.known {
			d.seen = min(d.seen, v.frame)
		}
		return v.frame
	}
	for id, d := range v.known {
		if d.seen != next {
			delete(v.known, id)
		}
	}
	v.frame = next
	return next
}

// take notes what is on the page in a frame, and reports whether something has changed.
func (v *view) take(next uint64, lists []list) (changed bool) {
	for _, l := range lists {
		ids := make([]string, len(l.pieces))
		for i, p := range l.pieces {
			ids[i] = p.id
			d := v.known[p.id]
			if d == nil {
				d = &drawn{}
				v.known[p.id] = d
			}
			d.seen = next
			if d.frame > 0 && p.rev != 0 && p.rev == d.rev {
				continue
			}
			if html := p.say(); d.frame == 0 || html != d.html {
				d.html, d.frame, changed = html, next, true
			}
			d.rev = p.rev
		}
		if !slices.Equal(ids, v.order[l.id]) || v.moved[l.id] == 0 {
			v.order[l.id], v.moved[l.id], changed = ids, next, true
		}
	}
	return changed
}

// since returns what has changed after a frame. The caller holds mu.
func (v *view) since(n uint64) []byte {
	f := frame{Order: map[string][]string{}, HTML: map[string]string{}}
	for id, at := range v.moved {
		if at > n {
			f.Order[id] = v.order[id]
		}
	}
	for id, d := range v.known {
		if d.frame > n {
			f.HTML[id] = d.html
		}
	}
	b, err := json.Marshal(f)
	if err != nil {
		return []byte("{}") // no such value
	}
	return b
}

// html returns the HTML of a list, as of the last frame. The caller holds mu.
func (v *view) html(id string) string {
	var b strings.Builder
	for _, p := range v.order[id] {
		b.WriteString(v.known[p].html)
	}
	return b.String()
}

// pump draws frames until ctx ends. The readers have all up to the frame sent; a page that is loaded draws frames too.
func (v *view) pump(ctx context.Context, sent uint64, wakes <-chan struct{}, gap time.Duration) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-wakes:
		}
		v.mu.Lock()
		if n := v.update(); n > sent {
			data := fmt.Appendf(nil, "%d\n%s", n, v.since(sent))
			sent = n
			for r := range v.readers {
				if r.late {
					continue
				}
				select {
				case r.frames <- data:
				default: // if it was the last one, its stream ends the pump
					r.late = true
					close(r.frames)
				}
			}
		}
		v.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(gap):
		}
	}
}

// A watcher returns a channel that is woken by changes until ctx ends, and what to do then.
type watcher func(ctx context.Context) (wakes <-chan struct{}, leave func())

// opened counts a stream until it is closed. Too many are refused.
func (s *server) opened(w http.ResponseWriter) (closed func(), err error) {
	if s.streams.Add(1) > mostStream {
		s.streams.Add(-1)
		w.Header().Set("Retry-After", "5")
		return nil, refuse(http.StatusServiceUnavailable, "There are %d streams open already.", mostStream)
	}
	return func() { s.streams.Add(-1) }, nil
}

// stream sends the frames of a view to one page, from the frame that it has on.
func (s *server) stream(w http.ResponseWriter, r *http.Request, v *view, watch watcher) error {
	closed, err := s.opened(w)
	if err != nil {
		return err
	}
	defer closed()
	at := r.Header.Get("Last-Event-ID")
	if at == "" {
		at = r.URL.Query().Get("since")
	}
	epoch, number, _ := strings.Cut(at, ".")
	n, err := strconv.ParseUint(number, 10, 64)
	out := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	_ = out.SetWriteDeadline(time.Time{})
	v.mu.Lock()
	if err != nil || epoch != s.epoch || n > v.frame { // of a process before this one, or of a view that was forgotten
		v.mu.Unlock()
		_, err := fmt.Fprint(w, "event: reload\ndata: {}\n\n")
		return err
	}
	if q := r.URL.Query(); q.Has("once") { // a browser without a connection to spare asks now and then
		if len(v.readers) == 0 {
			v.update()
		}
		now, first := v.frame, v.since(n)
		v.mu.Unlock()
		_, err := fmt.Fprintf(w, "id: %s.%d\ndata: %s\n\n", s.epoch, now, first)
		return err
	}
	me := &reader{frames: make(chan []byte, mostFrames)}
	if len(v.readers) == 0 {
		ctx, stop := context.WithCancel(s.ctx)
		wakes, leave := watch(ctx)
		v.rest = func() { stop(); leave() }
		go v.pump(ctx, v.update(), wakes, s.gap)
	}
	v.readers[me] = true
	now := v.frame
	first := v.since(n)
	v.mu.Unlock()
	defer func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		delete(v.readers, me)
		if v.used = s.opt.Now(); len(v.readers) == 0 && v.rest != nil {
			v.rest()
			v.rest = nil
		}
	}()
	send := func(n, data string) error {
		_ = out.SetWriteDeadline(time.Now().Add(beatGap))
		if _, err := fmt.Fprintf(w, "id: %s.%s\ndata: %s\n\n", s.epoch, n, data); err != nil {
			return err
		}
		return out.Flush()
	}
	if now > n {
		err = send(strconv.FormatUint(now, 10), string(first))
	} else {
		err = out.Flush()
	}
	beat := time.NewTicker(beatGap)
	defer beat.Stop()
	for err == nil {
		select {
		case <-r.Context().Done():
			return nil
		case <-s.ctx.Done():
			return nil
		case f, ok := <-me.frames:
			if !ok {
				return nil // it comes back with the number of its last frame
			}
			n, data, _ := strings.Cut(string(f), "\n")
			err = send(n, data)
		case <-beat.C:
			if _, err = fmt.Fprint(w, ": \n\n"); err == nil {
				err = out.Flush()
			}
		}
	}
	return nil // the reader has left
}

// watch returns a channel that is woken by changes of the run, and what ends that.
func (h *hub) watch(context.Context) (<-chan struct{}, func()) {
	c := make(chan struct{}, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wakes[c] = true
	return c, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.wakes, c)
		h.used = h.s.opt.Now()
	}
}
