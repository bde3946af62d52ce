//go:build !unix

package mcp_test

import "os/exec"

func detach(*exec.Cmd) {}

func alive(int) bool { return false }
