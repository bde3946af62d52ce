// Package memory keeps values across runs, in the store of the runs. Each namespace is a log of its own that no listing shows, so it is durable, redacted
// and encrypted as runs are, and several processes may use it at the same time.
//
// In a node, read and write through graph.Do, so that a run that is resumed or replayed gets what it got:
//
//	style, err := graph.Do(ctx, "style", func(ctx context.Context, _ string) (string, error) {
//		return memory.Get[string](ctx, space, "style")
//	})
//
// and pass the key that graph.Do gives to Put as PutOptions.ID: a write that a crash cut off is then made once. Agents read and write with [Tools].
package memory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/superstep-dev/superstep/internal/unlisted"
	"github.com/superstep-dev/superstep/runlog"
)

// Options of New. Nil means the defaults.
type Options struct {
	// Embed returns a vector for each text. Search then finds values by their meaning, too. If it fails, Search finds them by their words.
	Embed func(ctx context.Context, texts []string) ([][]float32, error)
	// Now returns the time. Defaults to time.Now.
	Now func() time.Time
}

// A Memory is what the runs of a store remember. Its methods, and those of its spaces, may be called from several goroutines.
type Memory struct {
	store runlog.Store
	opt   Options

	mu     sync.Mutex
	spaces map[string]*Space
}

// New returns the memory in a store.
func New(store runlog.Store, opt *Options) *Memory {
	m := &Memory{store: store, spaces: map[string]*Space{}}
	if opt != nil {
		m.opt = *opt
	}
	if m.opt.Now == nil {
		m.opt.Now = time.Now
	}
	return m
}

// The limits of a namespace.
const (
	MaxKey   = 200      // bytes of a key or a name
	MaxValue = 64 << 10 // bytes of a value, as JSON
	maxItems = 10_000   // that have not expired
	maxSize  = 64 << 20 // bytes of their values
)

// An Item is a value that is remembered.
type Item struct {
	Key     string          `json:"key"`
	Value   json.RawMessage `json:"value"`
	Updated time.Time       `json:"updated"`
	Expires time.Time       `json:"expires,omitzero"` // zero for never
	Run     string          `json:"run,omitempty"`    // that wrote it, if it was one
}

// Text returns the value for people: a string as it is, anything else as JSON.
func (i *Item) Text() string {
	var s string
	if json.Unmarshal(i.Value, &s) == nil {
		return s
	}
	return string(i.Value)
}

// A NotFoundError reports that a namespace has no value of a key.
type NotFoundError struct{ Namespace, Key string }

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("memory %s: there is nothing under %q", e.Namespace, e.Key)
}

// In returns the values of a namespace. Its name is made of segments, such as "users/ada": each has 1 to 200 bytes and no control characters.
func (m *Memory) In(namespace string) (*Space, error) {
	for segment := range strings.SplitSeq(namespace, "/") {
		if err := checkName("a segment of the namespace", segment); err != nil {
			return nil, err
		}
	}
	if err := checkName("the namespace", namespace); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.spaces[namespace]
	if s == nil {
		s = &Space{m: m, name: namespace}
		m.spaces[namespace] = s
	}
	return s, nil
}

// Name returns the name of the namespace.
func (s *Space) Name() string { return s.name }

func checkName(what, name string) error {
	if name == "" || len(name) > MaxKey || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return fmt.Errorf("memory: %s is %.70q: use 1 to %d bytes of text without control characters", what, name, MaxKey)
	}
	return nil
}

// Namespaces returns the names of the namespaces that have values, in order: with a prefix, that one and those below it, such as "users" and
// "users/ada", but not "users2".
func (m *Memory) Namespaces(ctx context.Context, prefix string) ([]string, error) {
	infos, err := m.store.Runs(ctx, &runlog.Filter{Prefix: unlisted.MemoryPrefix, Status: []runlog.Status{runlog.Importing}})
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for i := range infos {
		name := infos[i].Title
		if infos[i].Head == 0 || prefix != "" && name != prefix && !strings.HasPrefix(name, prefix+"/") {
			continue
		}
		if s, err := m.In(name); err != nil { // another store's
			continue
		} else if items, err := s.Items(ctx); err != nil {
			return nil, err
		} else if len(items) > 0 {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names)), nil
}

// Get returns the value under a key as a T. The error is *NotFoundError if there is none.
func Get[T any](ctx context.Context, s *Space, key string) (v T, err error) {
	item, err := s.Get(ctx, key)
	if err != nil {
		return v, err
	}
	if err := json.Unmarshal(item.Value, &v); err != nil {
		return v, fmt.Errorf("memory %s: the value under %q: %w", s.name, key, err)
	}
	return v, nil
}

// Get returns the item under a key. The error is *NotFoundError if there is none.
func (s *Space) Get(ctx context.Context, key string) (Item, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.refresh(ctx); err != nil {
		return Item{}, err
	}
	if i, ok := s.items[key]; ok && s.alive(&i.Item) {
		return i.Item, nil
	}
	return Item{}, &NotFoundError{s.name, key}
}

// Items returns all items, in the order of their keys.
func (s *Space) Items(ctx context.Context) ([]Item, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.refresh(ctx); err != nil {
		return nil, err
	}
	var out []Item
	for _, key := range slices.Sorted(maps.Keys(s.items)) {
		if i := s.items[key]; s.alive(&i.Item) {
			out = append(out, i.Item)
		}
	}
	return out, nil
}

// PutOptions are the settings of one Put. Nil means the defaults.
type PutOptions struct {
	ID      string    // of the write, such as the key that graph.Do gives: one of an ID that was made changes nothing. Defaults to none
	Expires time.Time // when the value is forgotten. Defaults to never
	Run     string    // that writes it, for people
}

// Put stores a value, which must encode as JSON, in place of the one under the same key. It is durable when Put returns.
func (s *Space) Put(ctx context.Context, key string, value any, opt *PutOptions) error {
	if err := checkName("the key", key); err != nil {
		return err
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("memory %s: the value under %q: %w", s.name, key, err)
	}
	if len(raw) > MaxValue {
		return fmt.Errorf("memory %s: the value under %q has %d bytes, and may have %d: store it in a file, and remember its name", s.name, key, len(raw), MaxValue)
	}
	if opt == nil {
		opt = &PutOptions{}
	}
	return s.write(ctx, &entry{ID: opt.ID, Item: &Item{Key: key, Value: raw, Expires: opt.Expires.UTC(), Run: opt.Run}})
}

// Delete removes the value under a key. It is no error if there is none. The ID is that of the write, see PutOptions; "" for none.
func (s *Space) Delete(ctx context.Context, key, id string) error {
	if _, err := s.Get(ctx, key); errors.As(err, new(*NotFoundError)) {
		return nil
	} else if err != nil {
		return err
	}
	return s.write(ctx, &entry{ID: id, Forget: key})
}

// Clear removes all values of the namespace.
func (s *Space) Clear(ctx context.Context) error {
	if items, err := s.Items(ctx); err != nil || len(items) == 0 {
		return err
	}
	return s.write(ctx, &entry{Clear: true})
}
