package storekit_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
	"github.com/superstep-dev/superstep/runlog/seal"
	"github.com/superstep-dev/superstep/runlog/storekit"
)

func protect(t *testing.T, raw runlog.Store, p *storekit.Protection) runlog.Store {
	t.Helper()
	s, err := storekit.Protect(raw, p)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestProtected(t *testing.T) {
	runlogtest.RunProtected(t, func(*testing.T) *runlogtest.Site {
		m := runlog.NewMemory(nil)
		return &runlogtest.Site{
			Open: func(t *testing.T, p *storekit.Protection) runlog.Store { return protect(t, m, p) },
			Stored: func(t *testing.T) []byte {
				var b bytes.Buffer
				infos, err := m.Runs(t.Context(), nil)
				if err != nil {
					t.Fatal(err)
				}
				for _, i := range infos {
					b.WriteString(i.Workflow + " " + i.Title + "\n")
					recs, err := m.Read(t.Context(), i.ID, 1, 99)
					if err != nil {
						t.Fatal(err)
					}
					for _, r := range recs {
						b.WriteString(r.Path)
						b.Write(r.Data)
					}
				}
				return b.Bytes()
			},
		}
	})
}

// A store whose runs are not encrypted, with one of an old key among them, is no encrypted
// store: only that run is refused. What is encrypted already, by a store around it, is not.
func TestMixed(t *testing.T) {
	t.Parallel()
	m, key := runlog.NewMemory(nil), seal.NewKey()
	for _, s := range []runlog.Store{protect(t, m, &storekit.Protection{Keys: []seal.Key{key}}), protect(t, m, &storekit.Protection{Raw: true})} {
		if _, ok := runlog.As[runlog.Waiter](s); !ok {
			t.Error("it is no Waiter, and the store within is")
		}
	}
	add := func(s runlog.Store, id string) error {
		l, _, err := s.Acquire(t.Context(), id, &runlog.AcquireOptions{Create: &runlog.NewRun{}})
		if err == nil {
			err = l.Release(t.Context())
		}
		return err
	}
	plain := protect(t, m, &storekit.Protection{})
	if err := add(plain, "plain"); err != nil {
		t.Fatal(err)
	}
	if err := add(protect(t, m, &storekit.Protection{Keys: []seal.Key{key}}), "encrypted"); err != nil {
		t.Fatal(err)
	}
	if err := add(plain, "later"); err != nil { // it had looked before
		t.Error(err)
	}
	again := protect(t, m, &storekit.Protection{})
	if err := add(again, "another"); err != nil {
		t.Error(err)
	}
	l, _, err := again.Acquire(t.Context(), "encrypted", nil)
	if err != nil {
		t.Fatal(err)
	}
	b := &runlog.Batch{Records: []runlog.Record{{Kind: runlog.KindEvent, Time: time.Unix(1, 0), Data: json.RawMessage(`{}`)}}}
	if err := l.Append(t.Context(), b); err == nil || err.Error() != (&runlog.SealedError{ID: "encrypted", Key: key.ID()}).Error() {
		t.Errorf("appended: %v", err)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	around, err := seal.New(again, key)
	if err != nil {
		t.Fatal(err)
	}
	if err := add(around, "around"); err != nil {
		t.Error(err)
	}
	if l, _, err = around.Acquire(t.Context(), "encrypted", nil); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.Append(t.Context(), b), l.Release(t.Context()), again.Delete(t.Context(), "encrypted")); err != nil {
		t.Error(err)
	}
}

// The keys of a store and the password of its address are secrets too.
func TestOwnSecrets(t *testing.T) {
	t.Parallel()
	key := seal.NewKey()
	m := runlog.NewMemory(nil)
	s := protect(t, m, &storekit.Protection{Keys: []seal.Key{key}, Environ: []string{}, Address: "postgres://me:quite%20secret@host/db"})
	l, _, err := s.Acquire(t.Context(), "r", &runlog.AcquireOptions{Create: &runlog.NewRun{}})
	if err != nil {
		t.Fatal(err)
	}
	b := &runlog.Batch{Records: []runlog.Record{{Kind: runlog.KindEvent, Time: time.Unix(1, 0), Data: json.RawMessage(`"` + key.Encode() + ` quite secret"`)}}}
	if err := l.Append(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if got := string(b.Records[0].Data); got != `"[redacted:STORE_KEY] [redacted:STORE_URL]"` {
		t.Errorf("stored is %s", got)
	}
	if _, err := storekit.Protect(m, &storekit.Protection{Keys: []seal.Key{{}}}); err == nil {
		t.Error("an empty key was taken")
	}
}
