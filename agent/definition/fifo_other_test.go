//go:build !unix

package definition_test

import "errors"

func mkfifo(string) error { return errors.ErrUnsupported }
