// Package distil makes a recipe from a successful run.
//
//	rec, err := distil.Read(runlog.Records(ctx, store, id, 0))
//	made, err := distil.Distil(ctx, rec, &distil.Options{Name: "weekly-brief"})
//
// Each agent's turn and each tool call becomes a step. If a later prompt contains an earlier output
// word for word, the quoted text becomes a reference and a dependency; other texts do not. Parts of
// the user's prompt that recur in later prompts become inputs. Work that failed, was repeated or
// led nowhere is cut.
//
// A recipe is returned only if it is proven: it is run with agents and tools that answer only from
// the recording, so that a new prompt has no answer, and its output must equal the run's output. A
// text that an agent paraphrased cannot be proven and is refused, unless a loose draft is
// requested.
//
// The package reads records and calls no model.
package distil
