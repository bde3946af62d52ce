package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	redigo "github.com/gomodule/redigo/redis"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/storekit"
)

const (
	listPage      = 1000
	readPage      = 256      // records, at first
	readPageBytes = 4 << 20  // of later pages, about
	readPageMost  = 16 << 10 // records

	maxSeq = 1 << 53 // as far as Lua counts
)

// Acquire implements [runlog.Store].
func (s *store) Acquire(ctx context.Context, id string, opt *runlog.AcquireOptions) (runlog.Log, runlog.Info, error) {
	if err := runlog.CheckID(id); err != nil {
		return nil, runlog.Info{}, err
	}
	a := &acquiring{s: s, id: id, token: newToken(), born: newToken()}
	if opt != nil {
		a.opt = *opt
	}
	if err := s.write(ctx, &op{id: id, args: a.args(), verdict: a.verdict}); err != nil {
		return nil, runlog.Info{}, err
	}
	if err := a.check(); err != nil {
		err = storekit.Diagnose(ctx, s, id, err)
		return nil, runlog.Info{}, errors.Join(err, a.log.Release(ctx))
	}
	return a.log, a.found.info, nil
}

type acquiring struct {
	s           *store
	id          string
	opt         runlog.AcquireOptions
	token, born token

	found *meta
	frame string // of the run's last record, "" for none
	log   *log
}

// args encodes the acquisition. It can be sent again: the token shows whether it was already done.
func (a *acquiring) args() []any {
	var rest []byte
	status := runlog.Running
	if a.opt.Create != nil {
		rest, status = fixed(a.opt.Create), cmp.Or(a.opt.Create.Status, status)
	}
	return []any{
		"q", a.id, a.token[:], a.s.owner, a.s.lease.Microseconds(), flag(a.opt.Create != nil),
		a.born[:], rest, string(status), flag(a.opt.Quarantined),
	}
}

func (a *acquiring) verdict(r []any) error {
	switch verdict := text(r, 0); verdict {
	case "ok":
		m, err := decodeMeta(a.id, text(r, 1))
		if err != nil {
			return err
		}
		a.found, a.frame = m, text(r, 2)
		a.log = &log{Hold: storekit.Hold{ID: a.id}, s: a.s, born: m.born, token: a.token, epoch: m.info.Epoch}
		a.log.tail = tail{storekit.Tail{Seq: m.info.Head, Status: m.info.Status, Snapshot: m.info.Snapshot}, m.ver}
		return nil
	case "exists":
		return fmt.Errorf("run %s: %w", a.id, runlog.ErrExists)
	case "busy":
		return &runlog.BusyError{ID: a.id, Owner: text(r, 1), Until: micros(number(r, 2))}
	case "quarantined":
		return &runlog.QuarantinedError{ID: a.id, Takeovers: int(number(r, 1))}
	case "damaged":
		return damaged(a.id, 0, text(r, 1))
	default:
		return a.s.missing(a.id, verdict)
	}
}

// check looks at the run's last record, which the next one follows.
func (a *acquiring) check() error {
	head := a.found.info.Head
	if head == 0 {
		return nil
	}
	chain := runlog.NewChain(a.id, head)
	if a.frame == "" {
		return chain.Damaged("it is missing")
	}
	rec, err := chain.Next([]byte(a.frame))
	if err == nil && rec.Epoch > a.found.info.Epoch {
		err = runlog.NewChain(a.id, head).Damaged(fmt.Sprintf("epoch %d in a run of epoch %d", rec.Epoch, a.found.info.Epoch))
	}
	a.log.tail.Hash = chain.Hash
	return err
}

// A listing is one answer of the script that lists.
type listing struct {
	now  time.Time
	next string // the number to go on below
	runs []any  // IDs and what their keys hold, in turn
}

// list asks for runs of a sorted set whose numbers are below a limit, or for the run id.
func (s *store) list(ctx context.Context, set, below string, count int, id string) (l listing, err error) {
	if err := s.sound(); err != nil {
		return listing{}, err
	}
	keys := []string{s.keys.store, set, s.keys.ending}
	if id != "" {
		keys = append(keys, s.keys.run(id))
	}
	var r []any
	err = s.patiently(ctx, "reading", func() (err error) {
		r, err = s.client.run(ctx, s.scripts.list, keys, s.id, s.known.Load(), s.keys.run(""), below, count, id)
		return err
	})
	switch {
	case err != nil:
		return listing{}, err
	case text(r, 0) != "ok" || len(r) < 4:
		return listing{}, s.forget(r)
	}
	s.learn(text(r, 2))
	return listing{now: micros(number(r, 1)), next: text(r, 3), runs: r[4:]}, nil
}

// find reads the key of one run.
func (s *store) find(ctx context.Context, id string) (*meta, time.Time, error) {
	if runlog.CheckID(id) != nil {
		return nil, time.Time{}, s.missing(id, "none")
	}
	l, err := s.list(ctx, s.keys.runs, "", 1, id)
	switch {
	case err != nil:
		return nil, time.Time{}, err
	case len(l.runs) == 0:
		return nil, time.Time{}, s.missing(id, "none")
	case text(l.runs, 1) == "":
		return nil, time.Time{}, s.missing(id, "lost")
	}
	m, err := decodeMeta(id, text(l.runs, 1))
	return m, l.now, err
}

// Runs implements [runlog.Store]. It is no snapshot: runs that are created or deleted meanwhile may
// be missing. If another program removed the keys of a run, the error wraps runlog.ErrStoreReset
// and names the run; the runs before it are returned too.
func (s *store) Runs(ctx context.Context, f *runlog.Filter) (infos []runlog.Info, err error) {
	err = s.each(ctx, f, func(m *meta, now time.Time) bool {
		infos = append(infos, m.listed(now))
		return true
	})
	return infos, err
}

// each calls yield for the runs of a filter until it returns false.
func (s *store) each(ctx context.Context, f *runlog.Filter, yield func(*meta, time.Time) bool) error {
	if f == nil {
		f = &runlog.Filter{}
	}
	if f.ID != "" {
		return s.one(ctx, f, yield)
	}
	if f.Prefix != "" && runlog.CheckID(f.Prefix) != nil {
		return errors.Join(ctx.Err(), s.sound()) // no ID begins like that
	}
	page := listPage
	if f.Limit > 0 {
		page = min(max(f.Limit, 16), listPage)
	}
	count, set := 0, s.keys.runs
	if len(f.Status) == 1 && f.Status[0] == runlog.Queued {
		set = s.keys.queued
	}
	for below := "+inf"; ; {
		l, err := s.list(ctx, set, below, page, "")
		if err != nil {
			return err
		}
		for i := 0; i+1 < len(l.runs); i += 2 {
			id := text(l.runs, i)
			if !strings.HasPrefix(id, f.Prefix) {
				continue
			}
			if text(l.runs, i+1) == "" {
				return s.missing(id, "lost")
			}
			m, err := decodeMeta(id, text(l.runs, i+1))
			if err != nil {
				return err
			}
			if !f.Takes(m.listed(l.now).Status) {
				continue
			}
			if count++; !yield(m, l.now) || count == f.Limit {
				return nil
			}
		}
		if l.next == "" {
			return nil
		}
		below = "(" + l.next
	}
}

// one calls yield for the run of a filter that names one.
func (s *store) one(ctx context.Context, f *runlog.Filter, yield func(*meta, time.Time) bool) error {
	if !strings.HasPrefix(f.ID, f.Prefix) {
		return errors.Join(ctx.Err(), s.sound())
	}
	m, now, err := s.find(ctx, f.ID)
	if errors.As(err, new(*runlog.NotFoundError)) {
		return nil
	}
	if err == nil && f.Takes(m.listed(now).Status) {
		yield(m, now)
	}
	return err
}

// Read implements [runlog.Store]. A limit of 0 or less means all.
func (s *store) Read(ctx context.Context, id string, from uint64, limit int) (records []runlog.Record, err error) {
	if err := s.sound(); err != nil {
		return nil, err
	}
	if runlog.CheckID(id) != nil {
		return nil, s.missing(id, "none")
	}
	from = min(max(from, 1), maxSeq)
	start := max(from-1, 1) // one earlier, to check the link
	chain := runlog.NewChain(id, start)
	var born token
	for page := readPage; ; {
		most := page
		if limit > 0 {
			most = min(most, limit-len(records)+int(from-min(from, chain.Seq+1)))
		}
		m, frames, err := s.page(ctx, id, chain.Seq+1, most)
		if err != nil {
			return records, err
		}
		if born == (token{}) {
			born = m.born
		}
		if m.born != born {
			return nil, s.missing(id, "none") // deleted meanwhile, and another one made
		}
		for _, f := range frames {
			if chain.Seq >= m.info.Head { // what is behind it does not count
				break
			}
			frame, ok := f.([]byte)
			if !ok {
				return records, chain.Damaged("it is missing")
			}
			rec, err := chain.Next(frame)
			if err != nil {
				return records, err
			}
			if rec.Seq >= from {
				records = append(records, rec)
			}
		}
		if chain.Seq >= m.info.Head || limit > 0 && len(records) >= limit {
			return records, nil
		}
		page = int(min(readPageBytes/max(m.bytes/max(m.info.Head, 1), 1)+1, readPageMost))
	}
}

// page reads records of a run, and its key as of the same moment.
func (s *store) page(ctx context.Context, id string, from uint64, most int) (*meta, []any, error) {
	hmget := []any{"HMGET", s.keys.log(id)}
	for i := range most {
		hmget = append(hmget, from+uint64(i))
	}
	var r []any
	known := s.known.Load()
	err := s.patiently(ctx, "reading", func() (err error) {
		known = s.known.Load()
		r, err = s.client.transaction(ctx, []any{"HMGET", s.keys.store, "id", "lsn"}, []any{"GET", s.keys.run(id)}, hmget)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	store, err := redigo.Values(r[0], nil)
	if err != nil {
		return nil, nil, s.explain("reading", err)
	}
	if err := s.observe(store, known); err != nil {
		return nil, nil, err
	}
	if r[1] == nil {
		_, _, err := s.find(ctx, id) // which says why
		if err == nil {
			err = s.missing(id, "none") // it was made just now
		}
		return nil, nil, err
	}
	key, keyErr := redigo.String(r[1], nil)
	frames, framesErr := redigo.Values(r[2], nil)
	if err := errors.Join(keyErr, framesErr); err != nil {
		if strings.HasPrefix(err.Error(), "WRONGTYPE") {
			return nil, nil, damaged(id, from-1, "something else is in its place")
		}
		return nil, nil, s.explain("reading", err)
	}
	m, err := decodeMeta(id, key)
	return m, frames, err
}

// observe compares the state that the store reported with the state known when the request was
// sent.
func (s *store) observe(store []any, known uint64) error {
	switch id := text(store, 0); {
	case id == "":
		return s.forget([]any{"gone"})
	case id != s.id:
		return s.forget([]any{"other", id})
	case number(store, 1) < known:
		return s.forget([]any{"back", text(store, 1)})
	}
	s.learn(text(store, 1))
	return nil
}

// RequestCancel implements [runlog.Store].
func (s *store) RequestCancel(ctx context.Context, id string) error {
	if runlog.CheckID(id) != nil {
		return s.missing(id, "none")
	}
	return s.write(ctx, &op{
		id: id, small: true, args: []any{"c", id},
		verdict: func(r []any) error {
			switch verdict := text(r, 0); verdict {
			case "ok":
				return nil
			case "damaged":
				return damaged(id, 0, text(r, 1))
			default:
				return s.missing(id, verdict)
			}
		},
	})
}

// Delete implements [runlog.Store]. It also removes from the list a run whose keys are gone.
func (s *store) Delete(ctx context.Context, id string) error {
	m, _, err := s.find(ctx, id)
	if errors.Is(err, runlog.ErrStoreReset) && s.sound() == nil {
		m, err = &meta{}, nil
	}
	if err != nil {
		return err
	}
	o := &op{id: id, small: true, args: []any{"d", id, m.born[:], goneFor.Milliseconds()}}
	o.verdict = func(r []any) error {
		switch verdict := text(r, 0); verdict {
		case "ok":
			return nil
		case "busy":
			return &runlog.BusyError{ID: id, Owner: text(r, 1), Until: micros(number(r, 2))}
		case "none":
			if o.unsure {
				return nil // it was this deletion
			}
			return s.missing(id, verdict)
		default:
			return s.missing(id, verdict)
		}
	}
	if err := s.write(ctx, o); err != nil {
		return err
	}
	s.watch.Wake(id)
	return nil
}

// Sizes implements [runlog.Sizer]: the bytes of the frames, as counted when they were written.
func (s *store) Sizes(ctx context.Context, f *runlog.Filter) (map[string]int64, error) {
	sizes := map[string]int64{}
	err := s.each(ctx, f, func(m *meta, _ time.Time) bool {
		if m.bytes > 0 {
			sizes[m.info.ID] = int64(m.bytes)
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	return sizes, nil
}
