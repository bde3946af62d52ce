package storekit_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/storekit"
)

// What protection costs where nothing is to be redacted: records of 1 KB of prose, in memory.
func BenchmarkAppend(b *testing.B) {
	data := json.RawMessage(`"` + strings.Repeat("A run survives a crash, since each step is in its log before it counts. ", 14) + `"`)
	for name, raw := range map[string]bool{"raw": true, "redacting": false} {
		b.Run(name, func(b *testing.B) {
			s, err := storekit.Protect(discard{}, &storekit.Protection{Raw: raw, Environ: []string{"MY_TOKEN=9f86d081884c7d65", "OTHER_API_KEY=sk-9f86d081884c7d65"}})
			if err != nil {
				b.Fatal(err)
			}
			l, _, err := s.Acquire(b.Context(), "r", nil)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				batch := &runlog.Batch{Records: []runlog.Record{{Kind: runlog.KindEvent, Path: "task[key]/1", Time: time.Unix(1, 0), Data: data}}}
				if err := l.Append(b.Context(), batch); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

type discard struct{ runlog.Store }

func (discard) Acquire(context.Context, string, *runlog.AcquireOptions) (runlog.Log, runlog.Info, error) {
	return discardLog{}, runlog.Info{}, nil
}

type discardLog struct{ runlog.Log }

func (discardLog) Append(context.Context, *runlog.Batch) error { return nil }
