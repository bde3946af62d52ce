package runlogtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/internal/unlisted"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/seal"
	"github.com/superstep-dev/superstep/runlog/storekit"
)

// A Site is where a store under test keeps its data. It is empty at first.
type Site struct {
	// Open opens the store, with what p says of its options. It is closed when the test ends.
	Open func(t *testing.T, p *storekit.Protection) runlog.Store

	// Stored returns all stored bytes, as an attacker would find them in its files, its tables or
	// its memory.
	Stored func(t *testing.T) []byte
}

// RunProtected runs the cases about what a store must not hold: secrets of the environment,
// and with a key everything that a run is about.
func RunProtected(t *testing.T, site func(t *testing.T) *Site) {
	const (
		token   = "canary-9f86d081884c7d65"
		escaped = `canary "9f86d0" <81884c>`
		line    = "second9f86d081884c7d65line"
		plain   = "this-is-no-secret"
	)
	environ := []string{"CANARY_TOKEN=" + token, "ESCAPED_PASSWORD=" + escaped, "LINES_SECRET=first line of the secret\n" + line}
	text := strings.Join([]string{plain, token, escaped, "    2\t" + line, "https://me:canary81884c@host"}, " | ")
	write := func(t *testing.T, s runlog.Store, id string) {
		t.Helper()
		f := &fixture{T: t, store: s}
		l, _, err := s.Acquire(t.Context(), id, &runlog.AcquireOptions{Create: &runlog.NewRun{Workflow: "w-" + plain, Title: text}})
		f.ok(err)
		data, err := json.Marshal(map[string]string{"text": text})
		f.ok(err)
		f.append(l, &runlog.Batch{Records: []runlog.Record{{Kind: runlog.KindEvent, Path: "p-" + plain, Time: start, Data: data}}, Summary: string(data)})
		f.ok(l.Release(t.Context()))
		said, err := json.Marshal(text)
		f.ok(err)
		f.ok(unlisted.Post(t.Context(), s, id, &unlisted.Request{Kind: unlisted.KindSteer, Path: "p-" + plain, Time: start, Data: said}))
	}
	readBack := func(t *testing.T, s runlog.Store, id string) string {
		t.Helper()
		f := &fixture{T: t, store: s}
		return f.info(id).Title + f.info(id).Summary + string(f.read(id, 1, 9)[0].Data)
	}
	refuses := func(t *testing.T, stored []byte, words ...string) {
		t.Helper()
		for _, w := range words {
			quoted, _ := json.Marshal(w)
			if bytes.Contains(stored, []byte(w)) || bytes.Contains(stored, quoted[1:len(quoted)-1]) {
				t.Errorf("%q is in the store", w)
			}
		}
	}
	for name, process := range map[string]bool{"redacted": false, "redacted by default": true} {
		t.Run(name, func(t *testing.T) {
			t.Log("rule: no secret of the environment reaches the store")
			s := site(t)
			p := &storekit.Protection{Environ: environ}
			if process {
				p.Environ = nil
				for _, entry := range environ {
					name, value, _ := strings.Cut(entry, "=")
					t.Setenv(name, value)
				}
			}
			store := s.Open(t, p)
			write(t, store, "r")
			stored := s.Stored(t)
			refuses(t, stored, token, escaped, line, "canary81884c")
			if !bytes.Contains(stored, []byte(plain)) {
				t.Error("what is no secret is not in the store, or Stored does not find it")
			}
			if got := readBack(t, store, "r"); strings.Count(got, "[redacted:CANARY_TOKEN]") != 3 {
				t.Errorf("the run reads %s", got)
			}
		})
	}
	t.Run("raw", func(t *testing.T) {
		t.Log("rule: with Raw records are stored as they are")
		s := site(t)
		store := s.Open(t, &storekit.Protection{Environ: environ, Raw: true})
		write(t, store, "r")
		if !bytes.Contains(s.Stored(t), []byte(token)) || strings.Count(readBack(t, store, "r"), token) != 3 {
			t.Error("the record was changed")
		}
	})
	t.Run("encrypted", func(t *testing.T) {
		t.Log("rule: with a key nothing that a run is about reaches the store, and without it nothing is written")
		s, key, old := site(t), seal.NewKey(), seal.NewKey()
		write(t, s.Open(t, &storekit.Protection{Environ: environ, Keys: []seal.Key{old}}), "old")
		store := s.Open(t, &storekit.Protection{Environ: environ, Keys: []seal.Key{key, old}})
		write(t, store, "r")
		refuses(t, s.Stored(t), plain, token, escaped, line)
		for _, id := range []string{"r", "old"} {
			if got := readBack(t, store, id); strings.Count(got, plain) != 3 || strings.Count(got, "[redacted:CANARY_TOKEN]") != 3 {
				t.Errorf("run %s reads %s", id, got)
			}
		}
		for _, raw := range []bool{false, true} {
			without := s.Open(t, &storekit.Protection{Environ: environ, Raw: raw})
			for id, opt := range map[string]*runlog.AcquireOptions{"new": {Create: &runlog.NewRun{Title: plain}}, "r": nil} {
				l, _, err := without.Acquire(t.Context(), id, opt)
				if err == nil {
					err = errors.Join(l.Append(t.Context(), &runlog.Batch{Records: records(1)}), l.Release(t.Context()))
				}
				var sealed *runlog.SealedError
				if !errors.As(err, &sealed) || sealed.Key != key.ID() {
					t.Errorf("without the key, run %s: %v", id, err)
				}
			}
		}
		refuses(t, s.Stored(t), plain)
		for _, info := range (&fixture{T: t, store: s.Open(t, &storekit.Protection{Environ: environ})}).infos() {
			if info.Summary == "" || info.Summary[0] != runlog.SealMark {
				t.Errorf("without the key, run %s has the summary %q", info.ID, info.Summary)
			}
		}
		f := &fixture{T: t, store: store}
		f.wantIDs(nil, "r", "old")
		l, _ := f.acquire("r") // which nobody holds
		f.append(l, &runlog.Batch{Records: records(1)})
	})
}

// Files returns the contents of all files in a directory and those below it, for
// [Site.Stored].
func Files(t *testing.T, dir string) (all []byte) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		all = append(all, b...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
