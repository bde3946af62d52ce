package runlog

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// MemoryOptions are the settings of a Memory store. Nil and zero values mean the
// written defaults.
type MemoryOptions struct {
	Now   func() time.Time // the clock for leases and listings; default time.Now
	Lease time.Duration    // how long a hold lasts unless it is renewed; default 15 s
	Owner string           // who holds the runs, for people; default "pid N"
}

// Memory is a Store without durability: its runs are lost when the process ends. It stores the same
// frames as other stores, so callers never share memory with the stored records. It is a Waiter.
type Memory struct {
	now   func() time.Time
	lease time.Duration
	owner string

	mu   sync.Mutex
	runs map[string]*memoryRun
	made uint64 // how many runs were made, which orders listings
}

type memoryRun struct {
	info   Info // Status as stored, Owner "" when released
	no     uint64
	until  time.Time
	frames [][]byte
	hash   FrameHash
	grown  chan struct{} // closed when the run grows or goes
}

// NewMemory returns an empty store.
func NewMemory(opt *MemoryOptions) *Memory {
	m := &Memory{now: time.Now, lease: 15 * time.Second, owner: fmt.Sprintf("pid %d", os.Getpid()), runs: map[string]*memoryRun{}}
	if opt == nil {
		return m
	}
	if opt.Now != nil {
		m.now = opt.Now
	}
	if opt.Lease > 0 {
		m.lease = opt.Lease
	}
	if opt.Owner != "" {
		m.owner = opt.Owner
	}
	return m
}

const memoryName = "this process's memory"

func (m *Memory) find(id string) (*memoryRun, error) {
	if r := m.runs[id]; r != nil {
		return r, nil
	}
	return nil, &NotFoundError{ID: id, Store: memoryName}
}

func (r *memoryRun) held(now time.Time) bool { return r.info.Owner != "" && now.Before(r.until) }

func (r *memoryRun) wake() {
	close(r.grown)
	r.grown = make(chan struct{})
}

// listed returns the run as listings show it.
func (r *memoryRun) listed(now time.Time) Info {
	info := r.info
	info.Show(r.held(now), info.Owner != "")
	return info
}

// Acquire implements Store.
func (m *Memory) Acquire(ctx context.Context, id string, opt *AcquireOptions) (Log, Info, error) {
	if err := CheckID(id); err != nil {
		return nil, Info{}, err
	}
	if err := ctx.Err(); err != nil {
		return nil, Info{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now().UTC()
	r := m.runs[id]
	switch creating := opt != nil && opt.Create != nil; {
	case creating && r != nil:
		return nil, Info{}, fmt.Errorf("run %s: %w", id, ErrExists)
	case creating:
		m.made++
		r = &memoryRun{no: m.made, grown: make(chan struct{})}
		r.info = Info{ID: id, Workflow: opt.Create.Workflow, Title: opt.Create.Title, Parent: opt.Create.Parent, Status: cmp.Or(opt.Create.Status, Running),
			Created: now}
		m.runs[id] = r
	case r == nil:
		return nil, Info{}, &NotFoundError{ID: id, Store: memoryName}
	case r.held(now):
		return nil, Info{}, &BusyError{ID: id, Owner: r.info.Owner, Until: r.until}
	default:
		n, err := r.info.TakeOver(r.info.Owner != "", opt)
		if err != nil {
			return nil, Info{}, err
		}
		r.info.Takeovers = n
	}
	r.info.Epoch++
	r.info.Owner = m.owner
	r.info.Updated = now
	r.until = now.Add(m.lease)
	return &memoryLog{m: m, r: r, id: id, epoch: r.info.Epoch}, r.info, nil
}

// Read implements Store.
func (m *Memory) Read(ctx context.Context, id string, from uint64, limit int) ([]Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	r, err := m.find(id)
	var frames [][]byte
	if err == nil {
		frames = r.frames // stored frames never change
	}
	m.mu.Unlock()
	if err != nil {
		return nil, err
	}
	from = max(from, 1)
	if from > uint64(len(frames)) {
		return nil, nil
	}
	count := uint64(len(frames)) - from + 1
	if limit > 0 {
		count = min(count, uint64(limit))
	}
	records := make([]Record, 0, count)
	first := max(from-1, 1) // one earlier, to check the link
	chain := NewChain(id, first)
	for _, frame := range frames[first-1 : from-1+count] {
		rec, err := chain.Next(slices.Clone(frame))
		if err != nil {
			return records, err
		}
		if rec.Seq >= from {
			records = append(records, rec)
		}
	}
	return records, nil
}

// Runs implements Store.
func (m *Memory) Runs(ctx context.Context, f *Filter) ([]Info, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if f == nil {
		f = &Filter{}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	runs := make([]*memoryRun, 0, len(m.runs))
	for id, r := range m.runs {
		if (f.ID == "" || id == f.ID) && strings.HasPrefix(id, f.Prefix) {
			runs = append(runs, r)
		}
	}
	slices.SortFunc(runs, func(a, b *memoryRun) int { return int(b.no) - int(a.no) })
	var infos []Info
	for _, r := range runs {
		info := r.listed(now)
		if !f.Takes(info.Status) {
			continue
		}
		infos = append(infos, info)
		if len(infos) == f.Limit {
			break
		}
	}
	return infos, nil
}

// RequestCancel implements Store.
func (m *Memory) RequestCancel(ctx context.Context, id string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r, err := m.find(id)
	if err != nil {
		return err
	}
	r.info.Cancel = !r.info.Status.Ended()
	return nil
}

// Delete implements Store.
func (m *Memory) Delete(ctx context.Context, id string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r, err := m.find(id)
	if err != nil {
		return err
	}
	if r.held(m.now()) {
		return &BusyError{ID: id, Owner: r.info.Owner, Until: r.until}
	}
	r.info.Epoch++ // fences a holder whose lease ran out
	delete(m.runs, id)
	r.wake()
	return nil
}

// Wait implements Waiter.
func (m *Memory) Wait(ctx context.Context, id string, seq uint64) error {
	m.mu.Lock()
	r, err := m.find(id)
	if err != nil || r.info.Head >= seq {
		m.mu.Unlock()
		return err
	}
	grown := r.grown
	m.mu.Unlock()
	select {
	case <-grown:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

type memoryLog struct {
	m     *Memory
	r     *memoryRun
	id    string
	epoch uint64

	released bool // guarded by m.mu
}

// own reports whether the log still holds its run; m.mu is held.
func (l *memoryLog) own() error {
	if l.released || l.r.info.Epoch != l.epoch {
		return fmt.Errorf("run %s: %w", l.id, ErrFenced)
	}
	return nil
}

// Append implements Log.
func (l *memoryLog) Append(ctx context.Context, b *Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	if err := l.own(); err != nil {
		return err
	}
	r := l.r
	if r.info.Status.Ended() {
		return &EndedError{ID: l.id, Status: r.info.Status}
	}
	if n := len(b.Summary); n > MaxSummary {
		return fmt.Errorf("run %s: the summary of a batch has %d bytes, at most %d are allowed", l.id, n, MaxSummary)
	}
	frames := make([][]byte, 0, len(b.Records))
	hash, snapshot := r.hash, r.info.Snapshot
	for i := range b.Records {
		rec := b.Records[i]
		rec.Seq, rec.Epoch = r.info.Head+uint64(i)+1, l.epoch
		frame, h, err := AppendFrame(nil, hash, &rec)
		if err != nil {
			return fmt.Errorf("run %s: %w", l.id, err)
		}
		if rec.Kind == KindSnapshot {
			snapshot = rec.Seq
		}
		frames, hash = append(frames, frame), h
	}
	for i := range b.Records {
		b.Records[i].Seq, b.Records[i].Epoch = r.info.Head+uint64(i)+1, l.epoch
	}
	r.frames = append(r.frames, frames...)
	r.hash, r.info.Snapshot = hash, snapshot
	r.info.Head += uint64(len(frames))
	if len(b.Summary) > 0 {
		r.info.Summary = b.Summary
	}
	if b.Status != "" && b.Status != r.info.Status {
		r.info.Status = b.Status
		r.info.Updated = l.m.now().UTC()
	}
	if r.info.Status.Ended() {
		r.info.Cancel = false
	}
	if len(frames) > 0 {
		r.wake()
	}
	return nil
}

// Renew implements Log.
func (l *memoryLog) Renew(ctx context.Context) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	if err := l.own(); err != nil {
		return false, err
	}
	l.r.until = l.m.now().Add(l.m.lease)
	return l.r.info.Cancel, nil
}

// Release implements Log.
func (l *memoryLog) Release(context.Context) error {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	if l.own() == nil {
		l.r.info.Owner, l.r.info.Takeovers = "", 0
	}
	l.released = true
	return nil
}

// Sizes implements Sizer.
func (m *Memory) Sizes(ctx context.Context, f *Filter) (map[string]int64, error) {
	infos, err := m.Runs(ctx, f)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	sizes := map[string]int64{}
	for i := range infos {
		if r := m.runs[infos[i].ID]; r != nil && len(r.frames) > 0 {
			for _, frame := range r.frames {
				sizes[infos[i].ID] += int64(len(frame))
			}
		}
	}
	return sizes, nil
}
