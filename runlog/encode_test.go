package runlog_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/superstep-dev/superstep/runlog"
)

var kinds = []runlog.Kind{
	runlog.KindRunStarted, runlog.KindRunResumed, runlog.KindRunPaused, runlog.KindRunFailed, runlog.KindRunCancelled,
	runlog.KindRunFinished, runlog.KindTaskDone, runlog.KindTaskFailed, runlog.KindStepCommitted, runlog.KindSnapshot,
	runlog.KindIntended, runlog.KindSettled, runlog.KindAsked, runlog.KindAnswered, runlog.KindEvent, "of.the.future",
}

var sample = runlog.Record{
	Seq: 300, Epoch: 7, Time: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC),
	Kind: runlog.KindTaskDone, Path: "a/b", Data: json.RawMessage(`{"x":1}`),
}

func equal(a, b runlog.Record) bool {
	return a.Seq == b.Seq && a.Epoch == b.Epoch && a.Time.Equal(b.Time) && a.Kind == b.Kind && a.Path == b.Path && bytes.Equal(a.Data, b.Data)
}

func encode(t testing.TB, prev runlog.FrameHash, r *runlog.Record) ([]byte, runlog.FrameHash) {
	t.Helper()
	b, h, err := runlog.AppendFrame(nil, prev, r)
	if err != nil {
		t.Fatal(err)
	}
	return b, h
}

func TestFrameRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := runlog.Record{
			Seq:   rapid.Uint64Min(1).Draw(t, "seq"),
			Epoch: rapid.Uint64().Draw(t, "epoch"),
			Time:  time.Unix(rapid.Int64Range(-9e9, 9e9).Draw(t, "s"), rapid.Int64Range(0, 1e9-1).Draw(t, "ns")).UTC(),
			Kind:  rapid.OneOf(rapid.SampledFrom(kinds), rapid.Map(rapid.StringN(1, 16, 64), func(s string) runlog.Kind { return runlog.Kind(s) })).Draw(t, "kind"),
			Path:  rapid.StringN(0, 64, 256).Draw(t, "path"),
			Data:  rapid.SliceOf(rapid.Byte()).Draw(t, "data"),
		}
		var prev runlog.FrameHash
		copy(prev[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "prev"))
		before := rapid.SliceOfN(rapid.Byte(), 0, 9).Draw(t, "before")
		b, hash, err := runlog.AppendFrame(bytes.Clone(before), prev, &r)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(b, before) {
			t.Fatal("AppendFrame changed what was there")
		}
		got, gotPrev, self, n, err := runlog.DecodeFrame(append(b[len(before):], "next"...))
		if err != nil {
			t.Fatal(err)
		}
		if n != len(b)-len(before) || gotPrev != prev || self != hash || !equal(got, r) {
			t.Fatalf("decoded %+v (%d bytes) from %+v (%d bytes)", got, n, r, len(b)-len(before))
		}
	})
}

func TestFrameDetectsEveryBitFlip(t *testing.T) {
	frame, _ := encode(t, runlog.FrameHash{1}, &sample)
	for i := range len(frame) * 8 {
		b := bytes.Clone(frame)
		b[i/8] ^= 1 << (i % 8)
		if r, _, _, _, err := runlog.DecodeFrame(b); err == nil {
			t.Errorf("flipping bit %d of byte %d gives %+v", i%8, i/8, r)
		}
	}
}

func TestFrameDetectsEveryTruncation(t *testing.T) {
	frame, _ := encode(t, runlog.FrameHash{1}, &sample)
	if _, _, _, _, err := runlog.DecodeFrame(nil); err != io.EOF {
		t.Errorf("no bytes: %v", err)
	}
	for n := 1; n < len(frame); n++ {
		if _, _, _, _, err := runlog.DecodeFrame(frame[:n]); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%d of %d bytes: %v", n, len(frame), err)
		}
	}
}

func TestFrameRefuses(t *testing.T) {
	for _, c := range []struct {
		name, want string
		change     func(*runlog.Record)
	}{
		{"no number", "live-only", func(r *runlog.Record) { r.Seq = 0 }},
		{"no kind", "no kind", func(r *runlog.Record) { r.Kind = "" }},
		{"long kind", "kind of 65", func(r *runlog.Record) { r.Kind = runlog.Kind(strings.Repeat("k", 65)) }},
		{"long path", "path of 4097", func(r *runlog.Record) { r.Path = strings.Repeat("p", 4097) }},
		{"zero time", "set Time", func(r *runlog.Record) { r.Time = time.Time{} }},
		{"far time", "set Time", func(r *runlog.Record) { r.Time = time.Unix(math.MaxInt64/int64(time.Second), 0) }},
		{"large data", "store the large value", func(r *runlog.Record) { r.Data = make([]byte, runlog.MaxFrame-40) }},
		{"larger data", "store the large value", func(r *runlog.Record) { r.Data = make([]byte, runlog.MaxFrame+1) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := sample
			c.change(&r)
			dst := []byte("kept")
			b, _, err := runlog.AppendFrame(dst, runlog.FrameHash{}, &r)
			if err == nil || !strings.Contains(err.Error(), c.want) || string(b) != "kept" {
				t.Fatalf("%q, error %v", b, err)
			}
		})
	}
}

// seal gives a body a right length and checksum, so that only what is in it can be wrong.
func seal(body []byte) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(body)+4))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
	return append(b, body...)
}

func TestFrameHasOneSpelling(t *testing.T) {
	head := append([]byte{1}, make([]byte, 32)...)
	for _, c := range []struct {
		name string
		body []byte
	}{
		{"zero number", []byte{0, 1, 2, 1, 'k', 0}},
		{"long number", []byte{0x81, 0, 1, 2, 1, 'k', 0}},
		{"long epoch", []byte{1, 0x80, 0, 2, 1, 'k', 0}},
		{"long time", []byte{1, 1, 0x82, 0, 1, 'k', 0}},
		{"time out of range", []byte{1, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 1, 'k', 0}},
		{"endless number", bytes.Repeat([]byte{0xff}, 20)},
		{"number past 64 bits", []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 1, 2, 1, 'k', 0}},
		{"no kind", []byte{1, 1, 2, 0, 0, 0, 0}},
		{"kind past the end", []byte{1, 1, 2, 9, 'k', 0}},
		{"huge kind", []byte{1, 1, 2, 0xff, 0xff, 0xff, 0xff, 0x0f, 'k'}},
		{"no path", []byte{1, 1, 2, 2, 'k', 'k'}},
		{"path past the end", []byte{1, 1, 2, 1, 'k', 7}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if r, _, _, _, err := runlog.DecodeFrame(seal(append(bytes.Clone(head), c.body...))); !damaged(err) {
				t.Fatalf("%+v, error %v", r, err)
			}
		})
	}
	if _, _, _, _, err := runlog.DecodeFrame(seal(append(bytes.Clone(head), 1, 1, 2, 1, 'k', 0))); err != nil {
		t.Fatalf("the right spelling: %v", err)
	}
}

func TestFrameOfNewerVersion(t *testing.T) {
	_, _, _, _, err := runlog.DecodeFrame(seal([]byte{3, 'x'}))
	var v *runlog.VersionError
	if !errors.As(err, &v) || v.Version != 3 || !strings.Contains(err.Error(), "written by a newer superstep") {
		t.Fatal(err)
	}
	if _, err := runlog.NewChain("r", 1).Next(seal([]byte{3, 'x'})); !errors.As(err, &v) {
		t.Fatal(err)
	}
	if _, _, _, _, err := runlog.DecodeFrame(seal([]byte{0, 'x'})); !damaged(err) {
		t.Fatal(err)
	}
}

func TestFrameAllocations(t *testing.T) {
	dst := make([]byte, 0, 8192)
	if n := testing.AllocsPerRun(100, func() {
		if _, _, err := runlog.AppendFrame(dst, runlog.FrameHash{}, &sample); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("AppendFrame allocates %v times", n)
	}
	frame, _ := encode(t, runlog.FrameHash{}, &sample)
	if n := testing.AllocsPerRun(100, func() {
		if _, _, _, _, err := runlog.DecodeFrame(frame); err != nil {
			t.Fatal(err)
		}
	}); n > 1 { // the path
		t.Errorf("DecodeFrame allocates %v times", n)
	}
}

func TestChain(t *testing.T) {
	var frames [][]byte
	var prev runlog.FrameHash
	for i := range 5 {
		r := sample
		r.Seq = uint64(i) + 1
		var b []byte
		b, prev = encode(t, prev, &r)
		frames = append(frames, b)
	}
	other := sample
	other.Seq, other.Path = 3, "elsewhere"
	stranger, _ := encode(t, runlog.FrameHash{9}, &other)
	for _, c := range []struct {
		name   string
		from   uint64
		frames [][]byte
		bad    uint64 // 0: all good
	}{
		{"whole", 1, frames, 0},
		{"from the middle", 3, frames[2:], 0},
		{"one missing", 1, [][]byte{frames[0], frames[2]}, 2},
		{"swapped", 1, [][]byte{frames[1], frames[0]}, 1},
		{"replaced", 1, [][]byte{frames[0], frames[1], stranger}, 3},
		{"first of another", 1, [][]byte{stranger}, 1},
		{"bytes behind", 1, [][]byte{append(bytes.Clone(frames[0]), 0)}, 1},
		{"cut", 1, [][]byte{frames[0], frames[1][:9]}, 2},
		{"empty", 1, [][]byte{frames[0], nil}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			chain := runlog.NewChain("r", c.from)
			var err error
			for _, f := range c.frames {
				if _, err = chain.Next(f); err != nil {
					break
				}
			}
			var corrupt *runlog.CorruptError
			switch {
			case c.bad == 0 && err != nil:
				t.Fatal(err)
			case c.bad != 0 && !errors.As(err, &corrupt):
				t.Fatalf("error %v", err)
			case c.bad != 0 && (corrupt.Seq != c.bad || corrupt.Good != c.bad-1 || corrupt.ID != "r"):
				t.Fatalf("%+v, want record %d", corrupt, c.bad)
			}
		})
	}
}

var update = flag.Bool("update", false, "write the golden files anew")

// The files have a frame of each kind: of version 1, and with attachments, of version 2. They must decode for
// ever, so they are only added to, in a file of the next version.
func TestFrameGolden(t *testing.T) {
	t.Run("v1", func(t *testing.T) { testFrameGolden(t, filepath.Join("testdata", "frames.v1"), nil) })
	t.Run("v2", func(t *testing.T) {
		testFrameGolden(t, filepath.Join("testdata", "frames.v2"), []byte("\x00\xffbytes"))
	})
}

func testFrameGolden(t *testing.T, name string, attachment []byte) {
	var want []byte
	var prev runlog.FrameHash
	for i, k := range kinds {
		r := runlog.Record{Seq: uint64(i) + 1, Epoch: uint64(i)/5 + 1, Time: time.Date(2026, 1, 2, 3, 4, 5, 600+i, time.UTC), Kind: k}
		if i%2 == 0 {
			r.Path = "plan/search[3]/" + string(k)
		}
		if i%3 != 0 {
			r.Data = json.RawMessage(`{"kind":"` + string(k) + `","text":"é\u0000\ud800"}`)
		}
		r.Attachment = attachment
		var err error
		if want, prev, err = runlog.AppendFrame(want, prev, &r); err != nil {
			t.Fatal(err)
		}
	}
	if *update {
		if err := os.WriteFile(name, want, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(golden, want) {
		t.Error("the encoding has changed: stored runs could not be read any more")
	}
	var again []byte
	var last runlog.FrameHash
	for i, rest := 0, golden; len(rest) > 0; i++ {
		r, prev, self, n, err := runlog.DecodeFrame(rest)
		if err != nil {
			t.Fatalf("frame %d: %v", i+1, err)
		}
		if prev != last || r.Kind != kinds[i] {
			t.Fatalf("frame %d is %+v", i+1, r)
		}
		if again, last, err = runlog.AppendFrame(again, prev, &r); err != nil || last != self {
			t.Fatalf("frame %d: %v", i+1, err)
		}
		rest = rest[n:]
	}
	if !bytes.Equal(again, golden) {
		t.Error("what was decoded is encoded differently")
	}
}

func FuzzDecodeFrame(f *testing.F) {
	frame, hash := encode(f, runlog.FrameHash{}, &sample)
	f.Add(frame)
	second := sample
	second.Seq, second.Data, second.Path = 301, nil, ""
	next, _ := encode(f, hash, &second)
	f.Add(append(bytes.Clone(frame), next...))
	f.Add(next[8:])
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		check := func(b []byte) {
			r, prev, self, n, err := runlog.DecodeFrame(b)
			if err != nil {
				return
			}
			again, hash, err := runlog.AppendFrame(nil, prev, &r)
			if err != nil || hash != self || !bytes.Equal(again, b[:n]) {
				t.Fatalf("decoded %+v, which encodes as %x (%v), from %x", r, again, err, b[:n])
			}
		}
		check(b)
		check(seal(b)) // past the checksum, which fuzzing hardly ever gets right
	})
}

func BenchmarkAppendFrame(b *testing.B) {
	r := sample
	r.Data = make([]byte, 1024)
	dst := make([]byte, 0, 8192)
	b.SetBytes(1024)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := runlog.AppendFrame(dst, runlog.FrameHash{}, &r); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeFrame(b *testing.B) {
	r := sample
	r.Data = make([]byte, 1024)
	frame, _ := encode(b, runlog.FrameHash{}, &r)
	b.SetBytes(1024)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, _, _, err := runlog.DecodeFrame(frame); err != nil {
			b.Fatal(err)
		}
	}
}

// damaged reports whether an error says that bytes are no frame.
func damaged(err error) bool {
	return err != nil && strings.HasPrefix(err.Error(), "the frame is damaged")
}
