package permit

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"

	"github.com/superstep-dev/superstep/internal/clean"
)

// outsideTool is the name in rules for commands that leave the sandbox.
const outsideTool = "unsandboxed"

const (
	longestCommand = 256 << 10 // bytes; a longer one is not read
	mostSegments   = 50        // of a command that a pattern may allow
	mostBrackets   = 4000      // that open something, so that nesting stays shallow
	deepestNested  = 4         // commands in texts in commands
	mostForms      = 200       // ways to read one command that may start others
)

// Marks in the words of a command for parts that are known only when it runs. Commands with such
// characters of their own are never allowed by a pattern.
const (
	within = '\x00' // some text within the word
	spread = '\x01' // some text that may fall into several words, or none
)

// shell reads the call of bash.
func (p *Policy) shell(f *facts, object map[string]any) {
	command, ok := str(object, "command")
	if !ok || strings.TrimSpace(command) == "" {
		f.cannot("it has no command")
		return
	}
	f.subject = command
	lang := syntax.LangBash
	if p.opt.Shell == "sh" {
		lang = syntax.LangPOSIX
	}
	a := &analysis{policy: p}
	a.text(command, lang)
	switch {
	case clean.Text(command) != command:
		a.hard("it has characters that are not shown")
	case len(a.units) == 0:
		a.hard("it runs no command")
	case a.segments > mostSegments:
		a.hard(fmt.Sprintf("it chains over %d commands", mostSegments))
	}
	if a.moved && a.relative {
		a.hard("it changes the folder and redirects to or from a file by a relative path")
	}
	f.units, f.why = a.units, a.why
	if f.why == "" && p.opt.Sandbox == Unconfined && !a.reads() {
		f.why = "commands are not confined on this system, and it does more than read"
		f.firm = true
	}
	if f.why != "" {
		f.units = append(f.units, unit{unknown: true})
	}
	if !is(object, "unsandboxed") {
		return
	}
	for i := range f.units { // rules that deny or ask bind it as well
		f.units[i].around, f.units[i].unknown = true, false
	}
	f.why, f.outside = "", true
	f.units = append(f.units, unit{tool: outsideTool, text: command, what: "leaving the sandbox"})
}

// reads reports whether a command is known to do nothing but read.
func (a *analysis) reads() bool {
	return !a.sets && !slices.ContainsFunc(a.units, func(u unit) bool {
		return u.tool != "read_file" && (u.around || len(u.words) == 0 || !onlyReads(u.words[0]))
	})
}

// An analysis collects what a command does.
type analysis struct {
	policy   *Policy
	units    []unit
	why      string // the first reason why no pattern may allow it
	segments int
	depth    int
	moved    bool // the folder changes
	relative bool // something is redirected by a relative path
	sets     bool // it sets variables
}

// hard records that a command may do more than its text shows.
func (a *analysis) hard(why string) {
	if a.why == "" {
		a.why = why
	}
}

// text reads a command as text.
func (a *analysis) text(command string, lang syntax.LangVariant) {
	switch {
	case len(command) > longestCommand:
		a.hard("it is over 256 KiB")
		return
	case !utf8.ValidString(command):
		a.hard("it is not UTF-8")
	case strings.Count(command, "(")+strings.Count(command, "{")+strings.Count(command, "`")+strings.Count(command, "[") > mostBrackets:
		a.hard("it is nested too deeply")
		return
	}
	if a.depth++; a.depth > deepestNested {
		a.hard("it has commands in commands in commands")
		return
	}
	defer func() { a.depth-- }()
	file, err := syntax.NewParser(syntax.Variant(lang)).Parse(strings.NewReader(command), "")
	if err != nil {
		a.hard("it cannot be parsed: " + clean.Text(err.Error()))
	}
	if file != nil {
		a.walk(file, command)
	}
}

// walk looks at every node of a command.
func (a *analysis) walk(file *syntax.File, command string) {
	var stack []bool // of the nodes around: is it a substitution?
	substitutions := 0
	syntax.Walk(file, func(n syntax.Node) bool {
		if n == nil {
			if stack[len(stack)-1] {
				substitutions--
			}
			stack = stack[:len(stack)-1]
			return true
		}
		inside := false
		switch n := n.(type) {
		case *syntax.CmdSubst:
			inside = true
			if n.Backquotes && strings.Contains(command[min(n.Left.Offset(), n.Right.Offset()):n.Right.Offset()], `\`) {
				a.hard("it quotes within backquotes, which shells read in different ways")
			}
		case *syntax.ProcSubst:
			inside = true
		case *syntax.Redirect:
			if n.Op == syntax.Hdoc || n.Op == syntax.DashHdoc {
				if end := word(n.Word); substitutions > 0 || end == "" || strings.Trim(end, wordRunes) != "" ||
					strings.Contains(command[n.Word.Pos().Offset():n.Word.End().Offset()], "$") {
					a.hard("it has a text of several lines whose end shells may see in different places")
				}
			}
		}
		if inside {
			substitutions++
		}
		stack = append(stack, inside)
		a.node(n)
		return true
	})
}

const wordRunes = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"

// node looks at one node of a command. Nested ones are examined separately.
func (a *analysis) node(n syntax.Node) {
	switch n := n.(type) {
	case *syntax.CallExpr:
		for _, as := range n.Assigns {
			a.assign(as)
		}
		if len(n.Args) > 0 {
			a.call(words(n.Args))
		}
	case *syntax.Redirect:
		a.redirect(n)
	case *syntax.DeclClause:
		all := []string{n.Variant.Value}
		for _, as := range n.Args {
			all = append(all, declared(as))
		}
		a.sets = true
		a.segment(all, nil)
	case *syntax.LetClause, *syntax.ArithmCmd, *syntax.CStyleLoop:
		a.hard("it calculates, which can run what variables hold")
	case *syntax.ArithmExp:
		if !plainNumber(n.X) {
			a.hard("it calculates, which can run what variables hold")
		}
	case *syntax.ParamExp:
		if n.Excl || n.Index != nil || n.Slice != nil || n.Names != 0 || n.Exp != nil && n.Exp.Op == syntax.OtherParamOps || n.Flags != nil || n.NestedParam != nil {
			a.hard("it expands a variable in a way that can run what it holds")
		}
		a.sets = a.sets || n.Exp != nil && (n.Exp.Op == syntax.AssignUnset || n.Exp.Op == syntax.AssignUnsetOrNull)
	case *syntax.ArrayElem:
		if n.Index != nil {
			a.hard("it calculates, which can run what variables hold")
		}
	case *syntax.UnaryTest:
		if n.Op == syntax.TsVarSet || n.Op == syntax.TsRefVar {
			a.hard("it tests a variable by a computed name")
		}
	case *syntax.BinaryTest:
		switch n.Op {
		case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
			a.hard("it calculates, which can run what variables hold")
		}
	case *syntax.WordIter:
		a.sets = true
	case *syntax.ForClause:
		if n.Select {
			a.hard("it waits for somebody to select")
		}
	case *syntax.CoprocClause:
		a.hard("it starts a coprocess")
	case *syntax.TestDecl:
		a.hard("it declares a test")
	}
}

func plainNumber(x syntax.ArithmExpr) bool {
	ok := true
	syntax.Walk(x, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Lit:
			ok = ok && n.Value != "" && strings.Trim(n.Value, "0123456789") == ""
		case nil, *syntax.Word, *syntax.BinaryArithm, *syntax.UnaryArithm, *syntax.ParenArithm:
		default:
			ok = false
		}
		return true
	})
	return ok
}

// assign examines an assignment, before a command or alone.
func (a *analysis) assign(as *syntax.Assign) {
	a.sets = true
	if as.Name == nil {
		a.hard("it assigns to a computed name")
		return
	}
	if as.Index != nil {
		a.hard("it calculates, which can run what variables hold")
	}
}

func declared(as *syntax.Assign) string {
	s := ""
	if as.Name != nil {
		s = as.Name.Value
		if as.Naked {
			return s
		}
		s += "="
	}
	if as.Value != nil {
		s += word(as.Value)
	}
	return s
}

// redirect examines a redirection of a command.
func (a *analysis) redirect(r *syntax.Redirect) {
	a.sets = a.sets || r.N != nil && strings.HasPrefix(r.N.Value, "{")
	switch r.Op {
	case syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc:
		return // only text, whose substitutions are looked at
	}
	target := word(r.Word)
	if r.Op == syntax.DplOut || r.Op == syntax.DplIn {
		if target == "-" || strings.TrimSuffix(target, "-") != "" && strings.Trim(strings.TrimSuffix(target, "-"), "0123456789") == "" {
			return // another descriptor
		}
	}
	switch target {
	case "/dev/null", "/dev/stdout", "/dev/stderr", "/dev/stdin":
		return
	}
	read := r.Op == syntax.RdrIn || r.Op == syntax.DplIn
	if strings.ContainsAny(target, string(within)+string(spread)) || target == "" {
		a.hard("it redirects to or from a place that is computed")
		if at := strings.IndexAny(target, string(within)+string(spread)); at > 0 && !read {
			a.file(target[:at], false) // what is protected stays so
		}
		return
	}
	if strings.HasPrefix(target, "/dev/tcp/") || strings.HasPrefix(target, "/dev/udp/") {
		a.hard("it redirects to the network")
	}
	if !strings.HasPrefix(target, "/") && !strings.HasPrefix(target, "~") {
		a.relative = true
	} else if strings.HasPrefix(target, "~") && !strings.HasPrefix(target, "~/") {
		a.hard("it redirects to or from a place that is computed")
	}
	a.file(target, read)
}

// file adds a file that is read or written.
func (a *analysis) file(name string, read bool) {
	a.segments++
	u := unit{tool: "write_file", paths: a.policy.locations(name)}
	u.what = "writing " + u.paths[0].shown() + " by a redirection"
	if read {
		u.tool, u.what = "read_file", "reading "+u.paths[0].shown()+" by a redirection"
	} else {
		a.policy.guardWrite(&u)
	}
	a.units = append(a.units, u)
}

// segment adds a simple command.
func (a *analysis) segment(all []string, forms [][]string) {
	a.segments++
	a.units = append(a.units, unit{words: all, forms: forms})
}

// readable returns a command with a sign in place of each computed text.
func readable(all []string) string {
	return strings.NewReplacer(string(within), "…", string(spread), "…").Replace(strings.Join(all, " "))
}

// shown returns a command for users, shortened to a readable length.
func shown(all []string) string {
	return clean.Text(clean.Clip(readable(all), 200))
}

// words returns the words of a command with their quotes taken off.
func words(list []*syntax.Word) []string {
	out := make([]string, len(list))
	for i, w := range list {
		out[i] = word(w)
	}
	return out
}

func word(w *syntax.Word) string {
	if w.Lit() == "[" {
		return "["
	}
	var b strings.Builder
	brace := 0
	for _, part := range w.Parts {
		switch part := part.(type) {
		case *syntax.Lit:
			brace += bare(&b, part.Value)
		case *syntax.SglQuoted:
			if part.Dollar && strings.Contains(part.Value, `\`) {
				b.WriteByte(within)
			} else {
				b.WriteString(part.Value)
			}
		case *syntax.DblQuoted:
			quoted(&b, part)
		case *syntax.ProcSubst:
			b.WriteByte(within)
		default:
			b.WriteByte(spread)
		}
	}
	if brace > 0 && strings.ContainsAny(b.String(), "}") && (strings.Contains(b.String(), ",") || strings.Contains(b.String(), "..")) {
		// Braces turn one word into several, and any of these may come first.
		return string(spread)
	}
	return b.String()
}

// bare adds text outside of quotes, and returns how many braces open in it.
func bare(b *strings.Builder, s string) (braces int) {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '\\':
			if i++; i == len(s) {
				b.WriteByte(c) // at the very end it quotes nothing
			} else if s[i] != '\n' {
				b.WriteByte(s[i])
			}
		case '*', '?', '[':
			b.WriteByte(spread)
		case '{':
			braces++
			b.WriteByte(c)
		default:
			b.WriteByte(c)
		}
	}
	return braces
}

// quoted adds what is in double quotes.
func quoted(b *strings.Builder, q *syntax.DblQuoted) {
	if q.Dollar { // translated
		b.WriteByte(within)
		return
	}
	for _, part := range q.Parts {
		switch part := part.(type) {
		case *syntax.Lit:
			for i := 0; i < len(part.Value); i++ {
				c := part.Value[i]
				if c == '\\' && i+1 < len(part.Value) && strings.IndexByte("$`\"\\\n", part.Value[i+1]) >= 0 {
					if i++; part.Value[i] == '\n' {
						continue
					}
					c = part.Value[i]
				}
				b.WriteByte(c)
			}
		case *syntax.ParamExp:
			if part.Param != nil && part.Param.Value == "@" || part.Index != nil || part.Excl {
				b.WriteByte(spread)
			} else {
				b.WriteByte(within)
			}
		default:
			b.WriteByte(within)
		}
	}
}

// call examines a simple command. Programs that it starts are not examined: the sandbox bounds
// them. Rules that deny or ask are also matched against its words, which may form another command.
func (a *analysis) call(all []string) {
	if len(all) == 0 {
		return
	}
	a.segment(all, suffixes(all))
	if strings.ContainsAny(all[0], string(within)+string(spread)) || all[0] == "" {
		a.hard("the name of a command in it is computed")
	}
	if all[0] == "cd" || all[0] == "pushd" || all[0] == "popd" {
		a.moved = true
	}
	if a.depth > 1 {
		return
	}
	for _, w := range all[1:min(len(all), mostForms)] {
		if strings.ContainsAny(w, " \t\n;|&") && plain(w) && len(w) < 4096 {
			a.held(w)
		}
	}
}

// held adds the commands in a word that may be a text for another shell, for rules that deny or ask.
func (a *analysis) held(w string) {
	inner := analysis{policy: a.policy, depth: a.depth + 1}
	inner.text(w, syntax.LangBash)
	for _, u := range inner.units {
		if u.words != nil && len(a.units) < 4*mostSegments {
			a.units = append(a.units, unit{words: []string{""}, forms: append(u.forms, u.words), around: true})
		}
	}
}

// suffixes returns the commands that a program which starts other programs may start.
func suffixes(all []string) [][]string {
	var out [][]string
	for i := 1; i < len(all) && i <= mostForms; i++ {
		if all[i] == "" || !plain(all[i]) {
			continue // it may be anything, as may every word of every command
		}
		out = append(out, all[i:min(len(all), i+mostForms)])
	}
	return out
}

func plain(s string) bool { return !strings.ContainsAny(s, string(within)+string(spread)) }
