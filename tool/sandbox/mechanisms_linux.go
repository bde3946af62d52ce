//go:build linux && !amd64 && !arm64

package sandbox

import "errors"

func mechanisms() []mechanism { return nil }

// confined is never called: there is no mechanism.
func (c *Cmd) confined() error { return errors.New("sandbox: there is none on this system") }
