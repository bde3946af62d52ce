package unlisted

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/runlog"
)

const limitsPrefix = "limit--"

// Limits are the rate limits that the processes of a store have met. Each is the summary of an unlisted log, which is overwritten. Its methods may be called
// from several goroutines.
type Limits struct {
	store runlog.Store
	now   func() time.Time

	mu    sync.Mutex
	read  time.Time
	until map[string]time.Time // by the ID of the log
}

// NewLimits returns the rate limits of a store.
func NewLimits(store runlog.Store, now func() time.Time) *Limits {
	return &Limits{store: store, now: now}
}

// limitsEvery is how often the rate limits are read at most.
const limitsEvery = time.Second

type limit struct {
	Until time.Time `json:"until"`
}

// limitID returns the ID of the log of a name, such as that of a model.
func limitID(name string) string {
	sum := sha256.Sum256([]byte(name))
	return limitsPrefix + hex.EncodeToString(sum[:8])
}

// Until returns until when a process of the store has met a limit, zero if none has. It queries the store once a second at most; if that fails, it knows of
// no new limits.
func (l *Limits) Until(ctx context.Context, name string) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if since := now.Sub(l.read); since >= limitsEvery || since < 0 {
		if infos, err := l.store.Runs(ctx, &runlog.Filter{Prefix: limitsPrefix, Status: []runlog.Status{runlog.Importing}}); err == nil {
			l.until = map[string]time.Time{}
			for i := range infos {
				var d limit
				if json.Unmarshal([]byte(infos[i].Summary), &d) == nil && d.Until.After(now) {
					l.until[infos[i].ID] = d.Until
				}
			}
		}
		l.read = now
	}
	until := l.until[limitID(name)]
	if !until.After(now) {
		return time.Time{}
	}
	return until
}

// Note tells all processes of the store until when a limit holds. If another process notes one at this moment, that one counts.
func (l *Limits) Note(ctx context.Context, name string, until time.Time) (err error) {
	id := limitID(name)
	log, info, err := l.store.Acquire(ctx, id, nil)
	if errors.As(err, new(*runlog.NotFoundError)) {
		log, info, err = l.store.Acquire(ctx, id, &runlog.AcquireOptions{Create: &runlog.NewRun{Status: runlog.Importing}})
	}
	if _, busy := errors.AsType[*runlog.BusyError](err); busy || errors.Is(err, runlog.ErrExists) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Release(context.WithoutCancel(ctx))) }()
	var d limit
	if json.Unmarshal([]byte(info.Summary), &d) == nil && !d.Until.Before(until) {
		return nil
	}
	b, err := json.Marshal(limit{until.UTC()})
	if err != nil {
		return err
	}
	return log.Append(ctx, &runlog.Batch{Summary: string(b)})
}
