package words_test

import (
	"os"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/superstep-dev/superstep/internal/words"
)

// TestStem compares with the porter tokenizer of SQLite, word by word.
func TestStem(t *testing.T) {
	raw, err := os.ReadFile("testdata/words.txt")
	if err != nil {
		t.Fatal(err)
	}
	c, err := sqlite.OpenConn(":memory:", sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := sqlitex.ExecuteScript(c, `create virtual table t using fts5(x, tokenize='porter ascii'); create virtual table v using fts5vocab(t, 'instance');`, nil); err != nil {
		t.Fatal(err)
	}
	list := strings.Fields(string(raw))
	if err := sqlitex.Execute(c, `insert into t(rowid, x) values(1, ?)`, &sqlitex.ExecOptions{Args: []any{string(raw)}}); err != nil {
		t.Fatal(err)
	}
	compared := 0
	err = sqlitex.Execute(c, `select term, offset from v order by offset`, &sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error {
		word := list[s.ColumnInt(1)]
		compared++
		if got, want := words.Stem(word), s.ColumnText(0); got != want {
			t.Errorf("%s: got %s want %s", word, got, want)
		}
		return nil
	}})
	if err != nil || compared != len(list) {
		t.Fatalf("compared %d of %d words: %v", compared, len(list), err)
	}
}
