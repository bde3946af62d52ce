//go:build !unix

package docindex

const nonblock = 0
