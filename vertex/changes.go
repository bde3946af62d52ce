package vertex

import (
	"math"
	"math/bits"
	"slices"
)

// since is what has changed since [Run.Changes] was last called.
type since struct {
	set   set  // the vertices that computed, or that others changed
	all   bool // every vertex
	edges bool
}

// Changes returns the run between two supersteps, like Snapshot, but without the values and votes that are as they were when it was last called, and
// without edges that are. [Snapshot.Merge] adds those. It returns everything if that is the first call, or if more than half of the vertices have
// changed.
func (r *Run[V, E, M]) Changes() (*Snapshot[V, E, M], error) {
	if r.broken != nil {
		return nil, r.broken
	}
	r.settle()
	last := r.since
	r.since = &since{set: newSet(r.n)}
	if last != nil {
		for w := r.active.nextWord(0); w >= 0; w = r.active.nextWord(w + 1) { // a message has reached them
			last.set.add(w, r.active.words()[w])
		}
	}
	if last == nil || last.all {
		return r.Snapshot()
	}
	changed, few := last.set.collect(make([]int32, 0, 64), r.n/2)
	if !few {
		return r.Snapshot()
	}
	s := &Snapshot[V, E, M]{Step: r.step, Changed: changed, Size: r.n, GraphVertices: r.g.n, GraphEdges: r.g.NumEdges()}
	s.Values, s.Votes = make([]V, len(changed)), make([]byte, len(changed))
	for i, v := range changed {
		s.Values[i], s.Votes[i] = r.values[v], r.vote(v)
	}
	return s, r.rest(s, last.edges)
}

// computed notes who has computed in a superstep.
func (s *since) computed(active *set, gathered bool) {
	if s.all = s.all || gathered; s.all {
		return
	}
	for w := active.nextWord(0); w >= 0; w = active.nextWord(w + 1) {
		s.set.addOwn(w, active.words()[w])
	}
}

// Merge returns the whole snapshot at the time of later, which [Run.Changes] returned next after s. Neither is changed.
func (s *Snapshot[V, E, M]) Merge(later *Snapshot[V, E, M]) (*Snapshot[V, E, M], error) {
	if later.Changed == nil {
		return later, nil
	}
	if err := later.checkChanges(len(s.Values)); err != nil {
		return nil, err
	}
	out := *later
	out.Changed, out.Size = nil, 0
	out.Values, out.Votes = make([]V, later.Size), make([]byte, later.Size)
	n := copy(out.Values, s.Values)
	copy(out.Votes, s.Votes)
	for v := n; v < later.Size; v++ {
		out.Votes[v] = votedNever
	}
	for i, v := range later.Changed {
		out.Values[v], out.Votes[v] = later.Values[i], later.Votes[i]
	}
	if out.Edges == nil {
		out.Edges, out.GraphVertices, out.GraphEdges = s.Edges, s.GraphVertices, s.GraphEdges
	}
	return &out, nil
}

// checkChanges returns what is wrong with a snapshot of changes that is to be merged into one of n vertices.
func (s *Snapshot[V, E, M]) checkChanges(n int) error {
	var bad graphError
	if s.Size < n || len(s.Values) != len(s.Changed) || len(s.Votes) != len(s.Changed) {
		bad.add("the changes of superstep %d have %d values and %d votes for %d of %d vertices, of which there were %d", s.Step, len(s.Values), len(s.Votes), len(s.Changed), s.Size, n)
	}
	if !slices.IsSorted(s.Changed) || len(s.Changed) > 0 && (s.Changed[0] < 0 || int(s.Changed[len(s.Changed)-1]) >= s.Size) {
		bad.add("the changes of superstep %d are of vertices that cannot be", s.Step)
	}
	return bad.orNil()
}

// inboxes adds the messages of all active vertices.
func (r *Run[V, E, M]) inboxes(s *Snapshot[V, E, M]) {
	if r.has != nil {
		n := 0
		for w := r.active.nextWord(0); w >= 0; w = r.active.nextWord(w + 1) {
			n += bits.OnesCount64(r.has[w])
		}
		s.To, s.Messages = slices.Grow(s.To, n), slices.Grow(s.Messages, n)
	}
	for w := r.active.nextWord(0); w >= 0; w = r.active.nextWord(w + 1) {
		m := r.active.words()[w]
		if len(r.has) > 0 && m&r.has[w] == math.MaxUint64 {
			v := w << 6
			for i := range 64 {
				s.To = append(s.To, int32(v+i))
			}
			s.Messages = append(s.Messages, r.inbox[v:v+64]...)
			continue
		}
		for ; m != 0; m &= m - 1 {
			r.snapInbox(s, int32(w<<6|bits.TrailingZeros64(m)))
		}
	}
}
