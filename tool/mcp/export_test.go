package mcp

import (
	"slices"
	"time"
)

type Conn = conn

var (
	Connect    = connect
	ListDigest = listDigest
)

// Parse is parse for the configuration of a project.
func Parse(data []byte, path string) (*config, error) { return parse(data, path, scopeProject) }

// Changes is the difference between what was approved and what the server offers now, as Diff gives
// it; "" if there is none.
func (c *conn) Changes() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.offered == nil {
		return ""
	}
	return c.agreed.Diff(&c.offered.Offer)
}

// Warnings are what was left out or cleaned of the tools the server offers now.
func (c *conn) Warnings() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.offered == nil {
		return nil
	}
	return slices.Clone(c.offered.notes)
}

// ProgressEvery sets how often clients are told that a call is under way.
func (o *ServeOptions) ProgressEvery(d time.Duration) { o.progress = d }

// Conns are the connections of a group.
func (g *Group) Conns() []*Conn { return g.conns }

// Pages reads a list of texts.
func Pages(get func(cursor string) ([]string, string, error)) error {
	_, _, err := pages(maxTools, get)
	return err
}
