package redact

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/superstep-dev/superstep/runlog"
)

// Store returns a store that redacts. The stores of this module do so by themselves, with the
// secrets of the environment; Store is for others, and for secrets from elsewhere. It redacts
// everything that is written: the titles of new runs, their summaries, which must be JSON, and the data of records. It redacts data in
// place in the batch, so that followers of a run see the stored form. The result has the optional
// abilities of the store, see runlog.As.
//
// The names of a run's workflow and graph are not redacted, nor are attachments, which whoever writes them keeps clean. A record is refused if it has a secret
// in a name by which a resumed run finds its work: a path, the name of a node, or the key of a
// task, an effect or a question. Live records, which are never stored, are redacted one by one, so
// a secret that a model writes in two pieces is shown.
func Store(store runlog.Store, r *Redactor) runlog.Store {
	if r == nil {
		return store
	}
	return &redacted{store, r}
}

type redacted struct {
	runlog.Store
	r *Redactor
}

// Clean returns JSON as it would be stored.
func (s *redacted) Clean(data json.RawMessage) json.RawMessage { return s.r.JSON(data) }

// Around returns another store that redacts as this one does.
func (s *redacted) Around(store runlog.Store) runlog.Store { return Store(store, s.r) }

// Unwrap returns the store below, see [runlog.As].
func (s *redacted) Unwrap() runlog.Store { return s.Store }

// Acquire implements runlog.Store.
func (s *redacted) Acquire(ctx context.Context, id string, opt *runlog.AcquireOptions) (runlog.Log, runlog.Info, error) {
	if opt != nil && opt.Create != nil {
		clean := *opt
		run := *opt.Create
		run.Title = s.r.Text(run.Title)
		clean.Create = &run
		opt = &clean
	}
	log, info, err := s.Store.Acquire(ctx, id, opt)
	if err != nil {
		return nil, runlog.Info{}, err
	}
	return &redactedLog{log, s.r, id}, info, nil
}

type redactedLog struct {
	runlog.Log
	r  *Redactor
	id string
}

// Clean returns JSON as it would be stored. The journal uses it so that a run continues with the
// same values that it would read after a crash.
func (l *redactedLog) Clean(data json.RawMessage) json.RawMessage { return l.r.JSON(data) }

// Append implements runlog.Log.
func (l *redactedLog) Append(ctx context.Context, b *runlog.Batch) error {
	for i := range b.Records {
		r := &b.Records[i]
		if l.r.Text(r.Path) != r.Path {
			return fmt.Errorf("run %s: the name of a task has a secret in it: %s; give what it runs for another key", l.id, l.r.Text(r.Path))
		}
		data, err := l.r.record(r.Kind, r.Data)
		if err != nil {
			return fmt.Errorf("run %s: %w", l.id, err)
		}
		r.Data = data
	}
	if b.Summary != "" {
		b.Summary = string(l.r.JSON(json.RawMessage(b.Summary)))
	}
	return l.Log.Append(ctx, b)
}
