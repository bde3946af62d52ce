package crash

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/superstep-dev/superstep/runlog"
)

// Digest stands for everything that a record says.
func Digest(r *runlog.Record) string {
	h := sha256.New()
	fmt.Fprintf(h, "%d %d %d %q %q ", r.Seq, r.Epoch, r.Time.UnixNano(), r.Kind, r.Path)
	h.Write(r.Data)
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// Questions are the open ones of a run, by its log.
func Questions(ctx context.Context, store runlog.Store, id string) (open []runlog.Question, err error) {
	answered := map[string]bool{}
	for r, err := range runlog.Records(ctx, store, id, 0) {
		if err != nil {
			return nil, err
		}
		if r.Kind != runlog.KindAsked && r.Kind != runlog.KindAnswered {
			continue
		}
		q := runlog.Question{Path: r.Path}
		if err := json.Unmarshal(r.Data, &q); err != nil {
			return nil, err
		}
		if r.Kind == runlog.KindAsked {
			open = append(open, q)
		} else {
			answered[q.Path+" "+q.Key] = true
		}
	}
	var left []runlog.Question
	for _, q := range open {
		if !answered[q.Path+" "+q.Key] {
			left = append(left, q)
		}
	}
	return left, nil
}
