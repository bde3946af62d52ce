package redis

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/superstep-dev/superstep/runlog"
)

const (
	metaVersion = 2 // version 1 has no summary
	metaFixed   = 2 + 10*8 + 2*16
	untilOffset = 2
)

// A meta is the value of a run's key. scripts/common.lua writes the same format.
type meta struct {
	info  runlog.Info // as stored
	until time.Time
	ver   uint64 // how many appends there were, those of a status alone included
	bytes uint64
	born  token // tells the run from earlier ones of its ID
	token token // of the hold, zeros for none
}

// decodeMeta decodes the value of a run's key.
func decodeMeta(id, s string) (*meta, error) {
	if len(s) < metaFixed+2 {
		return nil, damaged(id, 0, "what is listed of it is cut off")
	}
	if s[0] > metaVersion {
		return nil, fmt.Errorf("run %s was written by a newer superstep; update superstep to open it", id)
	}
	var n [10]uint64
	for i := range n {
		f := math.Float64frombits(binary.LittleEndian.Uint64([]byte(s[untilOffset+8*i:])))
		if !(f >= 0 && f <= 1<<53) {
			return nil, damaged(id, 0, "what is listed of it has no numbers where they should be")
		}
		n[i] = uint64(f)
	}
	moment := func(us uint64) time.Time { return time.UnixMicro(int64(us)).UTC() }
	m := &meta{until: moment(n[0]), ver: n[1], bytes: n[4], info: runlog.Info{
		ID: id, Cancel: s[1] == 1, Head: n[2], Snapshot: n[3], Updated: moment(n[5]), Epoch: n[6], Takeovers: int(n[7]), Created: moment(n[9]),
	}}
	copy(m.born[:], s[metaFixed-32:])
	copy(m.token[:], s[metaFixed-16:])
	rest := s[metaFixed:]
	for i, field := range []struct {
		to    *string
		short bool
	}{{(*string)(&m.info.Status), true}, {&m.info.Owner, true}, {&m.info.Workflow, false}, {&m.info.Title, false}, {&m.info.Parent, false}} {
		var ok bool
		if i == 2 && s[0] >= 2 {
			if rest, ok = m.cutSummary(rest); !ok {
				return nil, damaged(id, 0, "what is listed of it is cut off")
			}
		}
		if *field.to, rest, ok = cutField(rest, field.short); !ok {
			return nil, damaged(id, 0, "what is listed of it is cut off")
		}
	}
	return m, nil
}

// cutSummary reads the summary, which is preceded by its length in two bytes.
func (m *meta) cutSummary(s string) (rest string, ok bool) {
	if len(s) < 2 {
		return "", false
	}
	n, s := int(binary.LittleEndian.Uint16([]byte(s[:2]))), s[2:]
	if n > len(s) {
		return "", false
	}
	m.info.Summary = s[:n]
	return s[n:], true
}

// damaged returns the error for a run whose keys are not what a store writes.
func damaged(id string, good uint64, why string) error {
	return &runlog.CorruptError{ID: id, Seq: good + 1, Good: good, Why: why}
}

// cutField reads a text that is preceded by its length, which is one byte or a uvarint.
func cutField(s string, short bool) (field, rest string, ok bool) {
	if s == "" {
		return "", "", false
	}
	n, width := uint64(s[0]), 1
	if !short {
		n, width = binary.Uvarint([]byte(s[:min(len(s), binary.MaxVarintLen64)]))
	}
	if width <= 0 || n > uint64(len(s)-width) {
		return "", "", false
	}
	return s[width : width+int(n)], s[width+int(n):], true
}

// fixed encodes the properties of a run that never change.
func fixed(n *runlog.NewRun) []byte {
	var b []byte
	for _, s := range []string{n.Workflow, n.Title, n.Parent} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	return b
}

func (m *meta) held(now time.Time) bool { return m.token != token{} && now.Before(m.until) }

// listed returns the run as listings show it.
func (m *meta) listed(now time.Time) runlog.Info {
	info := m.info
	info.Show(m.held(now), m.token != token{})
	return info
}

// Scripts answer with lists of texts and numbers.

func text(r []any, i int) string {
	if i >= len(r) {
		return ""
	}
	switch v := r[i].(type) {
	case []byte:
		return string(v)
	case string:
		return v
	case int64:
		return strconv.FormatInt(v, 10)
	}
	return ""
}

func parse(s string) uint64 {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func number(r []any, i int) uint64 { return parse(text(r, i)) }

func micros(us uint64) time.Time { return time.UnixMicro(int64(us)).UTC() }
