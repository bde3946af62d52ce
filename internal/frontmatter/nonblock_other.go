//go:build !unix

package frontmatter

const nonblock = 0
