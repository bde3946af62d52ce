package journal

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/internal/cut"
	"github.com/superstep-dev/superstep/internal/traceid"
	"github.com/superstep-dev/superstep/runlog"
)

// A Scope gives one task access to its run's log. A nil Scope, and the one that Attempt makes of it, belong to a run without a log: effects are performed
// without a record, events are dropped, and questions fail.
type Scope struct {
	j     *Journal // nil without a log
	path  string
	used  *uses // nil if nobody counts
	again bool  // keys may be used again, see Reuse
}

// off reports whether the scope belongs to a run without a log.
func (s *Scope) off() bool { return s == nil || s.j == nil }

// Scope returns the part of the log that belongs to the task at that path.
func (j *Journal) Scope(path string) *Scope {
	if j == nil {
		return nil
	}
	return &Scope{j: j, path: path}
}

// Path returns the identity of the task, "" without a log.
func (s *Scope) Path() string {
	if s.off() {
		return ""
	}
	return s.path
}

// Run returns the ID of the run, "" without a log.
func (s *Scope) Run() string {
	if s.off() {
		return ""
	}
	return s.j.id
}

// Traceparent returns the place of an effect of the task in the trace of the run, as W3C Trace Context writes it; of the task itself if the key is "". It
// returns "" for an effect that is not to know, see Journal.Trace. It is the same that the telemetry of the log gives.
func (s *Scope) Traceparent(key string) string {
	if s.off() {
		return ""
	}
	s.j.mu.Lock()
	defer s.j.mu.Unlock()
	if s.j.trace == nil || key != "" && s.j.tried == nil {
		return ""
	}
	c, n := *s.j.trace, max(1, s.j.tried[effect{s.path, key}])
	if key == "" {
		n = s.j.of(s.path).attempts + 1
	}
	c.Span = traceid.Span(s.j.id, s.path, key, s.j.info.Epoch, n)
	return c.String()
}

// Inner returns the scope of a named part of the task. The name may have the same characters as the name of a node.
func (s *Scope) Inner(name string) *Scope {
	if s == nil {
		return nil
	}
	inner := *s
	inner.path += "/" + name
	return &inner
}

// Grant records that something is allowed from now on, in the whole run. The caller chooses the word what that names the permission; Grant has no other
// effect.
func (s *Scope) Grant(ctx context.Context, what string) error {
	return s.Emit(ctx, eventGranted, granted{s.ownGrant() + what})
}

// ownGrant returns the prefix of the grants that are valid in the run: grants from an imported file are not.
func (s *Scope) ownGrant() string {
	if s.off() {
		return ""
	}
	s.j.mu.Lock()
	defer s.j.mu.Unlock()
	if s.j.own == "" {
		return ""
	}
	return s.j.own + " "
}

// Granted reports whether Grant was called in the run with the same word.
func (s *Scope) Granted(what string) bool {
	if s.off() {
		return false
	}
	what = s.ownGrant() + what
	s.j.mu.Lock()
	defer s.j.mu.Unlock()
	return s.j.granted[what]
}

// Grants returns all grants of the run, sorted.
func (s *Scope) Grants() []string {
	if s.off() {
		return nil
	}
	own := s.ownGrant()
	s.j.mu.Lock()
	defer s.j.mu.Unlock()
	var out []string
	for _, g := range slices.Sorted(maps.Keys(s.j.granted)) {
		if what, ok := strings.CutPrefix(g, own); ok {
			out = append(out, what)
		}
	}
	return out
}

// eventGranted is the name of the event that Grant makes, granted its data.
const eventGranted = "granted"

type granted struct {
	What string `json:"what"`
}

// Attempts returns how many attempts of the task have failed since the task last failed for good.
func (s *Scope) Attempts() int {
	if s.off() {
		return 0
	}
	s.j.mu.Lock()
	defer s.j.mu.Unlock()
	return s.j.of(s.path).attempts
}

// GivenUp returns how often the task has failed for good before the run was resumed.
func (s *Scope) GivenUp() int {
	if s.off() {
		return 0
	}
	s.j.mu.Lock()
	defer s.j.mu.Unlock()
	return s.j.of(s.path).given
}

// Emit records an event of the task. The event is durable when Emit returns.
func (s *Scope) Emit(ctx context.Context, name string, data any) error {
	if s.off() {
		return nil
	}
	if name == cut.Event {
		return fmt.Errorf("%s: an event cannot be named %q, which the log uses itself; choose another name", s.path, name)
	}
	e, err := newEvent(name, data)
	if err != nil {
		return err
	}
	return s.j.Write(ctx, "", runlog.KindEvent, s.path, e)
}

// Live shows an event to the current followers of the run. It is not recorded.
func (s *Scope) Live(name string, data any) {
	if s.off() || !s.j.hub.followed() {
		return
	}
	if e, err := newEvent(name, data); err == nil {
		s.j.Live(runlog.KindEvent, s.path, e)
	}
}

// newEvent encodes an Event. It does not parse the encoded data again.
func newEvent(name string, data any) (json.RawMessage, error) {
	b, err := json.Marshal(data)
	if err != nil {
		return nil, fmt.Errorf("encoding event %q: %w", name, err)
	}
	quoted, err := json.Marshal(name)
	if err != nil {
		return nil, fmt.Errorf("encoding event %q: %w", name, err)
	}
	out := make([]byte, 0, len(quoted)+len(b)+len(`{"name":,"data":}`))
	out = append(append(out, `{"name":`...), quoted...)
	return append(append(append(out, `,"data":`...), b...), '}'), nil
}

// A timing holds when a task began to execute, and how long it was queued before.
type timing struct {
	at     time.Time
	queued time.Duration
}

// Begin notes that the scope's task begins to execute.
func (s *Scope) Begin() { s.begin(false) }

// Placed notes that the scope's task had to wait for a place until now, since it began.
func (s *Scope) Placed() { s.begin(true) }

func (s *Scope) begin(placed bool) {
	if s.off() {
		return
	}
	now := s.j.opt.Now()
	s.j.mu.Lock()
	defer s.j.mu.Unlock()
	if s.j.begun == nil {
		s.j.begun = map[string]timing{}
	}
	t := timing{at: now}
	if was, ok := s.j.begun[s.path]; ok && placed {
		t.queued = now.Sub(was.at)
	}
	s.j.begun[s.path] = t
}

// Took returns for how long the scope's task has executed since Begin, and how long it waited before, in milliseconds. It starts the clock of the next
// attempt.
func (s *Scope) Took() (took, queued int64) {
	if s.off() {
		return 0, 0
	}
	now := s.j.opt.Now()
	s.j.mu.Lock()
	defer s.j.mu.Unlock()
	t, ok := s.j.begun[s.path]
	if !ok {
		return 0, 0
	}
	s.j.begun[s.path] = timing{at: now}
	return max(0, now.Sub(t.at)).Milliseconds(), t.queued.Milliseconds()
}
