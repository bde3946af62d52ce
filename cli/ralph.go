package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/internal/gitwork"
	"github.com/superstep-dev/superstep/runlog"
)

func ralphCommand(a *app) *cobra.Command {
	var dry bool
	gc := &cobra.Command{
		Use: "gc [RUN...]", Short: "Remove merged branches and worktrees of runs",
		Long: `Remove merged branches and worktrees of runs

A branch of a task is removed if the branch of its run contains it, the branch of a run if one of your
own branches does. Unmerged branches, worktrees with uncommitted changes, and what belongs to unfinished
runs or to runs of another store are kept, and listed with the reason. Name a run to remove what it left
even if it is not in this store.`,
		Example: examples(a.cfg.Name, "ralph gc --dry-run", "what would be removed", "ralph gc 7f3a", "of this run only"),
		RunE:    func(cmd *cobra.Command, args []string) error { return collectBranches(cmd.Context(), a, args, dry) },
	}
	gc.Flags().BoolVar(&dry, "dry-run", false, "remove nothing, only say what would be")
	cmd := &cobra.Command{Use: "ralph", Short: "Remove what runs of the workflow ralph left in a repository", Example: examples(a.cfg.Name, "ralph gc", ""), Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	cmd.AddCommand(gc)
	return cmd
}

// A branchRow is a branch or worktree that was removed or kept, for programs.
type branchRow struct {
	Branch string `json:"branch,omitempty"`
	Path   string `json:"worktree,omitempty"`
	Why    string `json:"kept,omitempty"`
}

func collectBranches(ctx context.Context, a *app, runs []string, dry bool) error {
	repo, err := gitwork.Open(ctx, a.host().Dir(), &gitwork.Options{Data: a.host().DataDir()})
	if err != nil {
		return usage("ralph gc: " + err.Error())
	}
	infos, err := listRuns(ctx, a, nil)
	if err != nil {
		return err
	}
	inBranch := func(run string) string { return strings.TrimPrefix(gitwork.Branch(run, ""), "superstep/") }
	known := map[string]*runlog.Info{}
	for i := range infos {
		known[inBranch(infos[i].ID)] = &infos[i]
	}
	all, err := repo.List(ctx)
	if err != nil {
		return err
	}
	for i, run := range runs {
		if found := slices.IndexFunc(all, func(e gitwork.Entry) bool { return e.Run == inBranch(run) }); found < 0 {
			return usage(fmt.Sprintf("ralph gc: %s has no branch of a run %q; `git branch --list 'superstep/*'` lists them", repo.Top, run))
		}
		runs[i] = inBranch(run)
	}
	const other = "another run"
	done, err := repo.GC(ctx, func(run string) string {
		switch info := known[run]; {
		case len(runs) > 0 && !slices.Contains(runs, run):
			return other
		case info == nil && len(runs) == 0:
			return fmt.Sprintf("its run is not in this store; `%s` removes it", a.hint("ralph", "gc", run))
		case info != nil && !info.Status.Ended():
			return fmt.Sprintf("its run is %s, and may be resumed", info.Status)
		}
		return ""
	}, dry)
	if err != nil {
		return err
	}
	done.Kept = slices.DeleteFunc(done.Kept, func(k gitwork.Kept) bool { return k.Why == other })
	return printBranches(a, done, dry)
}

func printBranches(a *app, done *gitwork.Collected, dry bool) error {
	out := struct {
		Removed []branchRow `json:"removed"`
		Kept    []branchRow `json:"kept"`
		Dry     bool        `json:"dry_run,omitempty"`
	}{[]branchRow{}, []branchRow{}, dry}
	for _, e := range done.Removed {
		out.Removed = append(out.Removed, branchRow{Branch: e.Branch, Path: e.Path})
	}
	for _, k := range done.Kept {
		out.Kept = append(out.Kept, branchRow{k.Branch, k.Path, k.Why})
	}
	if a.programs() {
		return a.out.value(out)
	}
	verb := "removed"
	if dry {
		verb = "would remove"
	}
	for _, r := range out.Removed {
		a.out.line(verb + " " + r.Branch)
	}
	for _, r := range out.Kept {
		name := r.Branch
		if name == "" {
			name = r.Path
		}
		a.out.line("kept " + name + ": " + r.Why)
	}
	a.err.line(fmt.Sprintf("%s %d, kept %d", verb, len(out.Removed), len(out.Kept)))
	return nil
}
