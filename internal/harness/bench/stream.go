package main

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
)

const readers = 3

// w8 is agents that stream what their models say to those who follow their runs.
func (s *suite) w8() {
	each, seconds := 10_000, 3
	if s.quick {
		each, seconds = 2000, 1
	}
	s.together(
		bareChannel("go-chan-max", 100, each, 0),
		s.talk("max-100-producers", 1, 100, each, 0),
		s.talk("max-100-runs", 100, 1, each, 0),
	)
	s.together(
		bareChannel("go-chan-paced", 100, 200*seconds, 200),
		s.talk("paced-100x200", 1, 100, 200*seconds, 200),
		s.talk("paced-100-runs", 100, 1, 200*seconds, 200),
	)
	s.together(s.stalled(each))
}

// heard is what one reader has had.
type heard struct {
	tokens int
	late   []float64 // in µs
	err    error
}

// talk is runs of so many agents each, which say so many tokens, so many a second or as fast
// as they can. Every run has three readers.
func (s *suite) talk(name string, runs, agents, each, rate int) job {
	var late, per, lost []float64
	all := runs * agents * each
	return job{wl: "W8", name: name, n: all, reps: min(s.reps, 3), cold: rate > 0, do: func(w *stopwatch) error {
		late = late[:0]
		journals := make([]*journal.Journal, runs)
		var hs []*heard
		var followers sync.WaitGroup
		for i := range journals {
			j, err := s.journal(fmt.Sprint("run-", i))
			if err != nil {
				return err
			}
			journals[i] = j
			for range readers {
				h := &heard{}
				hs = append(hs, h)
				s.follow(j, h, rate > 0, &followers)
			}
		}
		w.start()
		var talkers sync.WaitGroup
		for _, j := range journals {
			for a := range agents {
				talkers.Go(func() { say(j.Scope(fmt.Sprint("agent-", a)), each, rate) })
			}
		}
		talkers.Wait()
		errs := make([]error, 0, runs)
		for _, j := range journals {
			errs = append(errs, j.Close(s.ctx))
		}
		followers.Wait()
		w.stop()
		got := 0
		for _, h := range hs {
			got += h.tokens
			late = append(late, h.late...)
			errs = append(errs, h.err)
		}
		per = append(per, float64(got)/readers/w.wall.Seconds())
		lost = append(lost, 1-float64(got)/readers/float64(all))
		return errors.Join(errs...)
	}, after: func(r *record) {
		r.Extra["events_per_s"] = median(per) // that a reader has had
		r.Extra["lost_share"] = median(lost)
		r.Extra["said_per_s"] = float64(all) / median(r.WallMs) * 1000
		if len(late) > 0 {
			r.Extra["lat_p50_us"], r.Extra["lat_p99_us"] = percentile(late, 0.5), percentile(late, 0.99)
		}
	}}
}

// journal opens a run with one record in it.
func (s *suite) journal(id string) (*journal.Journal, error) {
	j, err := journal.Open(s.ctx, runlog.NewMemory(nil), id, &journal.Options{Create: &runlog.NewRun{Workflow: "bench"}})
	if err != nil {
		return nil, err
	}
	return j, j.Write(s.ctx, "", runlog.KindEvent, "", runlog.Event{Name: "begin"})
}

// follow starts a reader and returns when it is there.
func (s *suite) follow(j *journal.Journal, h *heard, timed bool, wg *sync.WaitGroup) {
	there := make(chan struct{})
	wg.Go(func() {
		for r, err := range j.Follow(s.ctx, 0) {
			switch {
			case err != nil:
				h.err = err
			case r.Seq != 0:
				close(there) // the one record there is
			default:
				h.tokens++
				if timed {
					h.late = append(h.late, float64(time.Since(r.Time).Nanoseconds())/1e3)
				}
			}
		}
	})
	<-there
}

// A token is encoded as an agent's are.
type token struct {
	Agent string `json:"agent"`
	Text  string `json:"text"`
}

// say streams tokens as an agent does.
func say(scope *journal.Scope, tokens, rate int) {
	beat, stop := beats(rate)
	defer stop()
	for range tokens {
		if beat != nil {
			<-beat
		}
		scope.Live("text", token{"writer", " token"})
	}
}

// stalled has one reader more, who takes one record and no other.
func (s *suite) stalled(each int) job {
	var grown []float64
	return job{wl: "W8", name: "stalled-reader", n: 100 * each, reps: 1, cold: true, do: func(w *stopwatch) error {
		j, err := s.journal("run")
		if err != nil {
			return err
		}
		var wg sync.WaitGroup
		var hs [readers]heard
		for i := range hs {
			s.follow(j, &hs[i], false, &wg)
		}
		var stuck error
		there, release := make(chan struct{}), make(chan struct{})
		wg.Go(func() {
			for _, err := range j.Follow(s.ctx, 0) {
				stuck = err
				close(there)
				<-release
				return
			}
		})
		<-there
		before := heapBytes()
		w.start()
		var talkers sync.WaitGroup
		for a := range 100 {
			talkers.Go(func() { say(j.Scope(fmt.Sprint("agent-", a)), each, 0) })
		}
		talkers.Wait()
		w.stop()
		grown = append(grown, (heapBytes()-before)/(1<<20))
		close(release)
		err = j.Close(s.ctx)
		wg.Wait()
		return errors.Join(err, stuck)
	}, after: func(r *record) { r.Extra["heap_mib"] = max(0, median(grown)) }}
}

// bareChannel returns one channel from all producers to one consumer. With a rate it measures how late events are, as talk does.
func bareChannel(name string, agents, each, rate int) job {
	type event struct {
		agent, n int
		text     string
		at       time.Time
	}
	var late []float64
	return job{peer: bare, wl: "W8", name: name, n: agents * each, reps: 3, cold: rate > 0, do: func(*stopwatch) error {
		late = late[:0]
		ch := make(chan event, 1024)
		var wg sync.WaitGroup
		for a := range agents {
			wg.Go(func() {
				beat, stop := beats(rate)
				defer stop()
				for i := range each {
					e := event{agent: a, n: i, text: " token"}
					if beat != nil {
						<-beat
						e.at = time.Now()
					}
					ch <- e
				}
			})
		}
		go func() { wg.Wait(); close(ch) }()
		n := 0
		for e := range ch {
			if n++; rate > 0 {
				late = append(late, float64(time.Since(e.at).Nanoseconds())/1e3)
			}
		}
		if n != agents*each {
			return fmt.Errorf("%d events arrived, want %d", n, agents*each)
		}
		return nil
	}, after: func(r *record) {
		r.Extra["events_per_s"] = float64(r.N) / median(r.WallMs) * 1000
		if len(late) > 0 {
			r.Extra["lat_p50_us"], r.Extra["lat_p99_us"] = percentile(late, 0.5), percentile(late, 0.99)
		}
	}}
}

// beats returns a beat for each event, or nil without a rate.
func beats(rate int) (beat <-chan time.Time, stop func()) {
	if rate <= 0 {
		return nil, func() {}
	}
	t := time.NewTicker(time.Second / time.Duration(rate))
	return t.C, t.Stop
}
