package mcp

import "slices"

// Changes is the difference between what was agreed to and what the server offers now, as Diff gives
// it; "" if there is none.
func (c *Conn) Changes() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.offered == nil {
		return ""
	}
	return c.agreed.public().Diff(c.offered.public())
}

// Warnings are what was left out or cleaned of the tools the server offers now.
func (c *Conn) Warnings() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.offered == nil {
		return nil
	}
	return slices.Clone(c.offered.notes)
}
