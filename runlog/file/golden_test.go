package file

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
)

var update = flag.Bool("update", false, "write testdata/store.v1 or store.v2 anew, which is only right before the first release")

const golden, goldenShelved = "testdata/store.v1", "testdata/store.v2"

// A store of version 1 opens for ever.
func TestGolden(t *testing.T) {
	if *update {
		writeGolden(t)
	}
	dir := filepath.Join(t.TempDir(), "store")
	copyTree(t, golden, dir)
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s := openTest(t, dir, nil)
	infos, err := s.Runs(t.Context(), nil)
	if err != nil || len(infos) != 3 {
		t.Fatalf("listed %+v, error %v", infos, err)
	}
	created := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i, want := range []runlog.Info{
		{ID: "torn", Workflow: "w", Title: "t", Status: runlog.Interrupted, Created: created, Updated: created, Head: 2, Epoch: 1},
		{ID: "fork", Workflow: "w", Parent: "long", Status: runlog.Paused, Created: created, Updated: created, Head: 1, Snapshot: 1, Epoch: 1, Cancel: true},
		{ID: "long", Workflow: "w", Title: "t", Status: runlog.Completed, Created: created, Updated: created, Head: 30, Epoch: 1},
	} {
		if infos[i] != want {
			t.Errorf("run %d is\n%+v, want\n%+v", i, infos[i], want)
		}
		recs := readAll(t, s, want.ID)
		if uint64(len(recs)) != want.Head {
			t.Errorf("%s has %d records", want.ID, len(recs))
		}
	}
	if bases, err := formers(s.runDir("long")); err != nil || len(bases) == 0 {
		t.Errorf("former logs %v, error %v", bases, err)
	}
	l, info := acquire(t, s, "torn")
	if info.Takeovers != 1 {
		t.Errorf("acquired %+v", info)
	}
	runlogtest.Append(t, l, 2)
	if err := l.Append(t.Context(), &runlog.Batch{Summary: `{"step":1}`}); err != nil {
		t.Fatal(err)
	}
	release(t, l)
	if infos, err := openTest(t, dir, nil).Runs(t.Context(), &runlog.Filter{ID: "torn"}); err != nil || infos[0].Summary != `{"step":1}` {
		t.Errorf("with a summary it is listed as %+v, error %v", infos, err)
	}
	release(t, runlogtest.Create(t, s, "new"))
	if infos, err := s.Runs(t.Context(), &runlog.Filter{Limit: 1}); err != nil || infos[0].ID != "new" {
		t.Errorf("the newest is %+v, error %v", infos, err)
	}
}

// So does a store whose logs have version 2: with attachments, and former logs that are not compressed.
func TestGoldenShelved(t *testing.T) {
	part := func(i int) []byte {
		b := make([]byte, 1500)
		_, _ = rand.NewChaCha8([32]byte{byte(i)}).Read(b) // never fails
		return b
	}
	const n = 9
	if *update {
		if err := os.RemoveAll(goldenShelved); err != nil {
			t.Fatal(err)
		}
		c := runlogtest.NewClock()
		s, err := Open(t.Context(), goldenShelved, &Options{Now: c.Now, Owner: "golden", SegmentSize: 2500})
		if err != nil {
			t.Fatal(err)
		}
		l := runlogtest.Create(t, s, "plain")
		for i := range n {
			b := runlogtest.Batch(1)
			b.Records[0].Attachment = part(i)
			if err := l.Append(t.Context(), b); err != nil {
				t.Fatal(err)
			}
		}
		release(t, l)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"reserve", "trash", "owners", "lock"} { // which need not be kept
			if err := os.RemoveAll(filepath.Join(goldenShelved, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	dir := filepath.Join(t.TempDir(), "store")
	copyTree(t, goldenShelved, dir)
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s := openTest(t, dir, nil)
	if former, err := filepath.Glob(filepath.Join(s.runDir("plain"), "0*"+plainSuffix)); err != nil || len(former) < 2 {
		t.Errorf("former logs %v, error %v", former, err)
	}
	recs := readAll(t, s, "plain")
	if len(recs) != n {
		t.Fatalf("%d records", len(recs))
	}
	for i, r := range recs {
		if !bytes.Equal(r.Attachment, part(i)) {
			t.Errorf("record %d has another attachment", r.Seq)
		}
	}
	l, _ := acquire(t, s, "plain")
	runlogtest.Append(t, l, 1)
	release(t, l)
	if recs := readAll(t, s, "plain"); len(recs) != n+1 {
		t.Errorf("%d records after another one", len(recs))
	}
}

func writeGolden(t *testing.T) {
	t.Helper()
	if err := os.RemoveAll(golden); err != nil {
		t.Fatal(err)
	}
	c := runlogtest.NewClock()
	s, err := Open(t.Context(), golden, &Options{Now: c.Now, Owner: "golden", SegmentSize: 2500})
	if err != nil {
		t.Fatal(err)
	}
	l := runlogtest.Create(t, s, "long")
	for range 15 {
		runlogtest.Append(t, l, 2)
	}
	if err := l.Append(t.Context(), &runlog.Batch{Status: runlog.Completed}); err != nil {
		t.Fatal(err)
	}
	release(t, l)
	l, _, err = s.Acquire(t.Context(), "fork", &runlog.AcquireOptions{Create: &runlog.NewRun{Workflow: "w", Parent: "long"}})
	if err != nil {
		t.Fatal(err)
	}
	b := runlogtest.Batch(1)
	b.Records[0].Kind, b.Status = runlog.KindSnapshot, runlog.Paused
	if err := l.Append(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	release(t, l)
	if err := s.RequestCancel(t.Context(), "fork"); err != nil {
		t.Fatal(err)
	}
	runlogtest.Append(t, runlogtest.Create(t, s, "torn"), 2)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(s.runDir("torn"), logName), os.O_WRONLY|os.O_APPEND, 0o600)
	if err == nil {
		_, err = fmt.Fprint(f, "\x99\x00\x00\x00half a frame")
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"reserve", "trash", "owners", "lock"} { // which need not be kept
		if err := os.RemoveAll(filepath.Join(golden, name)); err != nil {
			t.Fatal(err)
		}
	}
}

// FuzzLog takes any bytes for the log of a run, and others for its hold. Whatever they are,
// nothing panics, and what is read is a run from its beginning, without gaps, that ends where
// the scan that acquisitions rest on says.
func FuzzLog(f *testing.F) {
	for _, id := range []string{"long", "fork", "torn"} {
		b, err := os.ReadFile(filepath.Join(golden, "runs", id, logName))
		if err != nil {
			f.Fatal(err)
		}
		hold, err := os.ReadFile(filepath.Join(golden, "runs", id, holdName))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, hold)
		f.Add(b[:len(b)-7], []byte{})
		f.Add(b[:100], hold[:50])
	}
	f.Fuzz(func(t *testing.T, log, hold []byte) {
		h, err := decodeHeader(log)
		if err != nil {
			return
		}
		var durable int64
		if o, ok := decodeHold(hold); ok && o.h.nonce == h.nonce {
			durable = o.durable
		}
		sc := h.scan(log)
		damage := h.damage(h.id, logName, log, &sc, durable)
		if sc.end > int64(len(log)) || sc.pos < sc.end || sc.st.Seq > sc.seq || damage == nil && sc.end == 0 {
			t.Fatalf("%d bytes were scanned as %+v, %v", len(log), sc, damage)
		}
		r := &reading{s: &store{}, ctx: t.Context(), id: h.id, from: h.base, chain: runlog.NewChain(h.id, h.base)}
		err = r.log(bytes.NewReader(log), h, sc.end)
		if err == nil && uint64(len(r.records)) != sc.st.Seq-(h.base-1) && sc.end > 0 {
			t.Fatalf("%d records were read, the scan says %d", len(r.records), sc.st.Seq)
		}
		for i, rec := range r.records {
			if rec.Seq != h.base+uint64(i) {
				t.Fatalf("record %d is in place %d", rec.Seq, h.base+uint64(i))
			}
		}
	})
}
