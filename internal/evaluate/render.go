package evaluate

import (
	"encoding/xml"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/transcript"
)

// Table returns the results of each case with each variant: how many runs passed, and the medians of their times and costs.
func (r *Report) Table() [][]string {
	head := []string{"CASE"}
	for i := range r.Variants {
		head = append(head, transcript.Line(r.Variants[i].Name))
	}
	out := [][]string{head}
	for c := range r.Variants[0].Cases {
		row := []string{transcript.Line(r.Variants[0].Cases[c].Name)}
		for v := range r.Variants {
			row = append(row, cell(r.Variants[v].Cases[c].Runs))
		}
		out = append(out, row)
	}
	if len(r.Variants[0].Cases) > 1 {
		row := []string{"all"}
		for v := range r.Variants {
			row = append(row, cell(r.Variants[v].runs()))
		}
		out = append(out, row)
	}
	return out
}

func (v *Variant) runs() []Run {
	var all []Run
	for i := range v.Cases {
		all = append(all, v.Cases[i].Runs...)
	}
	return all
}

func cell(runs []Run) string {
	var took, cost []float64
	for i := range runs {
		took = append(took, float64(runs[i].Duration))
		if runs[i].Cost != nil {
			cost = append(cost, float64(runs[i].Cost.Micros))
		}
	}
	text := fmt.Sprintf("%d/%d  %s", count(runs), len(runs), inwords.Brief(time.Duration(median(took))*time.Millisecond))
	if len(cost) > 0 && median(cost) > 0 {
		text += "  " + dollars(median(cost))
	}
	return text
}

// Sentence returns the comparison in words.
func (c *Comparison) Sentence() string {
	against := transcript.Line(c.Against)
	if c.Baseline {
		against = "the baseline " + against
	}
	verdict := "no significant difference"
	switch {
	case c.Worse:
		verdict = "significantly worse"
	case c.Better:
		verdict = "significantly better"
	}
	text := fmt.Sprintf("%s against %s: %s. %s of the runs pass instead of %s (p = %s)", transcript.Line(c.Variant), against, verdict,
		percent(c.Passed.Is), percent(c.Passed.Was), probability(c.Passed.P))
	add := func(m *Measure, what string, show func(float64) string) {
		if m != nil && m.P < Significant && show(m.Is) != show(m.Was) {
			text += fmt.Sprintf("; %s is %s instead of %s (p = %s)", what, show(m.Is), show(m.Was), probability(m.P))
		}
	}
	add(c.Cost, "the cost", func(usd float64) string { return dollars(usd * 1e6) })
	add(c.Duration, "the time", func(ms float64) string { return inwords.Brief(time.Duration(ms) * time.Millisecond) })
	return text
}

func probability(p float64) string {
	if p < 0.001 {
		return "0.001 or less"
	}
	return fmt.Sprintf("%.2g", p)
}

// A Failure is a reason why runs of a case did not pass.
type Failure struct {
	What string // the check, or why the runs did not complete
	Why  string // of the first run
	Runs []string
	Next []string
}

// Failures groups the runs of a case that did not pass by what is wrong.
func (c *Case) Failures() []Failure {
	var out []Failure
	add := func(what, why, run string, next []string) {
		i := slices.IndexFunc(out, func(f Failure) bool { return f.What == what })
		if i < 0 {
			out, i = append(out, Failure{What: what, Why: why, Next: next}), len(out)
		}
		out[i].Runs = append(out[i].Runs, run)
	}
	for i := range c.Runs {
		r := &c.Runs[i]
		if r.Why != "" {
			add(r.Why, "", r.Run, r.Next)
		}
		for _, v := range r.Checks {
			if !v.Passed {
				add(v.Check, v.Why, r.Run, nil)
			}
		}
	}
	return out
}

type junitSuites struct {
	XMLName xml.Name     `xml:"testsuites"`
	Name    string       `xml:"name,attr"`
	Suites  []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Time     string      `xml:"time,attr,omitempty"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Name    string        `xml:"name,attr"`
	Class   string        `xml:"classname,attr"`
	Time    string        `xml:"time,attr,omitempty"`
	Failure *junitFailure `xml:"failure"`
	Out     string        `xml:"system-out,omitempty"`
}

type junitFailure struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// JUnit returns the report as JUnit XML: a suite for each variant with a test for each case, and a suite with the comparisons.
func (r *Report) JUnit() ([]byte, error) {
	out := junitSuites{Name: transcript.Line(r.File)}
	for v := range r.Variants {
		s := junitSuite{Name: transcript.Line(r.Variants[v].Name)}
		var all time.Duration
		for i := range r.Variants[v].Cases {
			c := &r.Variants[v].Cases[i]
			t := junitCase{Name: transcript.Line(c.Name), Class: s.Name}
			var took time.Duration
			var ids, text []string
			for i := range c.Runs {
				took += c.Runs[i].Took()
				ids = append(ids, c.Runs[i].Run)
			}
			for _, f := range c.Failures() {
				text = append(text, transcript.Clean(strings.TrimRight(fmt.Sprintf("%d of %d runs: %s: %s", len(f.Runs), len(c.Runs), f.What, f.Why), ": ")+" ("+strings.Join(f.Runs, ", ")+")"))
			}
			t.Time, t.Out = seconds(took), strings.Join(append([]string{"runs: " + strings.Join(ids, ", ")}, text...), "\n")
			if !c.Passed {
				t.Failure, t.Out = &junitFailure{fmt.Sprintf("%d of %d runs passed", count(c.Runs), len(c.Runs)), strings.Join(text, "\n")}, ""
				s.Failures++
			}
			all += took
			s.Cases = append(s.Cases, t)
		}
		s.Tests, s.Time = len(s.Cases), seconds(all)
		out.Suites = append(out.Suites, s)
	}
	s := junitSuite{Name: "comparisons", Tests: len(r.Comparisons)}
	for i := range r.Comparisons {
		c := &r.Comparisons[i]
		t := junitCase{Name: transcript.Line(c.Variant + " against " + c.Against), Class: s.Name}
		if c.Worse {
			t.Failure = &junitFailure{"significantly worse", c.Sentence()}
			s.Failures++
		} else {
			t.Out = c.Sentence()
		}
		s.Cases = append(s.Cases, t)
	}
	if s.Tests > 0 {
		out.Suites = append(out.Suites, s)
	}
	b, err := xml.MarshalIndent(out, "", "  ")
	return append([]byte(xml.Header), append(b, '\n')...), err
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }
