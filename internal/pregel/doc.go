// Package pregel runs graphs of vertices in supersteps, after Malewicz et al.,
// "Pregel: a system for large-scale graph processing" (SIGMOD 2010).
//
// A [Machine] holds a run between decisions. It is pure: no clock, no I/O, no
// goroutine, and nothing in it depends on map order or on the order in which tasks
// happen to finish. A driver asks it what may start ([Machine.Plan]), runs that,
// hands each result back ([Machine.Apply]) and closes the superstep
// ([Machine.Commit]). [Run] is the driver for one process; others can be written
// against the same four methods.
//
// One superstep:
//
//	deliver messages → compute the active vertices → at the barrier, fold the
//	updates in path order and route the messages in the same order → next step
//
// A vertex is active in the first step if it is an entry, and after that if a message reached it or
// if it voted [Stay]. After computing it halts unless its vote says otherwise; a message wakes it
// again, except after a vote of [Complete]. The run ends when no vertex is active.
//
// A Machine is for workflows: tens or thousands of tasks that take their time, each with an
// identity, over a state of any type. For millions of small vertex values and messages in dense
// arrays there is package vertex, which shares this vocabulary.
//
// A message may carry a key. It then goes to the instance of its vertex with that key, which the
// message creates. So a vertex can compute many times in one step with different messages: a
// fan-out whose width is known only at run time.
package pregel
