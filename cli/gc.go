package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/seal"
)

// storageCommands are the commands about the disk space that runs take, and about runs as files.
type storageCommands struct{ *app }

// days reads a duration that may be in days or weeks: 12h, 30d, 2w.
func days(s string) (time.Duration, error) {
	for unit, hours := range map[string]float64{"d": 24, "w": 7 * 24} {
		if n, ok := strings.CutSuffix(s, unit); ok {
			f, err := strconv.ParseFloat(n, 64)
			if err != nil || !(f >= 0 && f < 36500) {
				return 0, fmt.Errorf("want a duration such as 12h, 30d or 2w, got %q", s)
			}
			return time.Duration(f * hours * float64(time.Hour)), nil
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("want a duration such as 12h, 30d or 2w, got %q", s)
	}
	return d, nil
}

// sizeJSON is how much room a run takes.
type sizeJSON struct {
	ID       string        `json:"id"`
	Workflow string        `json:"workflow"`
	Status   runlog.Status `json:"status"`
	Records  uint64        `json:"records"`
	Bytes    int64         `json:"bytes"`
}

func (a storageCommands) duCommand() *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use: "du", Short: "Show how much room runs take, the largest first", Args: a.none,
		Example: examples(a.cfg.Name, "runs du", "", "runs du --limit 0 -o jsonl", "all of them"),
	}
	cmd.Flags().IntVar(&limit, "limit", 20, "at most this many, 0 for all")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if limit < 0 {
			return usage(fmt.Sprintf("--limit: want 0 or more, got %d", limit))
		}
		ctx := cmd.Context()
		infos, err := a.list(ctx, nil)
		if err != nil {
			return err
		}
		sizes, err := a.sizes(ctx)
		if err != nil {
			return err
		}
		rows, total := make([]sizeJSON, 0, len(infos)), int64(0)
		for _, i := range infos {
			rows = append(rows, sizeJSON{i.ID, i.Workflow, i.Status, i.Head, sizes[i.ID]})
			total += sizes[i.ID]
		}
		slices.SortStableFunc(rows, func(x, y sizeJSON) int { return cmp.Compare(y.Bytes, x.Bytes) })
		all := len(rows)
		if limit > 0 {
			rows = rows[:min(limit, all)]
		}
		return a.printSizes(rows, all, total)
	}
	return cmd
}

func (a storageCommands) sizes(ctx context.Context) (map[string]int64, error) {
	z, ok := runlog.As[runlog.Sizer](a.store)
	if !ok {
		return nil, &Error{Exit: ExitFailed, Code: "store", Message: fmt.Sprintf("store %s cannot tell how much room runs take", a.storeName())}
	}
	return z.Sizes(ctx, nil)
}

func (a storageCommands) printSizes(list []sizeJSON, runs int, total int64) error {
	switch a.set.output {
	case "json":
		return a.out.json(map[string]any{"runs": list, "total_runs": runs, "total_bytes": total}, true)
	case "jsonl":
		return rows(a.out, list)
	}
	for _, r := range list {
		a.out.line(fmt.Sprintf("%9s  %7d records  %s  %s  %s", size(r.Bytes), r.Records, r.ID, r.Status, transcript.Line(r.Workflow)))
	}
	if runs > len(list) {
		a.out.line(fmt.Sprintf("%9s  and %d more runs", "…", runs-len(list)))
	}
	a.out.line(fmt.Sprintf("%9s  in %s", size(total), plural(runs, "run")))
	return nil
}

// size is a number of bytes for people.
func size(n int64) string {
	units := []string{"B", "KB", "MB", "GB", "TB"}
	f, u := float64(n), 0
	for f >= 999.5 && u < len(units)-1 {
		f, u = f/1000, u+1
	}
	if u == 0 || f >= 99.5 {
		return fmt.Sprintf("%.0f %s", f, units[u])
	}
	return fmt.Sprintf("%.1f %s", f, units[u])
}

func (a storageCommands) gcCommand() *cobra.Command {
	var keep superstep.Retention
	var within string
	cmd := &cobra.Command{
		Use: "gc", Short: "Remove old runs, and give their room back", Args: a.none,
		Long: `Remove old runs, and give their room back

A run is kept if any rule keeps it. Whatever the rules say, runs that are not over are kept
(running, paused, interrupted, quarantined ones), and every run that a kept one was forked
from. Without a rule nothing is removed; the room of runs removed before is given back.`,
		Example: examples(a.cfg.Name,
			"runs gc --keep 100", "the 100 newest of each workflow, and whatever is not over",
			"runs gc --keep-within 30d --dry-run", "what would be removed",
			"runs gc", "give back the room of removed runs"),
	}
	cmd.Flags().IntVar(&keep.Newest, "keep", 0, "keep this many of the newest runs of each workflow")
	cmd.Flags().StringVar(&within, "keep-within", "", "keep the runs of the last `duration`, such as 12h, 30d or 2w")
	cmd.Flags().StringVar(&keep.Workflow, "workflow", "", "remove runs of this workflow only")
	cmd.Flags().BoolVar(&keep.Dry, "dry-run", false, "remove nothing, only say what would be")
	acts(cmd, "keep", "keep-within", "workflow", "dry-run")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if within != "" {
			var err error
			if keep.Within, err = days(within); err != nil {
				return usage("--keep-within: " + err.Error())
			}
		}
		switch {
		case keep.Newest < 0:
			return usage(fmt.Sprintf("--keep: want 1 or more, got %d", keep.Newest))
		case keep.Newest == 0 && keep.Within == 0 && (keep.Workflow != "" || cmd.Flags().Changed("keep") || within != ""):
			return usage("runs gc: say what to keep: --keep N or --keep-within DURATION; `" + a.cfg.Name + " runs rm` removes single runs")
		}
		return a.gc(cmd.Context(), keep)
	}
	return cmd
}

func (a storageCommands) gc(ctx context.Context, keep superstep.Retention) error {
	e, err := a.looking(ctx)
	if err != nil {
		return err
	}
	var before map[string]int64
	if keep.Newest > 0 || keep.Within > 0 { // else nothing is removed
		if z, ok := runlog.As[runlog.Sizer](a.store); ok {
			if before, err = z.Sizes(ctx, nil); err != nil {
				return err
			}
		}
		all, err := e.Runs(ctx, nil)
		if err != nil {
			return err
		}
		for _, i := range all {
			if _, err := a.origin(ctx, i.ID); errors.As(err, new(*runlog.CorruptError)) {
				a.warn(err.Error())
			}
			if key, ok := seal.Sealed(i); ok {
				return &Error{Exit: ExitUsage, Code: "encrypted", Message: fmt.Sprintf("run %s is encrypted with key %s: without it nobody knows what to keep",
					i.ID, key), Next: a.remedies(&runlog.SealedError{})}
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
		if !keep.Dry {
			folders(a).sweep(i.ID)
		}
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
			a.out.line(fmt.Sprintf("%s  %s  %s  %s", i.ID, i.Status, ago(time.Since(i.Updated)), transcript.Line(i.Workflow)))
		}
	}
	a.err.line(fmt.Sprintf("%s %s (%s)", verb, plural(len(removed), "run"), size(out.Bytes)))
	if out.Freed > 0 {
		a.err.line(size(out.Freed) + " given back")
	}
	return nil
}
