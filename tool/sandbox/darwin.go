//go:build darwin

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

const sandboxExec = "/usr/bin/sandbox-exec"

func mechanisms() []mechanism {
	return []mechanism{{Seatbelt, func(*Sandbox) (string, error) {
		if _, err := os.Stat(sandboxExec); err != nil {
			return "", errors.New("there is no " + sandboxExec)
		}
		return "untested", nil
	}}}
}

// confined starts a command with a profile for sandbox-exec.
func (c *Cmd) confined() error {
	found, err := c.begin()
	if err != nil {
		return err
	}
	policy := c.s.policy()
	port, proxyURL := 0, ""
	if !policy.anyNetwork() {
		if port, err = c.listen(policy.Network); err != nil {
			return err
		}
		proxyURL = c.own.url()
	}
	c.env = c.s.environ(c.env, proxyURL)
	err = c.startPlain(sandboxExec, append([]string{"-p", c.profile(found, port), c.path}, c.args...))
	if err != nil && c.own != nil {
		_ = c.own.close()
	}
	if err != nil {
		err = errors.Join(err, c.leave(nil))
	}
	return err
}

// profile returns what the command may do, in the language of sandbox-exec, where the last rule
// that matches wins.
func (c *Cmd) profile(found finding, port int) string {
	var b strings.Builder
	b.WriteString("(version 1)(deny default)(allow process-fork)(allow process-exec)(allow signal (target same-sandbox))(allow " +
		"sysctl-read)(allow mach-lookup (global-name \"com.apple.system.opendirectoryd.libinfo\"))\n")
	b.WriteString("(allow file-read-metadata)(allow file-read* (literal \"/\") (subpath \"/dev\"))(allow file-write* (literal \"/dev/null\") " +
		"(literal \"/dev/zero\"))\n")
	l := c.layout()
	temp := c.s.own(tempFiles)
	for _, name := range l.sorted() {
		fmt.Fprintf(&b, "(allow file-read* (subpath %q))", name)
		if l.trees[name] {
			fmt.Fprintf(&b, "(allow file-write* (subpath %q))\n", name)
		}
	}
	fmt.Fprintf(&b, "(allow file-read* file-write* (subpath %q))\n", temp)
	for _, name := range found.protected {
		fmt.Fprintf(&b, "(deny file-write* (subpath %q))\n", name)
	}
	for _, name := range slices.Concat(l.hide, found.hidden) {
		fmt.Fprintf(&b, "(deny file-read* file-write* (subpath %q))\n", name)
	}
	switch {
	case port == 0:
		b.WriteString("(allow network*)")
	default:
		fmt.Fprintf(&b, "(allow network-outbound (remote ip \"localhost:%d\"))", port)
	}
	return b.String()
}
