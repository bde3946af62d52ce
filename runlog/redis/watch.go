package redis

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	redigo "github.com/gomodule/redigo/redis"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/storekit"
)

const (
	// pollEvery is how often the server is asked what other processes have written.
	pollEvery = 25 * time.Millisecond
	// headsPage is the number of runs per request.
	headsPage = 1000
)

// Wait implements [runlog.Waiter].
func (s *store) Wait(ctx context.Context, id string, seq uint64) error {
	return s.watch.Wait(ctx, id, seq)
}

func (s *store) head(ctx context.Context, id string) (uint64, error) {
	m, _, err := s.find(ctx, id)
	if err != nil {
		return 0, err
	}
	return m.info.Head, nil
}

// poll wakes the waiters whose run has grown or was deleted. It waits for an unavailable server.
func (s *store) poll(ctx context.Context, runs map[string]uint64, wake func(string)) error {
	var err error
	for page := range slices.Chunk(slices.Collect(maps.Keys(runs)), headsPage) {
		if err = s.pollPage(ctx, page, runs, wake); err != nil {
			break
		}
	}
	if err == nil || errors.Is(err, runlog.ErrStoreReset) {
		s.away = storekit.Backoff{}
		return err
	}
	s.away.Wait(ctx, s.closing)
	return nil
}

func (s *store) pollPage(ctx context.Context, page []string, runs map[string]uint64, wake func(string)) error {
	mget := []any{"MGET"}
	for _, id := range page {
		mget = append(mget, s.keys.run(id))
	}
	known := s.known.Load()
	r, err := s.client.transaction(ctx, []any{"HMGET", s.keys.store, "id", "lsn"}, mget)
	if err != nil {
		return err
	}
	store, storeErr := redigo.Values(r[0], nil)
	metas, metasErr := redigo.Values(r[1], nil)
	if err := errors.Join(storeErr, metasErr); err != nil {
		return err
	}
	if err := s.observe(store, known); err != nil {
		return err
	}
	for i := range metas {
		m, err := decodeMeta(page[i], text(metas, i))
		if err != nil || m.info.Head >= runs[page[i]] {
			wake(page[i])
		}
	}
	return nil
}

// Queued implements [runlog.Notifier], by a subscription on a connection of its own. When that is lost, the channel receives a value too, since reports
// may have been missed.
func (s *store) Queued(ctx context.Context) (<-chan struct{}, error) {
	news := make(chan struct{}, 1)
	report := func() {
		select {
		case news <- struct{}{}:
		default:
		}
	}
	ctx, stop := context.WithCancel(ctx)
	s.work.Go(func() {
		defer stop()
		var away storekit.Backoff
		for {
			if err := s.subscribe(ctx, report); err == nil {
				away = storekit.Backoff{}
			}
			if report(); !away.Wait(ctx, s.closing) {
				return
			}
		}
	})
	s.work.Go(func() {
		select {
		case <-ctx.Done():
		case <-s.closing:
			stop()
		}
	})
	return news, nil
}

// subscribe calls report for each run that is queued until the connection is lost or ctx ends. It returns an error if there is no connection at all.
func (s *store) subscribe(ctx context.Context, report func()) error {
	conn, err := s.client.pool.DialContext(ctx)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	defer func() { _ = conn.Close() }()
	sub := redigo.PubSubConn{Conn: conn}
	if err := sub.Subscribe(s.keys.queued); err != nil {
		return err
	}
	for {
		switch sub.ReceiveWithTimeout(0).(type) {
		case redigo.Message, redigo.Subscription:
			report()
		case error:
			return nil
		}
	}
}
