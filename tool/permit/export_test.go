package permit

import "slices"

type SyntaxError = syntaxError

// Defaults are the rules that hold where no other matches.
func Defaults() []Rule { return slices.Concat(usual(), keyFiles()) }

// AlwaysProtected is alwaysProtected, for tests.
func AlwaysProtected() []Protected { return alwaysProtected() }
