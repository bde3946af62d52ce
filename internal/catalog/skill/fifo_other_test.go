//go:build !unix

package skill_test

import "errors"

func mkfifo(string) error { return errors.ErrUnsupported }
