// Package distil makes a recipe from a successful run.
//
//	rec, err := distil.Read(runlog.Records(ctx, store, id, 0))
//	made, err := distil.Distil(ctx, rec, &distil.Options{Name: "weekly-brief"})
//
// What agents and tools did becomes steps. If a later prompt contains an earlier output word for
// word, that becomes a reference and a dependency; nothing else does. Parts of the user's prompt
// that recur in later prompts become inputs. Work that failed, was repeated or led nowhere is cut.
//
// A recipe is returned only if it was proven: it is run with agents and tools that know only the
// recording, so that a new prompt has no answer, and its output must be that of the run. A text
// that an agent paraphrased proves nothing and is refused, unless a loose draft is wanted.
//
// The package reads records and calls no model.
package distil
