package tui

import "testing"

func TestParseAnswer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, path, value string }{
		{"ask=yes", "ask", "yes"},
		{"ask=a=b", "ask", "a=b"},
		{"gather[k=1]#2=x[1]", "gather[k=1]#2", "x[1]"},
		{"ask=", "ask", ""},
		{"ask=[1]", "ask", "[1]"},
	} {
		g, err := parseAnswer("--answer", c.in)
		if err != nil || g.path != c.path || g.value != c.value {
			t.Errorf("%q: %+v, %v", c.in, g, err)
		}
	}
	for _, bad := range []string{"", "yes", "=yes", "gather[a=b"} {
		if g, err := parseAnswer("--answer", bad); err == nil && bad != "gather[a=b" {
			t.Errorf("%q: %+v", bad, g)
		}
	}
	as, _ := ParseAnswers("--answer", []string{"ask=1", "ask=2", "ask#1=3"})
	for _, want := range []string{"1", "2"} {
		g := as.take("ask", "q")
		if g == nil || g.value != want {
			t.Fatalf("got %+v, want %s", g, want)
		}
		g.used = true
	}
	if g := as.take("ask#1", "q"); g == nil || g.value != "3" {
		t.Errorf("by visit: %+v", g)
	}
}

func FuzzParseAnswer(f *testing.F) {
	f.Add("a[b=c]#1=d")
	f.Add("][=")
	f.Fuzz(func(t *testing.T, s string) {
		if g, err := parseAnswer("", s); err == nil && g.path+"="+g.value != s {
			t.Errorf("%q became %q and %q", s, g.path, g.value)
		}
	})
}
