//go:build !unix

package frontmatter_test

import "errors"

func mkfifo(string) error { return errors.ErrUnsupported }
