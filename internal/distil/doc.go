// Package distil makes a recipe of a run that went well.
//
//	rec, err := distil.Read(runlog.Records(ctx, store, id, 0))
//	made, err := distil.Distil(ctx, rec, &distil.Options{Name: "weekly-brief"})
//
// What agents and tools did becomes steps. Where a later prompt has an earlier output in it word
// for word, that is a reference and a dependency; nothing else is. What the user said that comes
// again in prompts becomes inputs; what failed, was done again or went nowhere is cut.
//
// A recipe is given only if it was proven: it is run with agents and tools that know the recording and
// nothing else, so that a prompt that was not there before has no answer, and it has to end with what the
// run ended with. A text that an agent rewrote in its own words proves nothing and is refused,
// unless a loose draft is wanted.
//
// The package reads records and calls no model.
package distil
