package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/internal/unlisted"
	"github.com/superstep-dev/superstep/runlog"
)

func runsRemove(a *app) *cobra.Command {
	var now bool
	cmd := &cobra.Command{
		Use: "rm ID...", SuggestFor: []string{"remove", "delete", "del"}, Short: "Remove runs, which can be restored for 24 hours", ValidArgsFunction: a.ids,
		Long: `Remove runs, which can be restored for 24 hours

A removed run is hidden with its child runs: nothing lists, resumes or changes it. After 24 hours, runs gc
deletes it. On a full disk, removed runs are deleted first, and at once.`,
		Example: examples(a.cfg.Name, "runs rm 7f3a", "", "runs rm @last @-2", "", "runs list --status hidden", "what can be restored", "runs rm --now 7f3a", "delete the run and its log for good"),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return oneRun(cmd, args)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&now, "now", false, "delete the runs and their logs at once, also removed ones")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		var ids []string // all are found before one is removed, since @last moves
		var engine *superstep.Engine
		for _, ref := range args {
			e, info, err := findRun(ctx, a, ref)
			if gone, ok := errors.AsType[*runlog.NotFoundError](err); ok && gone.Hidden && now {
				info.ID, err = gone.ID, nil
			}
			if err != nil {
				return err
			}
			engine = e
			if !slices.Contains(ids, info.ID) {
				ids = append(ids, info.ID)
			}
		}
		for _, id := range ids {
			if err := removeRun(ctx, a, engine, id, now); err != nil {
				return err
			}
		}
		if a.programs() {
			return a.out.value(map[string]any{"removed": ids})
		}
		return nil
	}
	return cmd
}

// removeRun hides a run, or deletes it at once.
func removeRun(ctx context.Context, a *app, e *superstep.Engine, id string, now bool) error {
	if now {
		err := e.Delete(ctx, id)
		if err == nil {
			a.note("deleted run " + id)
		}
		return err
	}
	err := e.Hide(ctx, id)
	if full, ok := errors.AsType[*runlog.StorageError](err); ok {
		return &Error{Exit: ExitFailed, Code: "waiting_storage", Message: fmt.Sprintf("store %s can take no more (%v), so run %s cannot be hidden", full.Store, full.Err, id),
			Next: []string{"delete it for good: " + a.hint("runs", "rm", "--now", id)}, Err: err}
	}
	if err == nil {
		a.note(fmt.Sprintf("removed run %s; restore it within 24 hours: %s", id, a.hint("runs", "restore", id)))
	}
	return err
}

func runsRestore(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "restore ID...", SuggestFor: []string{"undo", "undelete", "unhide"}, Short: "Restore removed runs", ValidArgsFunction: cobra.NoFileCompletions,
		Example: examples(a.cfg.Name, "runs restore 7f3a", "", "runs list --status hidden", "what can be restored"),
		RunE: func(cmd *cobra.Command, args []string) error {
			list := a.hint("runs", "list", "--status", string(hidden))
			if len(args) == 0 {
				return usage("runs restore: name removed runs, by the start of their IDs; `" + list + "` shows those there are")
			}
			e, err := a.looking(cmd.Context())
			if err != nil {
				return err
			}
			ids := []string{}
			for _, ref := range args {
				id, err := e.Restore(cmd.Context(), ref)
				if errors.As(err, new(*runlog.NotFoundError)) {
					return &Error{Exit: ExitUsage, Code: "unknown_run", Err: err, Message: fmt.Sprintf("no removed run %q in %s; `%s` shows those there are", ref, storeName(a), list)}
				}
				if err != nil {
					return err
				}
				a.note("restored run " + id)
				ids = append(ids, id)
			}
			if a.programs() {
				return a.out.value(map[string]any{"restored": ids})
			}
			return nil
		},
	}
}

// hidden is the status with which removed runs are listed.
const hidden runlog.Status = "hidden"

// hiddenRuns lists the removed runs without their children, and until when each can be restored at least.
func hiddenRuns(ctx context.Context, a *app) ([]runlog.Info, map[string]time.Time, error) {
	if _, err := a.looking(ctx); err != nil {
		return nil, nil, err
	}
	infos, until, err := unlisted.Hidden(ctx, a.store, "")
	return slices.DeleteFunc(infos, func(i runlog.Info) bool { return i.IsChild() }), until, err
}
