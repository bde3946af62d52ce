package ralph

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/gitwork"
)

// An attempt is the outcome of a merge: the result is in Commit, or the branch of the run had moved on or conflicts.
type attempt struct {
	Commit    string             `json:"commit,omitempty"`
	Same      bool               `json:"same,omitempty"` // nothing was merged: it was there already
	Tip       string             `json:"tip,omitempty"`  // what was merged
	Conflicts []gitwork.Conflict `json:"conflicts,omitempty"`
	Notes     []string           `json:"notes,omitempty"`
}

// merge brings the commits of the task into the branch of the run, and returns the commit that does. The tip of that branch is merged into the task first,
// in the task's own worktree, where conflicts are resolved and the check runs: so each commit of the branch of the run has passed the check as it is. One
// task at a time does this; a task that meets conflicts lets others pass once.
func (j *job) merge(ctx context.Context) (sha string, err error) {
	held := false
	hold := func() error {
		if held {
			return nil
		}
		return j.t.Scope().Afresh(func() error { // a replay merges nothing, and its tasks follow the order of the record
			select {
			case j.merging <- struct{}{}:
				held = true
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
	}
	release := func() {
		if held {
			<-j.merging
			held = false
		}
	}
	defer release()
	for n := 1; n <= mostMerges; n++ {
		key := fmt.Sprintf("merge-%d", n)
		if err := hold(); err != nil {
			return "", err
		}
		up, err := git(ctx, j.t, key+"/update", "merge", func(ctx context.Context) (attempt, error) { return j.update(ctx, key) })
		if err != nil {
			return "", err
		}
		if len(up.Conflicts) > 0 {
			if n == 1 {
				release() // while its resolver works
			}
			if dropped, err := j.resolve(ctx, key, &up); err != nil || dropped {
				return "", err
			}
		}
		if !up.Same {
			if _, err := j.green(ctx, key, false); err != nil {
				return "", fmt.Errorf("together with what was merged before it: %w", err)
			}
		}
		if err := hold(); err != nil {
			return "", err
		}
		in, err := git(ctx, j.t, key+"/merge", "merge", j.deliver)
		if err != nil {
			return "", err
		}
		if in.Commit != "" {
			return in.Commit, j.remove(ctx, gitwork.Branch(j.run, ""))
		}
	}
	return "", fmt.Errorf("the branch of the run changed %d times while this was merged", mostMerges)
}

// update merges the branch of the run into that of the task.
func (j *job) update(ctx context.Context, key string) (out attempt, err error) {
	tree, err := j.tree(ctx)
	if err != nil {
		return out, err
	}
	trunk, err := j.trunk(ctx, j.s, j.run)
	if err != nil {
		return out, err
	}
	if out.Tip, err = trunk.Tip(ctx); err != nil {
		return out, err
	}
	m, err := tree.Merge(ctx, out.Tip, j.updateText(), trailers(j.run, j.ID, key))
	if err != nil {
		return out, err
	}
	out.Commit, out.Conflicts, out.Notes, out.Same = m.Commit, m.Conflicts, m.Notes, m.Same
	return out, nil
}

func (j *job) updateText() string {
	return fmt.Sprintf("Merge %s into %s", gitwork.Branch(j.run, ""), gitwork.Branch(j.run, j.ID))
}

// deliver merges the branch of the task into that of the run, if that has not moved since.
func (j *job) deliver(ctx context.Context) (out attempt, err error) {
	tree, err := j.tree(ctx)
	if err != nil {
		return out, err
	}
	trunk, err := j.trunk(ctx, j.s, j.run)
	if err != nil {
		return out, err
	}
	repo, err := j.repository(ctx)
	if err != nil {
		return out, err
	}
	own, err := tree.Tip(ctx)
	if err != nil {
		return out, err
	}
	key := trailers(j.run, j.ID, "merge")
	tip, err := trunk.Tip(ctx)
	if err != nil {
		return out, err
	}
	if has, err := repo.Merged(ctx, tip, own); err != nil {
		return out, err
	} else if !has { // it may have been merged before a crash
		before, err := repo.Find(ctx, j.run, key)
		return attempt{Commit: strings.Join(before[:min(len(before), 1)], "")}, err
	}
	m, err := trunk.Merge(ctx, own, fmt.Sprintf("Merge task %s: %s", j.ID, j.Title), key)
	if err != nil {
		return out, err
	}
	return attempt{Commit: m.Commit}, nil
}

// The answers to the question about a conflict.
const (
	keepTask  = "keep this task's"
	keepOther = "keep the others'"
	byHand    = "I resolved it there"
	drop      = "drop this task"
)

// resolve has an agent resolve conflicts, and then a user. Dropped is never true without an error.
func (j *job) resolve(ctx context.Context, key string, up *attempt) (dropped bool, err error) {
	for n := 1; ; n++ {
		step := fmt.Sprintf("%s/resolve-%d", key, n)
		const tries = 2
		answer := ""
		if n <= tries {
			prompt, err := git(ctx, j.t, step+"/conflicts", "show", func(ctx context.Context) (string, error) { return j.conflict(ctx, up) })
			if err != nil {
				return false, err
			}
			if err := j.agent(ctx, step, prompt); err != nil {
				return false, err
			}
		} else {
			var paths []string
			for _, c := range up.Conflicts {
				paths = append(paths, c.Path)
			}
			about := map[string]string{byHand: "the files in " + j.path + " are as they should be", drop: "its work stays in " + gitwork.Branch(j.run, j.ID)}
			answer, err = graph.Ask[string](ctx, graph.Question{Key: step, About: about, Options: []string{keepTask, keepOther, byHand, drop},
				Text: fmt.Sprintf("Task %s (%s) conflicts with what was merged before it, in %s. The resolver did not resolve it.", j.ID, j.Title, strings.Join(paths, ", "))})
			if err != nil {
				return false, err
			}
			if answer == drop {
				return true, fmt.Errorf("a user dropped it: it conflicts in %s", strings.Join(paths, ", "))
			}
		}
		m, err := git(ctx, j.t, step+"/continue", "merge --continue", func(ctx context.Context) (attempt, error) {
			tree, err := j.tree(ctx)
			if err != nil {
				return attempt{}, err
			}
			if answer == keepTask || answer == keepOther {
				for _, c := range up.Conflicts {
					if err := tree.Take(ctx, c, answer == keepOther); err != nil {
						return attempt{}, err
					}
				}
			}
			m, err := tree.Continue(ctx, up.Tip, j.updateText(), trailers(j.run, j.ID, key))
			if err != nil {
				return attempt{}, err
			}
			return attempt{Commit: m.Commit, Conflicts: m.Conflicts, Notes: m.Notes}, nil
		})
		if err != nil || len(m.Conflicts) == 0 {
			return false, err
		}
		up.Conflicts, up.Notes = m.Conflicts, m.Notes
	}
}

// conflict returns what the resolver is told: both sides, and the tasks that they belong to.
func (j *job) conflict(ctx context.Context, up *attempt) (string, error) {
	repo, err := j.repository(ctx)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Merge task %s: %s\n\nTwo pieces of work changed the same lines. Your folder is in the middle of their merge: files have conflict markers. "+
		"Edit them so that both purposes are fulfilled, and leave no marker.\n\nOurs is this task:\n\n# %s\n\n%s\n\nTheirs is what was merged before it:\n", j.ID, j.Title, j.Title, j.Prompt)
	for _, t := range j.s.Tasks {
		if t.ID != j.ID && (len(t.Files) == 0 || slices.ContainsFunc(up.Conflicts, func(c gitwork.Conflict) bool { return slices.Contains(t.Files, c.Path) })) {
			fmt.Fprintf(&b, "\n# %s\n\n%s\n", t.Title, tail(t.Prompt, 2000))
		}
	}
	const most = 8000
	for _, c := range up.Conflicts {
		fmt.Fprintf(&b, "\n## %s\n", c.Path)
		for _, side := range []struct{ name, id string }{{"Before", c.Base}, {"Ours", c.Ours}, {"Theirs", c.Theirs}} {
			if side.id == "" {
				fmt.Fprintf(&b, "\n%s: the file is not there.\n", side.name)
				continue
			}
			text, cut, err := repo.Blob(ctx, side.id, most)
			if err != nil {
				return "", err
			}
			if cut {
				text += "\n…"
			}
			fmt.Fprintf(&b, "\n%s:\n```\n%s\n```\n", side.name, text)
		}
	}
	for _, n := range up.Notes {
		b.WriteString(n + "\n")
	}
	b.WriteString(j.rules())
	return b.String(), nil
}
