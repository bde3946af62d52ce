package memory

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/internal/unlisted"
	"github.com/superstep-dev/superstep/runlog"
)

// A Space holds the values of one namespace.
//
// Its log only grows. Once most of it is of no use any more, a writer copies what lives into a new log, of the next generation, and ends the old one with
// a record that says so. That record is the switch: a log without it is the current one, whatever newer ones there are, and nobody writes behind it. Then
// the old log is deleted. A crash at any point leaves one current log.
type Space struct {
	m    *Memory
	name string

	mu      sync.Mutex
	log     string // ID of the log that has been read, "" for none
	seq     uint64 // how far
	moved   bool   // it has ended
	items   map[string]*stored
	size    int      // bytes of their values
	written []string // IDs of writes, the newest last
}

type stored struct {
	Item
	vector []float64 // of its text, with length 1; nil if it is not known
	words  map[string]int
}

// An entry is the data of a record.
type entry struct {
	ID     string   `json:"id,omitempty"`
	Item   *Item    `json:"item,omitempty"`
	Forget string   `json:"forget,omitempty"`
	Clear  bool     `json:"clear,omitempty"`
	Known  []string `json:"known,omitempty"` // of a new generation: IDs of earlier writes
	Moved  bool     `json:"moved,omitempty"` // the next generation is current
}

const kindMemory runlog.Kind = "memory"

const (
	mostIDs = 1000 // of writes that are known
	batch   = 500  // records of an append or a read
)

// prefix begins the IDs of the logs of the namespace; the number of the generation follows.
func (s *Space) prefix() string {
	sum := sha256.Sum256([]byte(s.name))
	return unlisted.MemoryPrefix + hex.EncodeToString(sum[:16]) + "-"
}

func (s *Space) generation(id string) int {
	n, err := strconv.Atoi(strings.TrimPrefix(id, s.prefix()))
	if err != nil {
		return -1
	}
	return n
}

// reset forgets what has been read.
func (s *Space) reset(log string) {
	s.log, s.seq, s.moved, s.items, s.size, s.written = log, 0, false, map[string]*stored{}, 0, nil
}

// refresh reads what has been written. The space's lock is held.
func (s *Space) refresh(ctx context.Context) error {
	for {
		if s.log == "" {
			first, err := s.first(ctx)
			if err != nil || first == "" {
				s.reset("")
				return err
			}
			s.reset(first)
		}
		recs, err := s.m.store.Read(ctx, s.log, s.seq+1, batch)
		if errors.As(err, new(*runlog.NotFoundError)) { // its successor is current
			s.reset("")
			continue
		}
		if err != nil {
			return fmt.Errorf("memory %s: %w", s.name, err)
		}
		for i := range recs {
			if err := s.apply(&recs[i]); err != nil {
				return err
			}
		}
		switch {
		case s.moved:
			s.reset(s.prefix() + strconv.Itoa(s.generation(s.log)+1))
		case len(recs) < batch:
			return nil
		}
	}
}

// first returns the log of the oldest generation, "" if there is none. An empty one counts only if there is no other: it has just been created.
func (s *Space) first(ctx context.Context) (string, error) {
	infos, err := s.generations(ctx)
	if err != nil || len(infos) == 0 {
		return "", err
	}
	return infos[max(0, slices.IndexFunc(infos, func(i runlog.Info) bool { return i.Head > 0 }))].ID, nil
}

// generations returns the logs of the namespace, the oldest first.
func (s *Space) generations(ctx context.Context) ([]runlog.Info, error) {
	infos, err := s.m.store.Runs(ctx, &runlog.Filter{Prefix: s.prefix(), Status: []runlog.Status{runlog.Importing}})
	if err != nil {
		return nil, fmt.Errorf("memory %s: %w", s.name, err)
	}
	slices.SortFunc(infos, func(a, b runlog.Info) int { return s.generation(a.ID) - s.generation(b.ID) })
	return infos, nil
}

func (s *Space) apply(r *runlog.Record) error {
	var e entry
	err := json.Unmarshal(r.Data, &e)
	if r.Kind != kindMemory {
		err = fmt.Errorf("it is a %s", r.Kind)
	}
	if err != nil {
		return fmt.Errorf("memory %s: record %d of %s: %w", s.name, r.Seq, s.log, err)
	}
	s.seq = r.Seq
	if e.Clear {
		s.items, s.size = map[string]*stored{}, 0
	}
	if e.Item != nil {
		s.remove(e.Item.Key)
		s.items[e.Item.Key] = &stored{Item: *e.Item}
		s.size += len(e.Item.Value)
	}
	if e.Forget != "" {
		s.remove(e.Forget)
	}
	if e.ID != "" {
		e.Known = append(e.Known, e.ID)
	}
	s.written = append(s.written, e.Known...)
	s.written = s.written[max(0, len(s.written)-mostIDs):]
	s.moved = e.Moved
	return nil
}

func (s *Space) remove(key string) {
	if i := s.items[key]; i != nil {
		s.size -= len(i.Value)
		delete(s.items, key)
	}
}

func (s *Space) alive(i *Item) bool { return i.Expires.IsZero() || s.m.opt.Now().Before(i.Expires) }

// write appends an entry to the current log. It waits for other writers.
func (s *Space) write(ctx context.Context, e *entry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		err := s.try(ctx, e)
		switch {
		case err == nil:
			return nil
		case errors.As(err, new(*runlog.BusyError)), errors.Is(err, runlog.ErrExists), errors.Is(err, runlog.ErrFenced), errors.As(err, new(*runlog.NotFoundError)), errors.Is(err, errMoved):
		case errors.Is(err, runlog.ErrUnknown) && e.ID != "": // it is known then if it is there
		default:
			return fmt.Errorf("memory %s: %w", s.name, err)
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("memory %s: %w", s.name, errors.Join(context.Cause(ctx), err))
		}
	}
}

var errMoved = errors.New("another generation is current")

func (s *Space) try(ctx context.Context, e *entry) error {
	if err := s.refresh(ctx); err != nil {
		return err
	}
	opt, id := &runlog.AcquireOptions{Quarantined: true}, s.log
	if id == "" {
		id = s.prefix() + "0"
		opt.Create = &runlog.NewRun{Title: s.name, Status: runlog.Importing}
	}
	log, _, err := s.m.store.Acquire(ctx, id, opt)
	if err != nil {
		return err
	}
	defer func() { _ = log.Release(context.WithoutCancel(ctx)) }() // else its lease ends
	if err := s.refresh(ctx); err != nil {
		return err
	}
	if s.log != id {
		return errMoved
	}
	if e.ID != "" && slices.Contains(s.written, e.ID) {
		return nil
	}
	if e.Item != nil {
		if err := s.room(e.Item); err != nil {
			return err
		}
		e.Item.Updated = s.m.opt.Now().UTC()
	}
	if err := s.append(ctx, log, *e); err != nil {
		return err
	}
	if err := s.refresh(ctx); err != nil {
		return err
	}
	if s.seq > 2*s.living()+wasted {
		_ = s.move(ctx, log) // the entry is written; the next write moves them
	}
	return nil
}

// living returns how many values have not expired.
func (s *Space) living() (n uint64) {
	for _, i := range s.items {
		if s.alive(&i.Item) {
			n++
		}
	}
	return n
}

// wasted is how many records of a log may be of no use.
const wasted = 256

func (s *Space) room(i *Item) error {
	n, size := 1, len(i.Value)
	for key, other := range s.items {
		if key != i.Key && s.alive(&other.Item) {
			n, size = n+1, size+len(other.Value)
		}
	}
	if n > maxItems || size > maxSize {
		return fmt.Errorf("it has %d values of %d MiB, and may have %d of %d MiB: delete some, give them an end, or use several namespaces", n-1, size>>20, maxItems, maxSize>>20)
	}
	return nil
}

func (s *Space) append(ctx context.Context, log runlog.Log, entries ...entry) error {
	for part := range slices.Chunk(entries, batch) {
		b := &runlog.Batch{}
		for i := range part {
			data, err := json.Marshal(&part[i])
			if err != nil {
				return err
			}
			b.Records = append(b.Records, runlog.Record{Kind: kindMemory, Time: s.m.opt.Now().UTC(), Data: data})
		}
		if err := log.Append(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// move copies what lives into the next generation, which is current then. The caller holds the log of this one.
func (s *Space) move(ctx context.Context, log runlog.Log) (err error) {
	id := s.prefix() + strconv.Itoa(s.generation(s.log)+1)
	next, _, err := unlisted.Create(ctx, s.m.store, id, runlog.NewRun{Title: s.name})
	if err != nil {
		return err
	}
	entries := []entry{{Known: s.written}}
	for _, i := range s.items {
		if s.alive(&i.Item) {
			entries = append(entries, entry{Item: &i.Item})
		}
	}
	err = s.append(ctx, next, entries...)
	if err := errors.Join(err, next.Release(context.WithoutCancel(ctx))); err != nil {
		return err
	}
	if err := s.append(ctx, log, entry{Moved: true}); err != nil {
		return err
	}
	if err := log.Release(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	old, err := s.generations(ctx)
	for i := range old { // the oldest first: a reader begins with it
		if err == nil && s.generation(old[i].ID) < s.generation(id) {
			err = s.m.store.Delete(ctx, old[i].ID)
		}
	}
	return nil // what is left is deleted by the next that moves
}
