// Package traceid derives the identities of traces and spans from the log of a run, so that every process and every later export gives the same ones.
package traceid

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"
)

// A Context is a place in a trace.
type Context struct {
	Trace   [16]byte
	Span    [8]byte
	Sampled bool
}

// Of returns the trace of a run, and its place in the trace of its caller: the zero span if it has none. Parent is a traceparent, or "".
func Of(run, parent string) Context {
	if c, ok := Parse(parent); ok {
		return c
	}
	sum := sha256.Sum256([]byte("superstep/trace\x00" + run))
	return Context{Trace: [16]byte(sum[:16]), Sampled: true}
}

// Execution is the key of the span of an execution, whose path is "". A task's span has the key "".
const Execution = "execution"

// Span returns the identity of a span: of the nth attempt, counted from 1, of an effect or a task in the execution with an epoch.
func Span(run, path, key string, epoch uint64, n int) [8]byte {
	b := make([]byte, 0, 128)
	b = append(append(append(append(append(b, run...), 0), path...), 0), key...)
	b = binary.BigEndian.AppendUint64(append(b, 0), epoch)
	b = binary.BigEndian.AppendUint64(b, uint64(n)) //nolint:gosec // a count
	sum := sha256.Sum256(b)
	return [8]byte(sum[:8])
}

// String returns the context as a traceparent of version 00, see W3C Trace Context.
func (c Context) String() string {
	flags := "00"
	if c.Sampled {
		flags = "01"
	}
	return "00-" + hex.EncodeToString(c.Trace[:]) + "-" + hex.EncodeToString(c.Span[:]) + "-" + flags
}

// Parse reads a traceparent. It reports false for anything else, which is ignored.
func Parse(s string) (c Context, ok bool) {
	parts := strings.Split(s, "-")
	if len(parts) < 4 || len(parts[0]) != 2 || parts[0] == "ff" || parts[0] == "00" && len(parts) > 4 ||
		len(parts[1]) != 32 || len(parts[2]) != 16 || len(parts[3]) != 2 || strings.ToLower(s) != s {
		return Context{}, false
	}
	var flags [1]byte
	for i, to := range [][]byte{flags[:], c.Trace[:], c.Span[:], flags[:]} {
		if _, err := hex.Decode(to, []byte(parts[i])); err != nil {
			return Context{}, false
		}
	}
	c.Sampled = flags[0]&1 == 1
	return c, c.Trace != [16]byte{} && c.Span != [8]byte{}
}
