package docindex

import (
	"context"
	"slices"
	"strings"
	"testing"
)

func TestAnsweredInSmallFolders(t *testing.T) {
	small := "../golden/testdata/corpus/small/"
	open := map[string]*Index{}
	for _, c := range []struct {
		docs, question, want string // want is in the first passage; "" if there is no answer
	}{
		{"kettle", "What is kettle?", "serves the files"},
		{"kettle", "What is this project, and how is it used?", "serves the files"},
		{"kettle", "How do I install it?", "make install"},
		{"kettle", "What license does it have?", "MIT"},
		{"kettle", "What is the default port?", "8417"},
		{"kettle", "What does --quiet do?", "access log"},
		{"kettle", "What does --install do?", ""},
		{"kettle", "Is there a Docker image of Kettle?", ""},
		{"kettle", "How do I limit the upload rate per client?", ""},
		{"ledger", "What is this?", "accounts of a club"},
		{"ledger", "What happens if two commands write at the same time?", "a second command waits"},
		{"ledger", "What does the option --amount of ledger do?", ""},
		{"ledger", "How do I convert Euro to Yen?", ""},
		{"garden", "When are the beans sown?", "middle of May"},
		{"garden", "Where is the key to the shed?", "kitchen door"},
		{"garden", "How do I prune the roses?", ""},
	} {
		if open[c.docs] == nil {
			ix, err := Open(context.Background(), small+c.docs, &Options{CacheDir: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { ix.Close() })
			open[c.docs] = ix
		}
		found, err := open[c.docs].Search(context.Background(), c.question, 3, nil)
		if err != nil {
			t.Fatal(err)
		}
		if found.Answered != (c.want != "") {
			t.Errorf("%s: answered is %v: %+v", c.question, found.Answered, found.Passages)
			continue
		}
		if found.Answered && !slices.ContainsFunc(found.Passages[0].Lines, func(l Line) bool { return strings.Contains(l.Text, c.want) }) {
			t.Errorf("%s: the first passage is %+v, want one with %q", c.question, found.Passages[0], c.want)
		}
	}
}

func TestMissingLeavesPlainWordsOut(t *testing.T) {
	ix := open(t, folder(t, map[string]string{"a.md": "# Tea\n\nThe kettle boils.\n"}), t.TempDir())
	found, err := ix.Search(context.Background(), "How many big kettles may I make, and what does Zanzibar mean?", 3, nil)
	if err != nil || !slices.Equal(found.Missing, []string{"Zanzibar"}) {
		t.Errorf("missing are %v, %v; want Zanzibar", found.Missing, err)
	}
}

// A name is more than the word that it is made of: what answers has it as the question writes it.
func TestNamesAreWrittenAsAsked(t *testing.T) {
	files := map[string]string{"races.md": "# Data races\n\nAn implementation may always react to a data race by reporting it with the hooks of the detector.\n"}
	for i := range 120 { // so that a name is rare
		files[strings.Repeat("x", i+1)+".md"] = "# Other\n\nAnother page speaks of something else, such as boats and rivers.\n"
	}
	ix := open(t, folder(t, files), t.TempDir())
	for question, want := range map[string]bool{
		"How does it react to a data race with hooks?": true,
		"How do I use hooks in React?":                 false,
	} {
		found, err := ix.Search(context.Background(), question, 3, nil)
		if err != nil || found.Answered != want {
			t.Errorf("%s: answered is %v, %v: %+v", question, found.Answered, err, found.Passages)
		}
	}
}

// A comment within a function mentions a name; what is about it has it in a heading or in the comment of a declaration.
func TestNamesAreOnlyMentionedInBodies(t *testing.T) {
	const comment = "// A number of databases including PostgreSQL permit a list of hosts with optional ports.\n"
	for body, want := range map[string]bool{
		comment + "func Split(s string) string {\n\treturn s\n}\n":                                                  true,
		"func split(s string) string {\n" + strings.Repeat("\ts += s\n", 30) + "\n\t" + comment + "\treturn s\n}\n": false,
	} {
		files := map[string]string{"hosts.go": "// Package hosts takes names apart.\npackage hosts\n\n" + body}
		for i := range 120 { // so that a name is rare
			files[strings.Repeat("x", i+1)+".md"] = "# Other\n\nAnother page speaks of something else, such as boats that listen.\n"
		}
		ix := open(t, folder(t, files), t.TempDir())
		found, err := ix.Search(context.Background(), "Which port does PostgreSQL listen on?", 3, nil)
		if err != nil || found.Answered != want || len(found.Passages) == 0 {
			t.Errorf("%s: answered is %v, %v: %+v", body, found.Answered, err, found.Passages)
		}
	}
}
