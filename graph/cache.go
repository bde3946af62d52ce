package graph

import (
	"container/list"
	"context"
	"sync"
	"time"
)

type memoryCache struct {
	now  func() time.Time
	most int

	mu      sync.Mutex
	entries map[string]*list.Element // of kept
	used    list.List                // the one that was used last in front
}

// cachedEntry is an element of memoryCache.used.
type cachedEntry struct {
	key   string
	value []byte
	until time.Time // zero for ever
}

// NewMemoryCache creates a [Cache] of this process, which keeps the most recently used entries: at
// most the given number, and at least one. The function now returns the time.
func NewMemoryCache(most int, now func() time.Time) Cache {
	return &memoryCache{now: now, most: max(most, 1), entries: map[string]*list.Element{}}
}

func (c *memoryCache) Load(_ context.Context, key string) ([]byte, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.entries[key]
	if at == nil {
		return nil, false, nil
	}
	e, _ := at.Value.(*cachedEntry)
	if !e.until.IsZero() && !c.now().Before(e.until) {
		c.drop(at)
		return nil, false, nil
	}
	c.used.MoveToFront(at)
	return e.value, true, nil
}

func (c *memoryCache) Store(_ context.Context, key string, value []byte, ttl time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := &cachedEntry{key: key, value: value}
	if ttl > 0 {
		e.until = c.now().Add(ttl)
	}
	if at := c.entries[key]; at != nil {
		c.drop(at)
	}
	c.entries[key] = c.used.PushFront(e)
	for c.used.Len() > c.most {
		c.drop(c.used.Back())
	}
	return nil
}

func (c *memoryCache) drop(at *list.Element) {
	e, _ := c.used.Remove(at).(*cachedEntry)
	delete(c.entries, e.key)
}
