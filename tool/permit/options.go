package permit

import "strings"

// An optionTable is what of a program's options runs other programs, changes what later commands do, or
// writes files, in commands that otherwise do neither. A command with one of them is never allowed by a
// pattern. Options of programs that are not here go by the pattern alone.
type optionTable struct {
	short  string // letters after one dash, alone or after others
	valued string // letters that take the rest of the word as a value, so that what follows is no option
	long   string // names after two dashes, also shortened
	dash   string // names after one dash or two, as Go has them
	prefix string // words that begin so
	subs   string // first words
	writes string // of short and long, those whose value is a file that is written
	any    bool   // what is computed may be anything: it runs the project's own code as it is
}

// optionsOf is the table. Programs that run others whatever their options are in starts; those that run a
// language of their own, sed and awk, are read by sedRisk and awkRisk, and git by gitRisk.
func optionsOf(name string) (optionTable, bool) {
	switch name {
	case "sort":
		return optionTable{short: "o", valued: "kStT", long: "output compress-program", writes: "o output"}, true
	case "shuf":
		return optionTable{short: "o", valued: "in", long: "output", writes: "o output"}, true
	case "tree":
		return optionTable{short: "oR", valued: "LPIHT", long: "output", writes: "o output"}, true
	case "split":
		return optionTable{long: "filter"}, true
	case "file":
		return optionTable{short: "C", valued: "mfFPe", long: "compile"}, true
	case "date":
		return optionTable{short: "s", valued: "dfrI", long: "set"}, true
	case "find":
		return optionTable{dash: "delete"}, true // the rest is in find
	case "rg":
		return optionTable{prefix: "--pre --hostname-bin"}, true
	case "ag", "ack", "bat", "batcat":
		return optionTable{long: "pager"}, true
	case "tar", "bsdtar", "gtar":
		return optionTable{short: "IF", valued: "fCTXbgHKLNV", long: "to-command checkpoint-action use-compress-program rsh-command rmt-command info-script new-volume-script"}, true
	case "zip":
		return optionTable{prefix: "-TT", long: "unzip-command"}, true
	case "less", "more":
		return optionTable{short: "oOk", valued: "bhjpPtTxyz", long: "log-file LOG-FILE lesskey-file lesskey-src lesskey-content", prefix: "+"}, true
	case "man":
		return optionTable{short: "PHCp", valued: "LmMSseErR", long: "pager html config-file preprocessor"}, true
	case "curl":
		return optionTable{short: "oOKDcJ", valued: "AbCdeEFhHmPQrtTuUwxXyYz", writes: "o D c output dump-header cookie-jar trace trace-ascii stderr libcurl",
			long: "output output-dir remote-name remote-name-all remote-header-name config trace trace-ascii stderr dump-header cookie-jar libcurl etag-save hsts alt-svc"}, true
	case "wget":
		return optionTable{short: "OoaPe", valued: "ABDIQRTUiltwX", writes: "O o a output-document output-file append-output",
			long: "output-document output-file append-output directory-prefix execute config use-askpass save-cookies warc-file"}, true
	case "rsync":
		return optionTable{short: "eM", valued: "BfT", long: "rsh rsync-path remote-option daemon config log-file write-batch only-write-batch"}, true
	case "scp", "sftp":
		return optionTable{short: "SoFDJ", valued: "cilPX"}, true
	case "go":
		return optionTable{dash: "exec toolexec vettool fixtool", prefix: "-ldflags=-extld --ldflags=-extld -extld"}, true
	case "cargo":
		return optionTable{long: "config"}, true
	case "npm", "pnpm", "yarn", "bun":
		return optionTable{short: "C", long: "prefix dir cwd script-shell shell node-options userconfig globalconfig call", subs: "exec x dlx config set explore edit"}, true
	case "pip", "pip3":
		return optionTable{long: "python target prefix root log", subs: "config"}, true
	case "docker", "podman":
		return optionTable{short: "v", long: "volume volumes-from mount privileged device cap-add security-opt pid config"}, true
	case "kubectl", "helm":
		return optionTable{long: "kubeconfig post-renderer"}, true
	case "gh":
		return optionTable{subs: "alias extension config"}, true
	}
	return optionTable{}, false
}

// A risk is why a command with its options does more than read, "" if it does not as far as is known, with the
// files that options have it write.
type risk struct {
	why      string
	computed bool // the reason is only that something is computed
	writes   []string
}

// risks looks at the words of a command behind its name.
func risks(name string, rest []string) risk {
	switch name {
	case "git":
		return gitRisk(rest)
	case "sed", "gsed":
		return sedRisk(name, rest)
	case "awk", "gawk", "mawk", "nawk":
		return awkRisk(name, rest)
	}
	t, ok := optionsOf(name)
	if !ok {
		return risk{}
	}
	var r risk
	if name == "tar" && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		rest = append([]string{"-" + strings.NewReplacer("f", "", "C", "", "b", "").Replace(rest[0])}, rest[1:]...) // letters without a dash
	}
	if name == "go" && len(rest) > 0 {
		t.any = rest[0] == "test" || rest[0] == "run" || rest[0] == "generate"
		for _, w := range rest {
			if strings.Contains(w, "-extld") {
				r.add(name, "-extld", "", "")
			}
		}
		if rest[0] == "env" {
			t.dash += " w u"
		}
	}
	for _, w := range rest {
		if name == "curl" && strings.Contains(w, "output{") {
			r.add(name, "--write-out", "", "")
		}
	}
	if t.subs != "" && len(rest) > 0 && oneOf(t.subs, rest[0]) {
		r.add(name, rest[0], "", "")
	}
	t.look(name, rest, &r)
	return r
}

func (r *risk) add(name, option, file, writes string) {
	if r.why == "" {
		r.computed = strings.HasPrefix(option, "with computed")
		r.why = name + " " + option + " can run programs, write files or change what later commands do"
	}
	if file != "" && oneOf(writes, strings.TrimLeft(option, "-")) {
		r.writes = append(r.writes, file)
	}
}

// look finds options in words. A "--" ends nothing, since it may be the value of an option, but what is
// computed behind one is taken for a name.
func (t optionTable) look(name string, rest []string, r *risk) {
	ended := false
	for i, w := range rest {
		next := ""
		if i+1 < len(rest) {
			next = rest[i+1]
		}
		switch {
		case w == "--":
			ended = ended || i == 0 || !mayTakeValue(rest[i-1])
		case w == "":
		case w[0] == within || strings.ContainsRune(w, spread): // "a$x" may become "a" and "-o"
			if !ended && !t.any {
				r.add(name, "with computed words, which may be options that", "", "")
			}
		}
		switch {
		case startsWith(t.prefix, w):
			r.add(name, shown([]string{w}), "", "")
		case strings.HasPrefix(w, "-"):
			t.option(name, w, next, r)
		}
	}
}

// mayTakeValue says whether the word after this one may be its value.
func mayTakeValue(w string) bool {
	return strings.HasPrefix(w, "-") && !strings.Contains(w, "=") && strings.Trim(w[1:], "0123456789") != "" && w != "--oneline" && w != "--stat"
}

func (t optionTable) option(name, w, next string, r *risk) {
	full := strings.TrimPrefix(w[1:], "-")
	option, value, has := strings.Cut(full, "=")
	if oneOf(t.dash, option) {
		r.add(name, "-"+option, "", "")
		return
	}
	if !has {
		value = next
	}
	if strings.HasPrefix(w, "--") {
		if at := strings.IndexAny(option, string(within)+string(spread)); at >= 0 {
			option = option[:at]
		}
		for l := range strings.FieldsSeq(t.long) {
			if option != "" && strings.HasPrefix(l, option) {
				r.add(name, "--"+l, value, t.writes)
			}
		}
		return
	}
	for i := 1; i < len(w); i++ {
		switch {
		case strings.IndexByte(t.short, w[i]) >= 0:
			if value = strings.TrimPrefix(w[i+1:], "="); value == "" {
				value = next
			}
			r.add(name, "-"+w[i:i+1], value, t.writes)
			return
		case w[i] == within || w[i] == spread:
			if (t.short != "" || i == 1) && !t.any { // the first may be a dash
				r.add(name, "with computed words in options, which", "", "")
			}
			return
		case strings.IndexByte(t.valued, w[i]) >= 0:
			return
		}
	}
}

func oneOf(list, s string) bool {
	for l := range strings.FieldsSeq(list) {
		if l == s {
			return true
		}
	}
	return false
}

func startsWith(list, s string) bool {
	for l := range strings.FieldsSeq(list) {
		if strings.HasPrefix(s, l) {
			return true
		}
	}
	return false
}

// gitOptions are options of a subcommand of git.
func gitOptions(sub string) optionTable {
	t := optionTable{writes: "output o", long: "open-files-in-pager output output-directory upload-pack receive-pack exec ext-diff textconv extcmd config template"}
	switch sub {
	case "grep":
		t.short, t.valued = "O", "efABCm"
	case "clone":
		t.short, t.valued = "uc", "bojs"
	case "ls-remote", "fetch", "fetch-pack", "pull":
		t.short, t.valued = "u", "ojsSX"
	case "rebase":
		t.short, t.valued = "x", "sXCS"
	case "archive", "format-patch", "bundle":
		t.short = "o"
	case "init":
		t.short = ""
	}
	return t
}

// gitRisk looks at the words behind git.
func gitRisk(rest []string) risk {
	var r risk
	at := gitCommand(rest)
	for _, w := range rest[:at] {
		if strings.HasPrefix(w, "-c") || startsWith("--config-env --exec-path= --git-dir --work-tree", w) || !plain(w) {
			r.why = "git is given configuration, which can name programs to run"
		}
	}
	if at >= len(rest) {
		return r
	}
	sub, words := rest[at], rest[at+1:]
	switch sub {
	case "filter-branch", "difftool", "mergetool", "hook", "maintenance", "for-each-repo", "instaweb", "send-email", "imap-send", "daemon", "shell", "http-backend",
		"upload-pack", "receive-pack", "upload-archive", "remote-ext", "remote-fd", "credential", "web--browse", "fsmonitor--daemon", "fast-import", "p4", "svn", "gui", "citool":
		r.add("git", sub, "", "")
	case "bisect", "submodule":
		for _, w := range words {
			if w == "run" || w == "foreach" || !plain(w) {
				r.add("git", sub+" run", "", "")
			}
		}
	case "config":
		if len(words) == 0 || !oneOf("-l --list --get --get-all --get-regexp get list", words[0]) {
			r.add("git", sub, "", "")
		}
	}
	for _, w := range words {
		helper, _, has := strings.Cut(w, "::")
		_, value, _ := strings.Cut(helper, "=")
		if has && (helper == "ext" || value == "ext" || helper == "fd" || value == "fd" ||
			oneOf("clone fetch pull push ls-remote remote archive submodule fetch-pack send-pack", sub) && !strings.Contains(helper, "/")) {
			r.add("git", "with an address that names a program", "", "")
		}
	}
	kept := make([]string, 0, len(words))
	for _, w := range words {
		if w != "--text" { // no short form of --textconv
			kept = append(kept, w)
		}
	}
	gitOptions(sub).look("git "+sub, kept, &r)
	return r
}

// gitReads says whether a subcommand of git writes no file of the folder, sends nothing and runs nothing,
// but for what Git is configured to.
func gitReads(rest []string) bool {
	at := gitCommand(rest)
	return at < len(rest) && oneOf("status log diff show blame add branch rev-parse ls-files ls-tree cat-file grep describe shortlog check-ignore", rest[at]) && gitRisk(rest).why == ""
}

// sedRisk looks for what a script of sed writes or runs.
func sedRisk(name string, rest []string) risk {
	var r risk
	given, ended := false, false
	script := func(s string) {
		given = true
		if !sedHarmless(s) {
			r.add(name, "with a script that", "", "")
		}
	}
	for i := 0; i < len(rest); i++ {
		w := rest[i]
		next := ""
		if i+1 < len(rest) {
			next = rest[i+1]
		}
		switch {
		case ended || !strings.HasPrefix(w, "-"):
			if !given {
				script(w)
			} else if w != "" && (!plain(w[:1]) || strings.ContainsRune(w, spread)) && !ended {
				r.add(name, "with computed words, which may be options that", "", "")
			}
		case w == "--":
			ended = true
		case w == "-e" || w == "--expression":
			script(next)
			i++
		case strings.HasPrefix(w, "--expression="):
			script(strings.TrimPrefix(w, "--expression="))
		case oneOf("--quiet --silent --regexp-extended --posix --sandbox --null-data --unbuffered --separate", w):
		case w != "-" && strings.Trim(w[1:], "nrEsuz") == "":
		case strings.Trim(strings.TrimSuffix(w[1:], "e"), "nrEsuz") == "" && strings.HasSuffix(w, "e"):
			script(next)
			i++
		default:
			r.add(name, shown([]string{w}), "", "")
		}
	}
	return r
}

// sedHarmless says whether a script only prints and changes what goes through.
func sedHarmless(s string) bool {
	for s != "" {
		s = strings.TrimLeft(s, " \t\n;{}!,$~+0123456789")
		if s == "" {
			return true
		}
		c := s[0]
		switch {
		case c == '/':
			rest, ok := behind(s[1:], '/')
			if !ok {
				return false
			}
			s = strings.TrimLeft(rest, "IM")
		case c == 's' || c == 'y':
			if len(s) < 2 || s[1] == '\\' || s[1] == '\n' || !plain(s[1:2]) {
				return false
			}
			rest, ok := behind(s[2:], s[1])
			if ok {
				rest, ok = behind(rest, s[1])
			}
			if !ok {
				return false
			}
			s = strings.TrimLeft(rest, "gpiI0123456789")
			if s != "" && !strings.ContainsAny(s[:1], " ;\n}") {
				return false
			}
		case strings.IndexByte("pdqQ=nNPDhHgGxlz", c) >= 0:
			s = s[1:]
		default:
			return false
		}
	}
	return true
}

// behind is what follows an end that no backslash quotes. Brackets may hold it in an address, so they are not read.
func behind(s string, end byte) (string, bool) {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '[', within, spread:
			return "", false
		case end:
			return s[i+1:], true
		}
	}
	return "", false
}

// awkRisk looks for what a program of awk writes or runs.
func awkRisk(name string, rest []string) risk {
	var r risk
	for i := 0; i < len(rest); i++ {
		w := rest[i]
		if strings.ContainsRune(w, spread) || strings.HasPrefix(w, "-") && i+1 < len(rest) && strings.ContainsRune(rest[i+1], spread) {
			r.add(name, "with computed words, which may be options that", "", "")
		}
		switch {
		case w == "-F" || w == "-v":
			i++
		case strings.HasPrefix(w, "-F") || strings.HasPrefix(w, "-v"):
		case strings.HasPrefix(w, "-") && w != "--":
			r.add(name, shown([]string{w}), "", "")
			return r
		case w == "--":
		default:
			text := strings.NewReplacer("||", "", ">=", "").Replace(w)
			if !plain(w) || strings.ContainsAny(text, "|>@") || strings.Contains(text, "system") || strings.Contains(text, "getline") {
				r.add(name, "with a program that", "", "")
			}
			return r
		}
	}
	return r
}
