package traceid

import "testing"

// A traceparent is read as it is written, and nothing else is one.
func TestParse(t *testing.T) {
	t.Parallel()
	const whole = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	c, ok := Parse(whole)
	if !ok || c.String() != whole || !c.Sampled {
		t.Fatalf("got %v, %v", c, ok)
	}
	for _, bad := range []string{"", whole + "-x", "ff" + whole[2:], whole[:len(whole)-1], "00-" + "00000000000000000000000000000000" + whole[35:],
		"00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01", "00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01"} {
		if _, ok := Parse(bad); ok {
			t.Errorf("%q was read", bad)
		}
	}
	if later, ok := Parse("01" + whole[2:] + "-more"); !ok || later != c {
		t.Error("a later version was not read")
	}
}

// Every part counts, and nothing runs into its neighbour.
func TestSpan(t *testing.T) {
	t.Parallel()
	seen := map[[8]byte]bool{}
	for _, id := range [][8]byte{
		Span("r", "a", "b", 1, 1), Span("r", "ab", "", 1, 1), Span("ra", "", "b", 1, 1), Span("r", "a", "b", 2, 1), Span("r", "a", "b", 1, 2),
		Span("r", "", "ab", 1, 1), Of("r", "").Span,
	} {
		if seen[id] {
			t.Errorf("%x is there twice", id)
		}
		seen[id] = true
	}
	if Of("r", "").Trace == Of("s", "").Trace || Of("r", "").Trace != Of("r", "nonsense").Trace {
		t.Error("a trace is not that of its run")
	}
}
