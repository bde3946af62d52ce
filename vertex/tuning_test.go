package vertex

// Tune sets what changes the speed of a run and must change nothing else: from how many
// vertices a graph may be gathered, from which share of its edges, and how many messages
// are a round, are delivered by one goroutine, and how many vertices are listed.
func (r *Run[V, E, M]) Tune(gatherFrom, gatherShare, round, direct, list int) {
	r.tuning = tuning{gatherFrom, gatherShare, round, direct, list}
}
