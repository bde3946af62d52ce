package attack

import (
	_ "embed" // of the corpus
	"strings"
)

// A script is a part of an attack.
type script struct{ name, script string }

//go:embed corpus.sh
var corpus string

// scripts returns the scripts of a kind.
func scripts(kind string) []script {
	var out []script
	for _, part := range strings.Split("\n"+corpus, "\n=== ")[1:] {
		head, text, _ := strings.Cut(part, "\n")
		if of, name, _ := strings.Cut(head, " "); of == kind {
			out = append(out, script{name, strings.TrimSpace(text)})
		}
	}
	return out
}

// races are commands at the same time that try to hide behind one another.
func races() []Case {
	return []Case{
		{"closed meanwhile", "triple", []string{`sleep 0.6; chmod 755 .`}, []string{`chmod 300 .`, `sleep 0.3; chmod 755 .; cp hk .git/hooks/post-commit; cat .env`}},
		{"made before the other began", "triple", []string{`mkdir -p x/.vscode; sleep 0.4`}, []string{`sleep 0.6; mkdir -p x/.vscode; touch x/.vscode/t`, `sleep 0.8`}},
		{"moved by the other", "triple", []string{`mkdir -p x/.claude; echo x >x/.claude/s; sleep 0.5`}, []string{`sleep 0.2; mv x y; sleep 0.4`, `sleep 0.3; mv y z`}},
		{"made again", "triple", []string{`mkdir -p x/.claude`}, []string{`sleep 0.2; mkdir -p x/.claude; touch x/.claude/s`, `sleep 0.4; mkdir -p x/.claude; touch x/.claude/s`}},
		{"masks removed", "triple", []string{`sleep 0.4; rmdir .vscode; mkdir .vscode`}, []string{`mkdir .vscode; touch .vscode/x`, `chmod 300 .; sleep 0.2`}},
	}
}
