//go:build !unix

package builtin

import "os"

// syncDir does nothing: folders cannot be synced here.
func syncDir(*os.Root, string) error { return nil }
