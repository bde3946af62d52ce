package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/internal/archive"
	"github.com/superstep-dev/superstep/internal/rundir"
	"github.com/superstep-dev/superstep/internal/summary"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/internal/unlisted"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/seal"
)

// Listings use these statuses in addition to the statuses of a store.
const (
	Waiting runlog.Status = "waiting" // it executes and does nothing but wait for answers
	Damaged runlog.Status = "damaged" // its log cannot be read from its beginning
)

// ReasonMessage is the Reason of a run that waits for the next message of a conversation and needs no user's action.
const ReasonMessage = "message"

// A RunItem is a run in a listing.
type RunItem struct {
	ID       string        `json:"id"`
	Workflow string        `json:"workflow"`
	Title    string        `json:"title,omitempty"`
	Status   runlog.Status `json:"status"`
	Created  time.Time     `json:"created"`
	Updated  time.Time     `json:"updated"`
	Owner    string        `json:"owner,omitempty"`
	Reason   string        `json:"reason,omitempty"` // why it is paused: "budget", "message", "" for questions; or why no worker takes it
	Next     string        `json:"next,omitempty"`   // the command that helps a run that no worker takes, without the name of the program
	Parent   string        `json:"parent,omitempty"` // of a fork, and of a child
	Child    bool          `json:"child,omitempty"`  // a task of the parent waits for it
	Imported *Origin       `json:"imported,omitempty"`

	// The rest is of listings alone, as of the last change of the status or the questions, or about a second ago.

	Waits  string           `json:"waits,omitempty"`     // for what: person, message, budget, rate_limit, retry, date, storage, operator or worker; "" if it does not wait
	Until  *time.Time       `json:"until,omitempty"`     // of a rate limit, or before which no worker takes it
	Open   int              `json:"open,omitempty"`      // questions that need an answer
	Step   int              `json:"step,omitempty"`      // how many supersteps are committed
	Done   int              `json:"done,omitempty"`      // how many of the nodes of its graph have a result
	Nodes  int              `json:"nodes,omitempty"`     // of its graph, 0 if they are not known
	Failed string           `json:"failed_in,omitempty"` // the task for which it failed, or is partial
	Tokens int64            `json:"tokens,omitempty"`
	Cost   *transcript.Cost `json:"cost,omitempty"`    // nil if that is not known
	Folder string           `json:"project,omitempty"` // the project that it belongs to, "" if that is not known
}

// NewRunItem returns a run for a listing, which lacks the budget that is short, if it is non-nil, and was imported if it has an
// origin.
func NewRunItem(i *runlog.Info, short *runlog.BudgetError, o *Origin) RunItem {
	item := RunItem{i.ID, i.Workflow, i.Title, i.Status, i.Created, i.Updated, i.Owner, "", "", i.Parent, i.IsChild(), o, "", nil, 0, 0, 0, 0, "", 0, nil, ""}
	if short != nil {
		item.Reason = short.FailureCode()
	}
	return item
}

// RunItems returns runs as faces list them, from their summaries: it reads the log only of imported runs, and of runs without a summary, and of
// these one or two records. Problems are of runs that are listed all the same.
func (h *Host) RunItems(ctx context.Context, infos []runlog.Info) (items []RunItem, problems []error, err error) {
	store, err := h.Store(ctx, true)
	if err != nil {
		return nil, nil, err
	}
	items, problems = h.runItems(ctx, store, infos)
	return items, problems, nil
}

func (h *Host) runItems(ctx context.Context, store runlog.Store, infos []runlog.Info) (items []RunItem, problems []error) {
	items = make([]RunItem, 0, len(infos))
	now, workers := time.Now(), []unlisted.Worker(nil)
	if slices.ContainsFunc(infos, waitsForWorker) {
		var err error
		if workers, err = unlisted.Workers(ctx, store); err != nil {
			problems = append(problems, err)
		}
	}
	for _, i := range infos {
		sum, paused := summary.Of(&i), runlog.RunPaused{}
		if sum == nil {
			var err error
			if paused, err = pausedOf(ctx, store, &i); err != nil {
				problems = append(problems, err)
			}
		} else if i.Status == runlog.Running && (sum.Waits == summary.Person || sum.Waits == summary.Message) {
			i.Status = Waiting
		}
		var o *Origin
		if key, ok := seal.Sealed(i); ok {
			i.Workflow, i.Title = "(encrypted)", "with key "+key
		} else if sum == nil || sum.Imported {
			var err error
			if o, err = h.originOf(ctx, store, i.ID); err != nil {
				problems = append(problems, err)
				if errors.As(err, new(*runlog.CorruptError)) {
					i.Status = Damaged
				}
			}
		}
		item := NewRunItem(&i, paused.Short, o)
		if paused.Message {
			item.Reason = ReasonMessage
		}
		if sum != nil {
			item.describe(sum, now)
		}
		if u := h.unservedBy(workers, &i, now); u != nil {
			item.Reason, item.Next = u.why, u.next
		}
		items = append(items, item)
	}
	return items, problems
}

// describe adds what the summary of the run says.
func (r *RunItem) describe(s *summary.Summary, now time.Time) {
	r.Waits, r.Until, r.Open, r.Step, r.Done, r.Nodes, r.Failed, r.Tokens, r.Folder = s.Waits, s.Until, s.Open, s.Steps, s.Done, s.Of, s.Failed, s.Tokens, s.Folder
	switch {
	case s.Waits == summary.Budget, s.Waits == summary.Message:
		r.Reason = s.Waits
	case r.Status == runlog.Queued && s.Rests() && s.Until != nil && now.Before(*s.Until):
		r.Reason = "waits until " + s.Until.Local().Format("2006-01-02 15:04")
	case r.Status == runlog.Queued && s.Until != nil && now.Before(*s.Until):
		r.Reason = "not before " + s.Until.Local().Format("2006-01-02 15:04")
	case r.Status == runlog.Queued && s.Queue != nil && len(s.Queue.Place) > 0:
		r.Reason = "needs a worker with " + strings.Join(s.Queue.Place, ", ")
	}
	if s.Tokens > 0 && (s.Cost > 0 || !s.More) {
		r.Cost = &transcript.Cost{Micros: s.Cost, More: s.More}
	}
}

// pausedOf returns why a run without a summary is paused, from its last record.
func pausedOf(ctx context.Context, store runlog.Store, info *runlog.Info) (d runlog.RunPaused, err error) {
	if info.Status != runlog.Paused {
		return d, nil
	}
	recs, err := store.Read(ctx, info.ID, info.Head, 1)
	if err != nil || len(recs) == 0 || recs[0].Kind != runlog.KindRunPaused {
		return d, err
	}
	if err := json.Unmarshal(recs[0].Data, &d); err != nil {
		return d, fmt.Errorf("run %s: its last record: %w", info.ID, err)
	}
	return d, nil
}

// OriginOf returns the mark of a run, nil if it was not imported.
func (h *Host) OriginOf(ctx context.Context, id string) (*Origin, error) {
	store, err := h.Store(ctx, true)
	if err != nil {
		return nil, err
	}
	return h.originOf(ctx, store, id)
}

func (h *Host) originOf(ctx context.Context, store runlog.Store, id string) (*Origin, error) {
	im, err := runlog.Origin(ctx, store, id)
	if err != nil || im == nil {
		return nil, err
	}
	trusted, err := h.trustsRun(im)
	return &Origin{im.Time, im.Dir, im.Digest, im.Records, trusted, runItem(im)}, err
}

// Transcript folds the log of a run. On an error it also returns the part read so far.
func (h *Host) Transcript(ctx context.Context, info *runlog.Info) (*transcript.Run, error) {
	run := &transcript.Run{}
	store, err := h.Store(ctx, true)
	if err != nil {
		return run, err
	}
	for rec, err := range runlog.Records(ctx, store, info.ID, 0) {
		if err != nil {
			return run, err
		}
		run.Apply(rec)
	}
	run.End(info.Status)
	return run, nil
}

// UpdateFolder updates the folder of a run that no process executes, for example after a crash. It returns the folder, or "" if the run has no
// folder.
func (h *Host) UpdateFolder(ctx context.Context, info *runlog.Info) (dir string, err error) {
	dir, redactor := h.Folder(info.ID)
	if _, sealed := seal.Sealed(*info); dir == "" || sealed {
		return "", nil
	}
	if info.Status != runlog.Running {
		store, err := h.Store(ctx, true)
		if err != nil {
			return dir, err
		}
		return dir, rundir.Write(ctx, store, info.ID, dir, &rundir.Options{Redactor: redactor})
	}
	return dir, nil
}

// removeFolder removes the folder of a run that was deleted.
func (h *Host) removeFolder(id string) {
	if runlog.CheckID(id) != nil {
		return
	}
	dir := h.RunDir(id)
	err := errors.Join(os.RemoveAll(filepath.Join(dir, "results")), os.RemoveAll(filepath.Join(dir, "work"))) // what agents had there
	if gone := rundir.Remove(dir); !errors.Is(gone, fs.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	if err != nil {
		h.cfg.Warn(fmt.Sprintf("the folder of run %s is still there: %v", id, err))
	}
}

// ExportOptions say where a run is written, and how.
type ExportOptions struct {
	File       string    // as JSON Lines
	Dir        string    // as a folder for people
	Out        io.Writer // as JSON Lines, where neither a file nor a folder is named
	Unredacted bool      // take nothing out
}

// Export writes a run. A file appears when it is whole.
func (h *Host) Export(ctx context.Context, id string, opt *ExportOptions) error {
	store, err := h.Store(ctx, true)
	if err != nil {
		return err
	}
	r := h.Redactor()
	if opt.Dir != "" {
		return rundir.Write(ctx, store, id, h.Abs(opt.Dir), &rundir.Options{Redactor: r, Plain: opt.Unredacted, Log: true})
	}
	if opt.Unredacted {
		r = nil
	}
	if opt.File == "" {
		return archive.Export(ctx, store, id, opt.Out, r)
	}
	file := h.Abs(opt.File)
	if there, err := os.Lstat(file); err == nil && !there.Mode().IsRegular() { // a link, a pipe, a device
		f, err := os.OpenFile(file, os.O_WRONLY|os.O_TRUNC, 0)
		if err != nil {
			return cannotWrite(opt.File, err)
		}
		return errors.Join(archive.Export(ctx, store, id, f, r), f.Close())
	}
	t, err := os.CreateTemp(filepath.Dir(file), ".export-*")
	if err != nil {
		return cannotWrite(opt.File, err)
	}
	defer func() { _ = os.Remove(t.Name()) }() // it is gone if all went well
	if err := errors.Join(archive.Export(ctx, store, id, t, r), t.Sync(), t.Close()); err != nil {
		return err
	}
	if err := os.Rename(t.Name(), file); err != nil {
		return fmt.Errorf("writing the export: %w", err)
	}
	return nil
}

func cannotWrite(path string, err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	return mistake(fmt.Sprintf("cannot write %s: %v", path, err))
}

// Import creates a run from an export. If as is "", it has the ID of the file. An export read from a pipe is first copied to a
// temporary file.
func (h *Host) Import(ctx context.Context, r io.Reader, as string) (runlog.Info, error) {
	store, err := h.Store(ctx, false)
	if err != nil {
		return runlog.Info{}, err
	}
	file, ok := r.(io.ReadSeeker) // it is read twice
	if ok {
		_, err = file.Seek(0, io.SeekCurrent)
	}
	if !ok || err != nil {
		t, err := os.CreateTemp(h.Temp(), "import-*")
		if err != nil {
			return runlog.Info{}, err
		}
		defer func() { _ = errors.Join(t.Close(), os.Remove(t.Name())) }() // it is a copy
		if _, err = io.Copy(t, r); err == nil {
			_, err = t.Seek(0, io.SeekStart)
		}
		if err != nil {
			return runlog.Info{}, mistake(fmt.Sprintf("cannot read the file: %v", err))
		}
		file = t
	}
	return archive.Import(ctx, store, file, &archive.ImportOptions{ID: as, Dir: h.Dir()})
}
