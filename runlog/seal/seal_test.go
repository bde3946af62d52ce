package seal_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
	"github.com/superstep-dev/superstep/runlog/seal"
	"github.com/superstep-dev/superstep/runlog/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func sealed(t testing.TB, store runlog.Store, keys ...seal.Key) runlog.Store {
	t.Helper()
	s, err := seal.New(store, keys...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

type clocked struct {
	runlog.Store
	*runlogtest.Clock
}

func (s clocked) Unwrap() runlog.Store { return s.Store }

func TestOverMemory(t *testing.T) {
	t.Parallel()
	runlogtest.Run(t, func(t *testing.T) runlog.Store {
		c := runlogtest.NewClock()
		return clocked{sealed(t, runlog.NewMemory(&runlog.MemoryOptions{Now: c.Now}), seal.NewKey()), c}
	})
}

type onDisk struct {
	clocked
	path string
	key  seal.Key
}

func (s onDisk) Reopen(t *testing.T) runlog.Store { return openDisk(t, s.path, s.key, s.Clock) }

func openDisk(t testing.TB, path string, key seal.Key, c *runlogtest.Clock) onDisk {
	t.Helper()
	return onDisk{clocked{sealed(t, openSQLite(t, path, &sqlite.Options{Now: c.Now}), key), c}, path, key}
}

func openSQLite(t testing.TB, path string, opt *sqlite.Options) *sqlite.Store {
	t.Helper()
	return runlogtest.Open(t, sqlite.Open, path, opt)
}

func TestOverSQLite(t *testing.T) {
	t.Parallel()
	runlogtest.Run(t, func(t *testing.T) runlog.Store {
		return openDisk(t, filepath.Join(t.TempDir(), "runs.db"), seal.NewKey(), runlogtest.NewClock())
	})
}

const (
	canary = "the-canary-in-the-log"
	id     = "r"
)

// write makes a run of three records with the canary wherever a user can put it.
func write(t testing.TB, s runlog.Store) {
	t.Helper()
	l, _, err := s.Acquire(t.Context(), id, &runlog.AcquireOptions{Create: &runlog.NewRun{Workflow: canary, Title: canary}})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Append(t.Context(), &runlog.Batch{Records: records()}); err != nil {
		t.Fatal(err)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func records() []runlog.Record {
	recs := make([]runlog.Record, 3)
	for i := range recs {
		recs[i] = runlog.Record{
			Kind: runlog.KindEvent, Time: time.Unix(int64(i), 1).UTC(), Path: canary,
			Data: json.RawMessage(fmt.Sprintf(`{"n":%d,"text":"%s"}`, i, canary)),
		}
	}
	recs[1].Kind = runlog.KindSnapshot
	recs[2].Attachment = []byte(canary)
	return recs
}

func check(t testing.TB, s runlog.Store) {
	t.Helper()
	recs, err := s.Read(t.Context(), id, 1, 9)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.EqualFunc(recs, records(), func(a, b runlog.Record) bool {
		return a.Kind == b.Kind && a.Path == b.Path && a.Time.Equal(b.Time) && bytes.Equal(a.Data, b.Data) && bytes.Equal(a.Attachment, b.Attachment)
	}) {
		t.Fatalf("read %v", recs)
	}
	infos, err := s.Runs(t.Context(), nil)
	if err != nil || len(infos) != 1 || infos[0].Title != canary || infos[0].Workflow != canary || infos[0].Snapshot != 2 {
		t.Fatalf("listed %+v, error %v", infos, err)
	}
}

func TestNothingIsReadable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openSQLite(t, filepath.Join(dir, "runs.db"), nil)
	write(t, sealed(t, s, seal.NewKey()))
	files, err := filepath.Glob(filepath.Join(dir, "runs.db*"))
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			continue // a directory
		}
		seen += len(b)
		if bytes.Contains(b, []byte(canary)) {
			t.Errorf("%s has it", name)
		}
	}
	if seen < 8<<10 {
		t.Fatalf("only %d bytes were looked at", seen)
	}
}

func TestRotation(t *testing.T) {
	t.Parallel()
	m := runlog.NewMemory(nil)
	before, after := seal.NewKey(), seal.NewKey()
	write(t, sealed(t, m, before))
	check(t, sealed(t, m, after, before))
	if err := m.Delete(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	write(t, sealed(t, m, after, before))
	check(t, sealed(t, m, after)) // the first key is the one that seals

	// A run that was begun under the one goes on under the other, and needs both.
	s := sealed(t, m, before, after)
	l, _, err := s.Acquire(t.Context(), id, nil)
	if err == nil {
		err = l.Append(t.Context(), &runlog.Batch{Records: records()[:1]})
	}
	if err != nil {
		t.Fatal(err)
	}
	if recs, err := s.Read(t.Context(), id, 1, 9); err != nil || len(recs) != 4 {
		t.Errorf("%d records, error %v", len(recs), err)
	}
	recs, err := sealed(t, m, after).Read(t.Context(), id, 1, 9)
	if e := (*runlog.SealedError)(nil); !errors.As(err, &e) || e.Key != before.ID() || len(recs) != 3 {
		t.Errorf("%d records, error %v", len(recs), err)
	}
}

func TestWithoutTheKey(t *testing.T) {
	t.Parallel()
	m := runlog.NewMemory(nil)
	key := seal.NewKey()
	write(t, sealed(t, m, key))
	was, _ := m.Runs(t.Context(), nil)
	other := sealed(t, m, seal.NewKey())
	recs, err := other.Read(t.Context(), id, 1, 9)
	if e := (*runlog.SealedError)(nil); !errors.As(err, &e) || e.ID != id || e.Key != key.ID() || len(recs) != 0 || !strings.Contains(err.Error(), key.ID()) {
		t.Errorf("%d records, error %v", len(recs), err)
	}
	if _, _, err := other.Acquire(t.Context(), id, nil); !errors.As(err, new(*runlog.SealedError)) {
		t.Errorf("Acquire: %v", err)
	}
	infos, err := other.Runs(t.Context(), nil)
	if err != nil || len(infos) != 1 || infos[0].Title != "[encrypted with key "+key.ID()+"]" || infos[0].Workflow != "" {
		t.Errorf("listed %+v, error %v", infos, err)
	}

	// Who knows of no keys.
	_, err = journal.Open(t.Context(), m, id, nil)
	if e := (*runlog.SealedError)(nil); !errors.As(err, &e) || e.Key != key.ID() {
		t.Errorf("a journal without a key: %v", err)
	}
	infos, err = m.Runs(t.Context(), nil)
	if err != nil || !strings.HasPrefix(infos[0].Title, "sealed:") {
		t.Errorf("listed %+v, error %v", infos, err)
	}
	if was[0].Epoch+1 != infos[0].Epoch { // of the journal; the refused acquisition has left it alone
		t.Errorf("epoch %d became %d", was[0].Epoch, infos[0].Epoch)
	}
}

func TestSealed(t *testing.T) {
	t.Parallel()
	m := runlog.NewMemory(nil)
	key, other := seal.NewKey(), seal.NewKey()
	write(t, sealed(t, m, key))
	list := func(s runlog.Store) runlog.Info {
		t.Helper()
		infos, err := s.Runs(t.Context(), nil)
		if err != nil || len(infos) != 1 {
			t.Fatalf("%+v, error %v", infos, err)
		}
		return infos[0]
	}
	for what, s := range map[string]runlog.Store{"without a key": m, "with another key": sealed(t, m, other)} {
		if name, ok := seal.Sealed(list(s)); !ok || name != key.ID() {
			t.Errorf("%s: %q, %v", what, name, ok)
		}
	}
	if name, ok := seal.Sealed(list(sealed(t, m, other, key))); ok {
		t.Errorf("with the key: sealed with %q", name)
	}
	short := forged{m, nil, func(i *runlog.Info) { i.Title = "sealed:AA" }}
	for what, s := range map[string]runlog.Store{"damaged, without a key": short, "damaged, with a key": sealed(t, short, key)} {
		if name, ok := seal.Sealed(list(s)); what == "damaged, without a key" && (!ok || name != "") || what != "damaged, without a key" && ok {
			t.Errorf("%s: %q, %v", what, name, ok)
		}
	}
	moved := forged{m, nil, func(i *runlog.Info) { i.ID = "elsewhere" }}
	if name, ok := seal.Sealed(list(sealed(t, moved, key))); !ok || name != "" {
		t.Errorf("moved: %q, %v", name, ok)
	}

	plain := runlog.NewMemory(nil)
	write(t, plain)
	for what, s := range map[string]runlog.Store{"plain": plain, "plain, with a key": sealed(t, plain, key)} {
		if name, ok := seal.Sealed(list(s)); ok {
			t.Errorf("%s: sealed with %q", what, name)
		}
	}
	for _, title := range []string{"", "[sealed with key ]", "[sealed with key 65f2733]", "sealed with key 65f27332", "[sealed with key 65f27332"} {
		if name, ok := seal.Sealed(runlog.Info{Title: title}); ok {
			t.Errorf("%s: sealed with %q", title, name)
		}
	}
}

func TestPlainRuns(t *testing.T) {
	t.Parallel()
	m := runlog.NewMemory(nil)
	write(t, m)
	was, _ := m.Runs(t.Context(), nil)
	s := sealed(t, m, seal.NewKey())
	_, rerr := s.Read(t.Context(), id, 1, 9)
	_, _, aerr := s.Acquire(t.Context(), id, nil)
	for _, err := range []error{rerr, aerr} {
		var e *seal.UnauthenticatedError
		if !errors.As(err, &e) || e.ID != id || !e.Plain || !errors.As(err, new(*runlog.CorruptError)) ||
			!strings.Contains(err.Error(), "unauthenticated record rejected") || !strings.Contains(err.Error(), "export") {
			t.Errorf("%v", err)
		}
	}
	infos, err := s.Runs(t.Context(), nil)
	if err != nil || len(infos) != 1 || infos[0].Title != "[not encrypted]" || infos[0].Workflow != "" {
		t.Errorf("listed %+v, error %v", infos, err)
	}
	if now, _ := m.Runs(t.Context(), nil); now[0] != was[0] {
		t.Errorf("it became %+v", now[0])
	}
	if err := s.Delete(t.Context(), id); err != nil {
		t.Error(err)
	}
}

// forged is a store whose records somebody has changed.
type forged struct {
	runlog.Store
	change func([]runlog.Record) []runlog.Record
	title  func(*runlog.Info)
}

func (f forged) Read(ctx context.Context, id string, from uint64, limit int) ([]runlog.Record, error) {
	recs, err := f.Store.Read(ctx, id, from, limit)
	if f.change != nil {
		recs = f.change(recs)
	}
	return recs, err
}

func (f forged) Runs(ctx context.Context, filter *runlog.Filter) ([]runlog.Info, error) {
	infos, err := f.Store.Runs(ctx, filter)
	for i := range infos {
		if f.title != nil {
			f.title(&infos[i])
		}
	}
	return infos, err
}

func TestForgery(t *testing.T) {
	t.Parallel()
	m := runlog.NewMemory(nil)
	key := seal.NewKey()
	write(t, sealed(t, m, key))
	l, _, err := sealed(t, m, key).Acquire(t.Context(), "other", &runlog.AcquireOptions{Create: &runlog.NewRun{}})
	if err == nil {
		err = l.Append(t.Context(), &runlog.Batch{Records: records()})
	}
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := m.Read(t.Context(), "other", 1, 9)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(r *runlog.Record){
		"an attachment":         func(r *runlog.Record) { r.Attachment = []byte("x") },
		"another run's record":  func(r *runlog.Record) { *r = foreign[1] },
		"another sequence":      func(r *runlog.Record) { r.Seq = 7 },
		"another epoch":         func(r *runlog.Record) { r.Epoch++ },
		"another kind":          func(r *runlog.Record) { r.Kind = runlog.KindInner },
		"a kind of that size":   func(r *runlog.Record) { r.Kind = "snapshoT" },
		"another time":          func(r *runlog.Record) { r.Time = r.Time.Add(1) },
		"a path":                func(r *runlog.Record) { r.Path = "p" },
		"no data":               func(r *runlog.Record) { r.Data = nil },
		"plain data":            func(r *runlog.Record) { r.Data = json.RawMessage(`{}`) },
		"only the mark":         func(r *runlog.Record) { r.Data = r.Data[:1] },
		"cut off":               func(r *runlog.Record) { r.Data = r.Data[:len(r.Data)-1] },
		"another version":       func(r *runlog.Record) { r.Data[1]++ },
		"a bit of the nonce":    func(r *runlog.Record) { r.Data[8] ^= 1 },
		"a bit of the contents": func(r *runlog.Record) { r.Data[20] ^= 1 },
		"a bit of the tag":      func(r *runlog.Record) { r.Data[len(r.Data)-1] ^= 1 },
	} {
		f := forged{Store: m, change: func(recs []runlog.Record) []runlog.Record {
			change(&recs[1])
			return recs
		}}
		recs, err := sealed(t, f, key).Read(t.Context(), id, 1, 9)
		var e *seal.UnauthenticatedError
		var c *runlog.CorruptError
		if !errors.As(err, &e) || !errors.As(err, &c) || c.Good+1 != c.Seq || len(recs) != 1 || recs[0].Path != canary {
			t.Errorf("%s: %d records, error %v", name, len(recs), err)
		}
	}
	f := forged{Store: m, change: func(recs []runlog.Record) []runlog.Record {
		recs[2].Data[1]-- // as if it had no attachment
		return recs
	}}
	if recs, err := sealed(t, f, key).Read(t.Context(), id, 1, 9); !errors.As(err, new(*seal.UnauthenticatedError)) || len(recs) != 2 {
		t.Errorf("the version of a record with an attachment: %d records, error %v", len(recs), err)
	}
	f = forged{Store: m, change: func(recs []runlog.Record) []runlog.Record {
		recs[1].Data[2] ^= 1
		return recs
	}}
	if _, err := sealed(t, f, key).Read(t.Context(), id, 1, 9); !errors.As(err, new(*runlog.SealedError)) {
		t.Errorf("a key that is not there: %v", err)
	}

	infos, err := m.Runs(t.Context(), &runlog.Filter{ID: "other"})
	if err != nil {
		t.Fatal(err)
	}
	for name, title := range map[string]func(i *runlog.Info){
		"another run's": func(i *runlog.Info) { i.Title = infos[0].Title },
		"none":          func(i *runlog.Info) { i.Title = "" },
		"plain":         func(i *runlog.Info) { i.Title = "a title" },
		"bad base64":    func(i *runlog.Info) { i.Title += "*" },
		"cut off":       func(i *runlog.Info) { i.Title = i.Title[:40] },
		"only the mark": func(i *runlog.Info) { i.Title = "sealed:" },
		"a workflow":    func(i *runlog.Info) { i.Workflow = "w" },
	} {
		s := sealed(t, forged{Store: m, title: title}, key)
		if _, _, err := s.Acquire(t.Context(), id, nil); !errors.As(err, new(*seal.UnauthenticatedError)) {
			t.Errorf("title: %s: Acquire: %v", name, err)
		}
		infos, err := s.Runs(t.Context(), &runlog.Filter{ID: id})
		if err != nil || len(infos) != 1 || !strings.HasPrefix(infos[0].Title, "[") || infos[0].Workflow != "" {
			t.Errorf("title: %s: listed %+v, error %v", name, infos, err)
		}
	}
}

// flaky is a store whose appends fail now and then.
type flaky struct {
	runlog.Store
	fail *error
	skew *uint64
}

type flakyLog struct {
	runlog.Log
	flaky
}

func (f flaky) Acquire(ctx context.Context, id string, opt *runlog.AcquireOptions) (runlog.Log, runlog.Info, error) {
	l, info, err := f.Store.Acquire(ctx, id, opt)
	return flakyLog{l, f}, info, err
}

func (l flakyLog) Append(ctx context.Context, b *runlog.Batch) error {
	if *l.fail != nil {
		return *l.fail
	}
	err := l.Log.Append(ctx, b)
	for i := range b.Records {
		b.Records[i].Seq += *l.skew
	}
	return err
}

func TestFailedAppends(t *testing.T) {
	t.Parallel()
	var fail error
	var skew uint64
	s := sealed(t, flaky{runlog.NewMemory(nil), &fail, &skew}, seal.NewKey())
	l, _, err := s.Acquire(t.Context(), id, &runlog.AcquireOptions{Create: &runlog.NewRun{Workflow: canary, Title: canary}})
	if err != nil {
		t.Fatal(err)
	}
	add := func(recs ...runlog.Record) error { return l.Append(t.Context(), &runlog.Batch{Records: recs}) }
	want := records()
	if err := add(want[:1]...); err != nil {
		t.Fatal(err)
	}
	fail = errors.New("not now")
	if err := add(want[1:]...); !errors.Is(err, fail) || want[1].Seq != 0 {
		t.Fatalf("%v", err)
	}
	fail = nil
	if err := add(runlog.Record{Kind: runlog.KindEvent, Time: time.Unix(1, 0), Path: strings.Repeat("p", runlog.MaxPath+1)}); err == nil || !strings.Contains(err.Error(), "path") {
		t.Fatalf("a path that is too long: %v", err)
	}
	if err := add(want[1:]...); err != nil {
		t.Fatal(err)
	}
	check(t, s)
	fail = fmt.Errorf("gone: %w", runlog.ErrUnknown)
	if err := add(records()...); !errors.Is(err, runlog.ErrUnknown) {
		t.Fatal(err)
	}
	fail = nil
	if err := add(records()...); !errors.Is(err, runlog.ErrUnknown) {
		t.Fatalf("where the next record goes is unknown, and it was appended: %v", err)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if l, _, err = s.Acquire(t.Context(), id, nil); err != nil {
		t.Fatal(err)
	}
	skew = 1
	for range 2 {
		if err := add(records()...); !errors.Is(err, runlog.ErrUnknown) {
			t.Fatalf("a record that does not open there: %v", err)
		}
	}
}

func TestParseKeys(t *testing.T) {
	t.Parallel()
	key := seal.NewKey()
	hex := key.Encode()
	std := "q6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6s="
	for _, s := range []string{hex, strings.ToUpper(hex), " " + hex + "\n", std, strings.TrimRight(std, "="), "-_urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6s"} {
		if _, err := seal.ParseKeys(s); err != nil {
			t.Errorf("%q: %v", s, err)
		}
	}
	if again, err := seal.ParseKeys(hex); err != nil || len(again) != 1 || again[0] != key {
		t.Errorf("%v became %v, error %v", key, again, err)
	}
	for _, s := range []string{"secret", hex[2:], hex + "ab", std[4:], strings.Repeat("0", 64), strings.Repeat("zz", 32)} {
		_, err := seal.ParseKeys(s)
		if err == nil || strings.Contains(err.Error(), s) {
			t.Errorf("%q: %v", s, err)
		}
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		if out := fmt.Sprintf(verb, key); strings.Contains(out, hex) || !strings.Contains(out, key.ID()) {
			t.Errorf("%s prints %s", verb, out)
		}
	}
	if b, err := json.Marshal(key); err != nil || string(b) != `"key `+key.ID()+`"` {
		t.Errorf("it encodes as %s, error %v", b, err)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for _, keys := range [][]seal.Key{nil, {{}}, {seal.NewKey(), {}}} {
		if _, err := seal.New(runlog.NewMemory(nil), keys...); err == nil {
			t.Errorf("%v were taken", keys)
		}
	}
	key := seal.NewKey()
	if _, err := seal.New(runlog.NewMemory(nil), key, key); err != nil {
		t.Error(err)
	}
}

func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{1 << 10, 100 << 10} {
		for _, with := range []bool{false, true} {
			b.Run(fmt.Sprintf("%dKB/sealed=%v", size>>10, with), func(b *testing.B) {
				var s runlog.Store = discard{}
				if with {
					s = sealed(b, s, seal.NewKey())
				}
				l, _, err := s.Acquire(b.Context(), id, &runlog.AcquireOptions{Create: &runlog.NewRun{}})
				if err != nil {
					b.Fatal(err)
				}
				data := json.RawMessage(`"` + strings.Repeat("x", size-2) + `"`)
				b.SetBytes(int64(size))
				for b.Loop() {
					recs := []runlog.Record{{Kind: runlog.KindEvent, Time: time.Unix(1, 0), Path: "node", Data: data}}
					if err := l.Append(b.Context(), &runlog.Batch{Records: recs}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkRead(b *testing.B) {
	for _, size := range []int{1 << 10, 100 << 10} {
		for _, with := range []bool{false, true} {
			b.Run(fmt.Sprintf("%dKB/sealed=%v", size>>10, with), func(b *testing.B) {
				var s runlog.Store = runlog.NewMemory(nil)
				if with {
					s = sealed(b, s, seal.NewKey())
				}
				l, _, err := s.Acquire(b.Context(), id, &runlog.AcquireOptions{Create: &runlog.NewRun{}})
				if err != nil {
					b.Fatal(err)
				}
				const n = 100
				data := json.RawMessage(`"` + strings.Repeat("x", size-2) + `"`)
				recs := make([]runlog.Record, n)
				for i := range recs {
					recs[i] = runlog.Record{Kind: runlog.KindEvent, Time: time.Unix(1, 0), Path: "node", Data: data}
				}
				if err := l.Append(b.Context(), &runlog.Batch{Records: recs}); err != nil {
					b.Fatal(err)
				}
				b.SetBytes(int64(size * n))
				for b.Loop() {
					if _, err := s.Read(b.Context(), id, 1, n); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkList(b *testing.B) {
	s := sealed(b, runlog.NewMemory(nil), seal.NewKey())
	for i := range 10_000 {
		if _, _, err := s.Acquire(b.Context(), fmt.Sprintf("r-%d", i), &runlog.AcquireOptions{Create: &runlog.NewRun{Workflow: "research", Title: strings.Repeat("a title ", 10)}}); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if infos, err := s.Runs(b.Context(), nil); err != nil || len(infos) != 10_000 {
			b.Fatal(err)
		}
	}
}

// discard numbers what it is given and keeps nothing, so that only the seal is measured.
type discard struct{ runlog.Store }

type discardLog struct {
	runlog.Log
	seq uint64
}

func (discard) Acquire(_ context.Context, id string, opt *runlog.AcquireOptions) (runlog.Log, runlog.Info, error) {
	return &discardLog{}, runlog.Info{ID: id, Epoch: 1, Workflow: opt.Create.Workflow, Title: opt.Create.Title}, nil
}

func (l *discardLog) Append(_ context.Context, b *runlog.Batch) error {
	for i := range b.Records {
		l.seq++
		b.Records[i].Seq, b.Records[i].Epoch = l.seq, 1
	}
	return nil
}
