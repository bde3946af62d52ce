package floors

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// refused lists phrases that readers have to read twice. It is the only such list: it holds for Go code, for the pages of docs
// and for the other Markdown files of the project.
var refused = regexp.MustCompile(`(?i)\b(goes on with|gone on with|taken up|takes? up|dead process(es)?|left alone|waits? outside|comes? to its end|` +
	`passed over|is had|at work|at its turn|executed again from its own record|had leave|by leave|may not simply|agreed to|brings? along|look at what|gives? room back|` +
	`those who work for others|what is not over|told first)\b`)

const (
	mostPhrases = 1    // refused phrases in 10,000 lines
	leastReturn = 0.12 // doc comments that open with "returns" or "reports whether"
	mostSay     = 0.02 // doc comments that open with "says", "gives", "makes" or "tells"
	mostWords   = 30   // in a sentence of an error
)

func TestLanguage(t *testing.T) {
	t.Parallel()
	m := load(t)
	var lines, phrases, docs, returns, say int
	var where, said []string
	for _, p := range m.sorted() {
		for _, f := range p.files {
			lines += m.fset.File(f.FileStart).LineCount()
			place := func(pos token.Pos) string { return f.name + ":" + strconv.Itoa(m.fset.Position(pos).Line) }
			phrase := func(pos token.Pos, text string) {
				if found := refused.FindString(text); found != "" {
					phrases++
					where = append(where, place(pos)+": "+found)
				}
			}
			for _, group := range f.Comments {
				phrase(group.Pos(), strings.ReplaceAll(group.Text(), "\n", " "))
			}
			ast.Inspect(f.File, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.BasicLit:
					if n.Kind == token.STRING {
						phrase(n.Pos(), n.Value)
					}
				case *ast.CallExpr:
					if text := message(n); tooLong(text) {
						t.Errorf("%s: a sentence of an error has more than %d words: %s", place(n.Pos()), mostWords, text)
					}
				}
				return true
			})
			for name, doc := range documented(f.File) {
				docs++
				switch opening(name, doc) {
				case "returns", "reports":
					returns++
				case "says", "gives", "makes", "tells":
					say++
					said = append(said, place(doc.Pos()))
				}
			}
		}
	}
	if phrases*10_000 > mostPhrases*lines {
		t.Errorf("%d phrases in %d lines that docs and comments shall not have:\n%s", phrases, lines, strings.Join(where, "\n"))
	}
	if share := float64(returns) / float64(docs); share < leastReturn {
		t.Errorf("%.1f %% of %d doc comments open with \"returns\" or \"reports whether\", want %.0f %%", 100*share, docs, 100*leastReturn)
	}
	if share := float64(say) / float64(docs); share > mostSay {
		t.Errorf("%.1f %% of %d doc comments open with \"says\", \"gives\", \"makes\" or \"tells\", want at most %.0f %%:\n%s", 100*share, docs, 100*mostSay, strings.Join(said, "\n"))
	}
}

// documented yields the doc comments of the functions and types of a file by their names.
func documented(f *ast.File) func(yield func(string, *ast.CommentGroup) bool) {
	return func(yield func(string, *ast.CommentGroup) bool) {
		for _, decl := range f.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				if decl.Doc != nil && !yield(decl.Name.Name, decl.Doc) {
					return
				}
			case *ast.GenDecl:
				for _, spec := range decl.Specs {
					s, ok := spec.(*ast.TypeSpec)
					if !ok {
						continue
					}
					doc := s.Doc
					if doc == nil {
						doc = decl.Doc
					}
					if doc != nil && !yield(s.Name.Name, doc) {
						return
					}
				}
			}
		}
	}
}

// opening returns the first word of a doc comment after the name it documents.
func opening(name string, doc *ast.CommentGroup) string {
	for _, word := range strings.Fields(doc.Text()) {
		if word != "A" && word != "An" && word != "The" && !strings.HasPrefix(word, name) {
			return strings.Trim(word, ",.;")
		}
	}
	return ""
}

// message returns the text of a call that makes an error.
func message(call *ast.CallExpr) string {
	s, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) == 0 || s.Sel.Name != "Errorf" && s.Sel.Name != "New" {
		return ""
	}
	return literal(call.Args[0])
}

func literal(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, _ := strconv.Unquote(e.Value)
		return text
	case *ast.BinaryExpr:
		return literal(e.X) + literal(e.Y)
	}
	return ""
}

// tooLong reports whether a sentence of a text has too many words.
func tooLong(text string) bool {
	for sentence := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune(".:;?\n", r) }) {
		if len(strings.Fields(sentence)) > mostWords {
			return true
		}
	}
	return false
}

// TestPagesLanguage checks that no page has a refused phrase. Code blocks and the generated reference of commands are left out.
func TestPagesLanguage(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	var pages []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/adr/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d pages, %v", pattern, len(found), err)
		}
		pages = append(pages, found...)
	}
	code := regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	for _, page := range pages {
		if name := filepath.Base(page); name == "commands.md" || name == "CHANGELOG.md" {
			continue
		}
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range refused.FindAllString(code.ReplaceAllString(string(b), ""), -1) {
			t.Errorf("%s: %q", page, found)
		}
	}
}

func TestLanguageRulesBite(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{"a run goes on with it": true, "it is left\nalone": false, "the run resumes": false, "what is at work": true, "at workers": false} {
		if refused.MatchString(text) != want {
			t.Errorf("%q: want %t", text, want)
		}
	}
	if doc := (&ast.CommentGroup{List: []*ast.Comment{{Text: "// A Fix gives it."}}}); opening("Fix", doc) != "gives" {
		t.Errorf("got %q", opening("Fix", doc))
	}
	if tooLong(strings.Repeat("word ", mostWords)) || !tooLong(strings.Repeat("word ", mostWords+1)) {
		t.Error("sentences are counted wrong")
	}
}
