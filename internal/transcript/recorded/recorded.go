// Package recorded has recorded sessions for tests of whatever shows a run: real runs of the engine with scripted models,
// as one that followed them from the beginning saw them, live-only records included.
package recorded

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/runlog"
)

//go:embed testdata/*.jsonl
var files embed.FS

// line is a record as a file has it.
type line struct {
	Seq   uint64          `json:"seq,omitempty"` // 0 for live-only
	Epoch uint64          `json:"epoch,omitempty"`
	Time  time.Time       `json:"time"`
	Kind  runlog.Kind     `json:"kind"`
	Path  string          `json:"path,omitempty"`
	Data  json.RawMessage `json:"data,omitempty"`

	Attachment []byte `json:"-"`
}

// Names returns the sessions there are, sorted.
func Names() []string {
	found, err := fs.Glob(files, "testdata/*.jsonl")
	if err != nil {
		panic(err) // of the pattern
	}
	for i, f := range found {
		found[i] = strings.TrimSuffix(strings.TrimPrefix(f, "testdata/"), ".jsonl")
	}
	return found
}

// Load returns the records of a session in the order in which they were seen. It panics if there is no such session.
func Load(name string) []runlog.Record {
	b, err := files.ReadFile("testdata/" + name + ".jsonl")
	if err != nil {
		panic(err)
	}
	out, err := Decode(b)
	if err != nil {
		panic(fmt.Errorf("session %s: %w", name, err))
	}
	return out
}

// Decode reads records, a JSON object a line.
func Decode(b []byte) ([]runlog.Record, error) {
	var out []runlog.Record
	for text := range bytes.Lines(b) {
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			return nil, fmt.Errorf("line %d: %w", len(out)+1, err)
		}
		out = append(out, runlog.Record(l))
	}
	return out, nil
}

// Encode is the reverse of Decode.
func Encode(recs []runlog.Record) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	for _, rec := range recs {
		if err := e.Encode(line(rec)); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}
