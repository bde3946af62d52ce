//go:build !unix

package catalog

import "errors"

func mkfifo(string) error { return errors.ErrUnsupported }
