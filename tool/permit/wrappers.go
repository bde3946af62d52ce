package permit

import (
	"path"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

const mostForms = 200 // ways to read one command that starts others

// call looks at a simple command. Commands that start others are looked through where that can
// be done for sure.
func (a *analysis) call(all []string) {
	if len(all) == 0 {
		return
	}
	if a.depth > 20 {
		a.hard("it has commands in commands in commands")
		a.protectedArgs("a command", all)
		return
	}
	if strings.ContainsAny(all[0], string(within)+string(spread)) || all[0] == "" {
		a.segment(all, nil)
		a.hard("the name of a command in it is computed")
		a.protectedArgs("a command", all[1:])
		return
	}
	name := path.Base(all[0])
	inner, ok := a.through(name, all)
	if ok {
		a.depth++
		a.call(inner)
		a.depth--
	} else {
		if ok = a.subshell(name, all[1:]); !ok {
			a.protectedArgs(name, all[1:])
		}
	}
	if ok { // a rule that denies the command around it holds, too
		a.units = append(a.units, unit{words: all, forms: suffixes(all), around: true})
		return
	}
	var forms [][]string
	if name == "git" {
		if at := gitCommand(all[1:]); at > 0 { // git -C dir push is a push
			forms = [][]string{append([]string{name}, all[1+at:]...)}
		}
	}
	if starts(name) && (name != "command" || len(all) < 2 || all[1] != "-v" && all[1] != "-V") {
		forms = suffixes(all)
		a.hard(name + " runs other commands")
	}
	a.segment(all, forms)
	a.special(name, all)
}

// suffixes are the commands that something that starts others may start.
func suffixes(all []string) [][]string {
	var out [][]string
	for i := 1; i < len(all) && i <= mostForms; i++ {
		out = append(out, all[i:min(len(all), i+mostForms)])
	}
	return out
}

// through gives the command that another one runs, if it does nothing else.
func (a *analysis) through(name string, all []string) ([]string, bool) {
	rest := all[1:]
	switch name {
	case "nohup":
		return some(skipOptions(rest, "", "", ""))
	case "nice":
		return some(skipOptions(rest, "", "n", "--adjustment="))
	case "timeout":
		rest, ok := skipOptions(rest, "v", "ks", "--foreground --preserve-status --verbose --kill-after= --signal=")
		if !ok || len(rest) < 2 || !plain(rest[0]) {
			return nil, false
		}
		return some(rest[1:], true)
	case "stdbuf":
		return some(skipOptions(rest, "", "ioe", "--input= --output= --error="))
	case "time":
		return some(skipOptions(rest, "p", "", ""))
	case "command":
		return some(skipOptions(rest, "", "", ""))
	case "env":
		rest, ok := skipOptions(rest, "i0", "u", "--ignore-environment --unset=")
		for ok && len(rest) > 0 && strings.Contains(rest[0], "=") {
			variable, _, _ := strings.Cut(rest[0], "=")
			if !harmlessVariable(variable) {
				a.hard("it sets " + shown([]string{variable}) + " for a command, which can change what that does")
			}
			rest = rest[1:]
		}
		return some(rest, ok)
	case "xargs":
		return a.xargs(rest)
	}
	return nil, false
}

// some is a command if there is one.
func some(rest []string, ok bool) ([]string, bool) { return rest, ok && len(rest) > 0 }

func plain(s string) bool { return !strings.ContainsAny(s, string(within)+string(spread)) }

// skipOptions takes the options off a command: letters alone, letters that take a value, and long ones, which take
// one if they end in "=". It fails at anything else that looks like an option or is computed.
func skipOptions(rest []string, alone, valued, long string) ([]string, bool) {
	for len(rest) > 0 {
		w := rest[0]
		switch {
		case !plain(w):
			return nil, false
		case w == "--":
			return rest[1:], true
		case !strings.HasPrefix(w, "-"):
			return rest, true
		case w == "-":
			return nil, false
		case strings.HasPrefix(w, "--"):
			name, _, hasValue := strings.Cut(w, "=")
			known := false
			for _, l := range strings.Fields(long) {
				known = known || hasValue && l == name+"=" || !hasValue && l == name
			}
			if !known {
				return nil, false
			}
		case strings.Trim(w[1:], alone) == "" && alone != "":
		case strings.Contains(valued, w[1:2]):
			if len(w) == 2 {
				if len(rest) < 2 || !plain(rest[1]) {
					return nil, false
				}
				rest = rest[1:]
			}
		default:
			return nil, false
		}
		rest = rest[1:]
	}
	return rest, true
}

// xargs gives the command that xargs runs with what it reads.
func (a *analysis) xargs(rest []string) ([]string, bool) {
	replace := ""
	for i := 0; i+1 < len(rest) && strings.HasPrefix(rest[i], "-"); i++ {
		if rest[i] == "-I" {
			replace = rest[i+1]
		} else if strings.HasPrefix(rest[i], "-I") {
			replace = rest[i][2:]
		}
	}
	rest, ok := skipOptions(rest, "0rtx", "nPLIds", "--null --no-run-if-empty --max-args= --max-procs= --delimiter=")
	if !ok || len(rest) == 0 {
		return nil, false
	}
	out := make([]string, 0, len(rest)+1)
	for _, w := range rest {
		if replace != "" {
			w = strings.ReplaceAll(w, replace, string(within))
		}
		out = append(out, w)
	}
	return append(out, string(spread)), true
}

// starts says whether a command is there to run others in a way that is not looked through.
func starts(name string) bool {
	switch name {
	case "sudo", "doas", "su", "pkexec", "runuser", "setpriv", "chroot", "nsenter", "unshare", "ssh", "parallel", "watch", "script",
		"entr", "flock", "strace", "ltrace", "gdb", "setsid", "chrt", "ionice", "taskset", "expect", "busybox", "toybox", "tmux", "screen",
		"at", "batch", "crontab", "systemd-run", "nohup", "nice", "timeout", "stdbuf", "time", "command", "env", "xargs", "exec", "builtin",
		"eval", "source", ".", "trap", "coproc":
		return true
	}
	return false
}

// special looks at commands whose words do more than they say.
func (a *analysis) special(name string, all []string) {
	rest := all[1:]
	r := risks(name, rest)
	if r.why != "" {
		a.late = a.late || a.why == "" && r.computed
		a.hard(r.why)
	}
	for _, w := range r.writes {
		if plain(w) && w != "-" {
			a.file(w, false)
		}
	}
	switch name {
	case "eval":
		if s := strings.Join(rest, " "); plain(s) {
			a.text(s, syntax.LangBash) // for what is denied
		}
	case "trap":
		if len(rest) > 0 && plain(rest[0]) {
			a.text(rest[0], syntax.LangBash)
		}
	case "find":
		a.find(rest)
	case "cd", "pushd", "popd":
		a.moved = true
		a.enter(rest)
	case "alias", "unalias", "enable", "hash", "bind", "complete", "compgen", "compopt", "mapfile", "readarray", "unset", "let", "declare", "typeset",
		"local", "export", "readonly", "shopt", "fc", "history", "getopts", "nameref":
		a.hard(name + " changes what other commands do, or runs some itself")
	case "set":
		for _, w := range rest {
			if w != "pipefail" && (len(w) < 2 || w[0] != '-' && w[0] != '+' || strings.Trim(w[1:], "euxo") != "") {
				a.hard("set changes what other commands do")
			}
		}
	case "read":
		for _, w := range rest {
			if w != "-r" && (w == "" || strings.Trim(w, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" || strings.HasSuffix(w, "_proxy")) {
				a.hard("read sets variables that others heed")
			}
		}
	case "printf", "test", "[":
		a.names(name, rest)
	case "fd", "fdfind":
		a.flags(name, rest, "xX", "--exec")
	case "npx", "pnpx", "bunx":
		a.flags(name, rest, "c", "--c")
	case "npm", "pnpm", "yarn", "bun":
		if len(rest) > 0 && (rest[0] == "exec" || rest[0] == "x" || rest[0] == "dlx" || !plain(rest[0]) || strings.HasPrefix(rest[0], "-")) {
			a.flags(name, rest, "c", "--c")
		}
	}
}

// gitCommand is where the subcommand of git is in its words, behind the options of git itself. A computed
// word may be an option, so it counts as one.
func gitCommand(rest []string) int {
	for i := 0; i < len(rest); i++ {
		switch w := rest[i]; {
		case w == "-C" || w == "-c" || w == "--git-dir" || w == "--work-tree" || w == "--namespace" || w == "--config-env" || w == "--exec-path":
			i++
		case !strings.HasPrefix(w, "-") && !strings.HasPrefix(w, string(spread)) && !strings.HasPrefix(w, string(within)):
			return i
		}
	}
	return len(rest)
}

// names looks at commands that take the name of a variable, which can hold a command in brackets.
func (a *analysis) names(name string, rest []string) {
	computed := 0
	for i, w := range rest {
		if !plain(w) {
			computed++
		}
		if w == "-v" || w == "-R" || name == "printf" && i == 0 && (strings.HasPrefix(w, "-v") || !plain(w)) || strings.Contains(w, "[") && strings.ContainsAny(w, "$`") {
			a.hard(name + " is given the name of a variable")
		}
	}
	if computed > 1 && name != "printf" {
		a.hard(name + " is given more than one computed word")
	}
}

// flags refuses options by which a command runs others.
func (a *analysis) flags(name string, rest []string, short, long string) {
	for _, w := range rest {
		isShort := len(w) > 1 && w[0] == '-' && w[1] != '-' && short != "" && strings.ContainsAny(w[1:], short)
		if isShort || strings.HasPrefix(w, long) || strings.HasPrefix(w, string(spread)) || strings.HasPrefix(w, string(within)) {
			a.hard(name + " runs other commands")
			return
		}
	}
}

// subshell looks at a shell that a command starts, and says whether it runs nothing but the text it
// is given, which has been looked at then.
func (a *analysis) subshell(name string, rest []string) bool {
	lang := syntax.LangPOSIX
	switch name {
	case "bash":
		lang = syntax.LangBash
	case "sh", "dash", "ash":
	case "zsh", "ksh", "fish", "csh", "tcsh":
		a.hard("it starts a shell of another kind")
	default:
		return false
	}
	for i, w := range rest {
		switch {
		case !plain(w):
			a.hard("it starts a shell with a computed command")
			return false
		case w == "--norc" || w == "--noprofile":
		case strings.HasPrefix(w, "-") && strings.HasSuffix(w, "c") && strings.Trim(w[1:], "eux") == "c":
			if i+1 >= len(rest) || !plain(rest[i+1]) || strings.HasPrefix(rest[i+1], "-") {
				a.hard("it starts a shell with a computed command")
				return false
			}
			a.protectedArgs(name, rest[i+2:])
			before := len(a.units)
			a.text(rest[i+1], lang)
			if len(a.units) == before {
				a.hard("it runs no command")
			}
			return true
		case strings.HasPrefix(w, "-") && len(w) > 1 && strings.Trim(w[1:], "eux") == "":
		case strings.HasPrefix(w, "-") || strings.HasPrefix(w, "+"):
			a.hard("it starts a shell with options that change what it does")
			a.anyText(rest[i+1:])
			return false
		default:
			return false // a script, by its name
		}
	}
	a.hard("it starts a shell that runs what it reads")
	return false
}

// anyText looks for what is denied in words that may be commands.
func (a *analysis) anyText(rest []string) {
	for _, w := range rest[:min(len(rest), 5)] {
		if plain(w) {
			a.text(w, syntax.LangBash)
		}
	}
}

// find looks at the commands and files of find.
func (a *analysis) find(rest []string) {
	for i := 0; i < len(rest); i++ {
		w := rest[i]
		if strings.HasPrefix(w, string(spread)) || strings.HasPrefix(w, string(within)) {
			a.hard("find is given computed words, which may run commands")
		}
		switch w {
		case "-fprint", "-fprint0", "-fls", "-fprintf":
			if i+1 < len(rest) && plain(rest[i+1]) {
				a.file(rest[i+1], false)
			} else {
				a.hard("find writes to a computed place")
			}
		case "-exec", "-execdir", "-ok", "-okdir":
			var inner []string
			for i++; i < len(rest) && rest[i] != ";" && rest[i] != "+"; i++ {
				inner = append(inner, strings.ReplaceAll(rest[i], "{}", string(within)))
			}
			if len(inner) == 0 || i >= len(rest) {
				a.hard("find runs a command that cannot be read")
			}
			a.depth++
			a.call(inner)
			a.depth--
		}
	}
}
