package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/internal/arguments"
	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/internal/unlisted"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/seal"
)

// sizeJSON is the disk space of a run, for programs.
type sizeJSON struct {
	ID       string        `json:"id"`
	Workflow string        `json:"workflow"`
	Status   runlog.Status `json:"status"`
	Records  uint64        `json:"records"`
	Bytes    int64         `json:"bytes"`
}

func runsDu(a *app) *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use: "du", Short: "Show how much disk space runs use, largest first", Args: none,
		Example: examples(a.cfg.Name, "runs du", "", "runs du --limit 0 -o jsonl", "all of them"),
	}
	cmd.Flags().IntVar(&limit, "limit", 20, "at most this many, 0 for all")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if limit < 0 {
			return usage(fmt.Sprintf("--limit: want 0 or more, got %d", limit))
		}
		ctx := cmd.Context()
		infos, err := listRuns(ctx, a, nil)
		if err != nil {
			return err
		}
		removed, until, err := unlisted.Hidden(ctx, a.store, "")
		if err != nil {
			return err
		}
		sizes, err := runSizes(ctx, a)
		if err != nil {
			return err
		}
		infos = append(infos, removed...)
		rows, total := make([]sizeJSON, 0, len(infos)), int64(0)
		for _, i := range infos {
			if _, ok := until[i.ID]; ok {
				i.Status = hidden
			}
			rows = append(rows, sizeJSON{i.ID, i.Workflow, i.Status, i.Head, sizes[i.ID]})
			total += sizes[i.ID]
		}
		slices.SortStableFunc(rows, func(x, y sizeJSON) int { return cmp.Compare(y.Bytes, x.Bytes) })
		all := len(rows)
		if limit > 0 {
			rows = rows[:min(limit, all)]
		}
		return printSizes(a, rows, all, total)
	}
	return cmd
}

func runSizes(ctx context.Context, a *app) (map[string]int64, error) {
	z, ok := runlog.As[runlog.Sizer](a.store)
	if !ok {
		return nil, &Error{Exit: ExitFailed, Code: "store", Message: fmt.Sprintf("store %s cannot tell how much room runs take", storeName(a))}
	}
	return z.Sizes(ctx, nil)
}

func printSizes(a *app, list []sizeJSON, runs int, total int64) error {
	switch a.set.output {
	case "json":
		return a.out.json(map[string]any{"runs": list, "total_runs": runs, "total_bytes": total}, true)
	case "jsonl":
		return rows(a.out, list)
	}
	for _, r := range list {
		a.out.line(fmt.Sprintf("%9s  %7d records  %s  %s  %s", inwords.Bytes(r.Bytes), r.Records, r.ID, r.Status, transcript.Line(r.Workflow)))
	}
	if runs > len(list) {
		a.out.line(fmt.Sprintf("%9s  and %d more runs", "…", runs-len(list)))
	}
	a.out.line(fmt.Sprintf("%9s  in %s", inwords.Bytes(total), inwords.Plural(runs, "run")))
	return nil
}

func runsGC(a *app) *cobra.Command {
	var keep superstep.Retention
	var within string
	cmd := &cobra.Command{
		Use: "gc", Short: "Remove old runs, and free their disk space", Args: none,
		Long: `Remove old runs, and free their disk space

A run is kept if any rule keeps it. Unfinished runs (running, paused, interrupted, quarantined) are
always kept, and so is every run that a kept one was forked from. Runs that runs rm has hidden 24 hours
ago are deleted, with or without a rule, and the disk space of deleted runs is freed.`,
		Example: examples(a.cfg.Name,
			"runs gc --keep 100", "the 100 newest of each workflow, and all unfinished ones",
			"runs gc --keep-within 30d --dry-run", "what would be removed",
			"runs gc", "delete what runs rm has hidden a day ago, and free disk space"),
	}
	cmd.Flags().IntVar(&keep.Newest, "keep", 0, "keep this many of the newest runs of each workflow")
	cmd.Flags().StringVar(&within, "keep-within", "", "keep the runs of the last `duration`, such as 12h, 30d or 2w")
	cmd.Flags().StringVar(&keep.Workflow, "workflow", "", "remove runs of this workflow only")
	cmd.Flags().BoolVar(&keep.Dry, "dry-run", false, "remove nothing, only say what would be")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if within != "" {
			var err error
			if keep.Within, err = arguments.Days(within); err != nil {
				return usage("--keep-within: " + err.Error())
			}
			if keep.Within == 0 {
				return usage(fmt.Sprintf("--keep-within: want more than 0, got %s; `%s runs rm` removes single runs", within, a.cfg.Name))
			}
		}
		switch {
		case keep.Newest < 0 || keep.Newest == 0 && keep.Within == 0 && cmd.Flags().Changed("keep"):
			return usage(fmt.Sprintf("--keep: want 1 or more, got %d", keep.Newest))
		case keep.Newest == 0 && keep.Within == 0 && keep.Workflow != "":
			return usage("runs gc: say what to keep: --keep N or --keep-within DURATION; `" + a.cfg.Name + " runs rm` removes single runs")
		}
		return collectRuns(cmd.Context(), a, keep)
	}
	return cmd
}

func collectRuns(ctx context.Context, a *app, keep superstep.Retention) error {
	e, err := a.looking(ctx)
	if err != nil {
		return err
	}
	var before map[string]int64
	if z, ok := runlog.As[runlog.Sizer](a.store); ok {
		if before, err = z.Sizes(ctx, nil); err != nil {
			return err
		}
	}
	if keep.Newest > 0 || keep.Within > 0 { // else only hidden runs are deleted
		all, err := e.Runs(ctx, nil)
		if err != nil {
			return err
		}
		for _, i := range all {
			if _, err := a.host().OriginOf(ctx, i.ID); errors.As(err, new(*runlog.CorruptError)) {
				a.tty.Warn(err.Error())
			}
			if key, ok := seal.Sealed(i); ok {
				return &Error{Exit: ExitUsage, Code: "encrypted", Message: fmt.Sprintf("run %s is encrypted with key %s: without it nobody knows what to keep",
					i.ID, key), Next: remedies(a, &runlog.SealedError{})}
			}
		}
	}
	removed, err := e.Prune(ctx, keep)
	if err != nil && !errors.Is(err, superstep.ErrKeepsNothing) {
		return err
	}
	out := struct {
		Removed []string `json:"removed"`
		Bytes   int64    `json:"bytes"` // of their records
		Freed   int64    `json:"freed"` // given back to the system
		Dry     bool     `json:"dry_run,omitempty"`
	}{Removed: []string{}, Dry: keep.Dry}
	for _, i := range removed {
		out.Removed = append(out.Removed, i.ID)
		out.Bytes += before[i.ID]
	}
	if r, ok := runlog.As[runlog.Reclaimer](a.store); ok && !keep.Dry {
		if out.Freed, err = r.Reclaim(ctx); err != nil {
			return err
		}
	}
	if a.programs() {
		return a.out.value(out)
	}
	verb := "removed"
	if keep.Dry {
		verb = "would remove"
		for _, i := range removed {
			a.out.line(fmt.Sprintf("%s  %s  %s  %s", i.ID, i.Status, inwords.Ago(time.Since(i.Updated)), transcript.Line(i.Workflow)))
		}
	}
	a.err.line(fmt.Sprintf("%s %s (%s)", verb, inwords.Plural(len(removed), "run"), inwords.Bytes(out.Bytes)))
	if out.Freed > 0 {
		a.err.line(inwords.Bytes(out.Freed) + " given back")
	}
	return nil
}
